#include "report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "report/amount.h"
#include "report/prediction_json.h"
#include "report/table.h"
#include "report/time_table.h"
#include "report/verdict_words.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSigns = 14;  // the longest row of plus or minus signs, where there is room

struct PileRow {
  std::string label;
  Bytes before{}, after{};

  Bytes delta() const { return after - before; }
  Bytes size() const { return delta() < Bytes() ? Bytes() - delta() : delta(); }
};

const PhasePrediction* peak_phase(const Prediction& prediction) {
  const RankPrediction& rank = prediction.ranks[peak_rank_index(prediction)];
  for (const PhasePrediction& phase : rank.phases)
    if (phase.phase == rank.phase) return &phase;
  return nullptr;
}

// Piles at each peak, then slack and runtime: together they are the bytes on the device.
std::vector<PileRow> rows_of(const Prediction& before, const Prediction& after) {
  std::vector<PileRow> rows;
  const PhasePrediction* a = peak_phase(before);
  const PhasePrediction* b = peak_phase(after);
  for (int i = 0; i < kPileCount; ++i) {
    const auto pile = static_cast<Pile>(i);
    rows.push_back({words_of(pile), a == nullptr ? Bytes() : a->piles[pile],
                    b == nullptr ? Bytes() : b->piles[pile]});
  }
  rows.push_back({"slack", before.peak.reserved - before.peak.allocated,
                  after.peak.reserved - after.peak.allocated});
  rows.push_back({"runtime", before.peak.device - before.peak.reserved,
                  after.peak.device - after.peak.reserved});
  std::stable_sort(rows.begin(), rows.end(),
                   [](const PileRow& x, const PileRow& y) { return x.size() > y.size(); });
  return rows;
}

std::int64_t tokens_of(const Job& job) {
  return (Checked(job.training.global_batch) * Checked(job.training.sequence_length)).value();
}

// `room` is the longest row of signs.
std::string signs(const PileRow& row, Bytes largest, int room) {
  const double share = static_cast<double>(row.size().value().value()) /
                       static_cast<double>(std::max<std::int64_t>(largest.value().value(), 1));
  const auto count = static_cast<std::size_t>(std::max(1L, std::lround(share * room)));
  return std::string(count, row.delta() > Bytes() ? '+' : '-');
}

Scale scale_of(const Compared& before, const Compared& after, const Style& style) {
  return scale_for(std::max(before.prediction.peak.device, after.prediction.peak.device),
                   style.units);
}

}  // namespace

bool same_batch(const Job& before, const Job& after) {
  return before.training.global_batch == after.training.global_batch &&
         before.training.sequence_length == after.training.sequence_length;
}

bool differ(const Compared& before, const Compared& after) {
  if (before.prediction.verdict != after.prediction.verdict || !same_batch(before.job, after.job))
    return true;
  for (const PileRow& row : rows_of(before.prediction, after.prediction))
    if (row.delta() != Bytes()) return true;
  return false;
}

std::string comparison_line(const Compared& before, const Compared& after, const Style& style) {
  const Scale scale = scale_of(before, after, style);
  const std::int64_t a = ticks_of(before.prediction.peak.device, scale);
  const std::int64_t b = ticks_of(after.prediction.peak.device, scale);
  const std::string word = b > a ? "grew" : b < a ? "shrank" : "same";
  std::string result = painted(style, Ink::kStrong, word);
  if (a == b) {
    result += fmt::format("   {} {}", number_of_ticks(a, scale), scale.unit);
  } else {
    result +=
        fmt::format("   {} -> {} {}: {} {}", number_of_ticks(a, scale), number_of_ticks(b, scale),
                    scale.unit, number_of_ticks(std::abs(b - a), scale), b > a ? "more" : "less");
  }
  const std::string first = verdict_words(before.prediction.verdict);
  const std::string second = verdict_words(after.prediction.verdict);
  result +=
      std::string(dot(style)) + (first == second ? "both: " + first : first + " -> " + second);
  return result + "\n";
}

std::string step_line(const Compared& before, const Compared& after) {
  if (!before.prediction.time || !after.prediction.time) return "";
  const Seconds a = before.prediction.time->step, b = after.prediction.time->step;
  const double percent = 100 * (b.value() / a.value() - 1);
  if (std::abs(percent) < 0.05) return fmt::format("step   {}\n", print_seconds(a));
  return fmt::format("step   {} -> {}: {:.1f} % {}\n", print_seconds(a), print_seconds(b),
                     std::abs(percent), percent > 0 ? "more" : "less");
}

std::string batch_line(const Compared& before, const Compared& after, const Style& style) {
  const Training& training = after.job.training;
  if (same_batch(before.job, after.job))
    return fmt::format("{}   {} sequences, {} tokens a step: the schedule can stay\n",
                       painted(style, Ink::kGood, "same batch"), print_count(training.global_batch),
                       print_count(tokens_of(after.job)));
  return fmt::format("{}   {} -> {} sequences, {} -> {} tokens a step\n",
                     painted(style, Ink::kWarning, "different batch"),
                     print_count(before.job.training.global_batch),
                     print_count(training.global_batch), print_count(tokens_of(before.job)),
                     print_count(tokens_of(after.job)));
}

std::string batch_text(const Compared& before, const Compared& after, const Style& style) {
  Table table({{""}, {before.name, true}, {after.name, true}, {""}});
  const auto row = [&](const char* label, std::int64_t a, std::int64_t b) {
    table.add({label, print_count(a), print_count(b), a == b ? "unchanged" : ""});
  };
  const Job& a = before.job;
  const Job& b = after.job;
  row("micro-batch", a.training.micro_batch, b.training.micro_batch);
  row("accumulation", a.training.gradient_accumulation, b.training.gradient_accumulation);
  row("data-parallel", a.parallel.data, b.parallel.data);
  row("product", a.training.global_batch, b.training.global_batch);
  row("sequence length", a.training.sequence_length, b.training.sequence_length);
  std::string result = batch_line(before, after, style) + "\n" + table.text(style);
  const auto sharing = [&](const Job& job, const std::string& name) {
    const std::int64_t together = (Checked(job.parallel.tensor) * Checked(job.parallel.context) *
                                   Checked(job.parallel.pipeline))
                                      .value();
    return together == 1 ? fmt::format("{}: {} groups read different sequences, one rank each",
                                       name, print_count(job.parallel.data))
                         : fmt::format(
                               "{}: {} groups read different sequences, {} ranks share each "
                               "(tensor {}, context {}, pipeline {}): the sampler must use the "
                               "data rank, not the global rank",
                               name, print_count(job.parallel.data), print_count(together),
                               job.parallel.tensor, job.parallel.context, job.parallel.pipeline);
  };
  result += "\n" + wrapped(style, sharing(a, before.name), 2) + "\n" +
            wrapped(style, sharing(b, after.name), 2) + "\n";
  return without_trailing_blanks(result);
}

std::string piles_table(const Compared& before, const Compared& after, const Style& style) {
  const Scale scale = scale_of(before, after, style);
  const std::vector<PileRow> rows = rows_of(before.prediction, after.prediction);
  // Rounded so that each column adds up to its total as printed.
  std::vector<Bytes> left;
  std::vector<Bytes> right;
  for (const PileRow& row : rows) {
    left.push_back(row.before);
    right.push_back(row.after);
  }
  const std::vector<std::int64_t> a = apportioned(left, scale);
  const std::vector<std::int64_t> b = apportioned(right, scale);
  // Long names leave less room for the signs.
  const int used =
      19 + std::max(columns_of(before.name), 7) + std::max(columns_of(after.name), 7) + 15;
  const int room = std::clamp(style.width - used, 4, kSigns);
  Table table({{scale.unit}, {before.name, true}, {after.name, true}, {"delta", true}, {""}});
  const auto cell = [&](Bytes bytes, std::int64_t ticks) {
    return bytes == Bytes() ? std::string("-") : number_of_ticks(ticks, scale);
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].before == Bytes() && rows[i].after == Bytes()) continue;
    table.add({rows[i].label, cell(rows[i].before, a[i]), cell(rows[i].after, b[i]),
               signed_number_of_ticks(b[i] - a[i], scale),
               style.bars && a[i] != b[i] ? signs(rows[i], rows.front().size(), room) : ""});
  }
  const std::int64_t total_a = ticks_of(before.prediction.peak.device, scale);
  const std::int64_t total_b = ticks_of(after.prediction.peak.device, scale);
  table.add({"total", number_of_ticks(total_a, scale), number_of_ticks(total_b, scale),
             signed_number_of_ticks(total_b - total_a, scale), ""});
  return table.text(style);
}

std::string changed_keys_text(const std::vector<ChangedKey>& changed) {
  std::string result;
  int wide = 0;
  for (const ChangedKey& key : changed) wide = std::max(wide, columns_of(key.key));
  for (const ChangedKey& key : changed) {
    const char mark = key.before.empty() ? '+' : key.after.empty() ? '-' : '~';
    std::string line = fmt::format("{} {}  ", mark, padded_right(key.key, wide));
    if (!key.before.empty()) line += key.before;
    if (!key.before.empty() && !key.after.empty()) line += " -> ";
    result += line + key.after + "\n";
  }
  return result;
}

std::string comparison_text(const Compared& before, const Compared& after,
                            const std::vector<ChangedKey>& changed, const Style& style) {
  const Scale scale = scale_of(before, after, style);
  const std::vector<PileRow> rows = rows_of(before.prediction, after.prediction);
  std::string result = comparison_line(before, after, style);
  Bytes moved{};
  for (const PileRow& row : rows) moved += row.size();
  if (moved > Bytes() && rows.front().size().value() * Checked(5) >= moved.value() * Checked(4))
    result += fmt::format("       one pile explains it: {} {}\n", rows.front().label,
                          signed_number_of_ticks(ticks_of(rows.front().delta(), scale), scale));
  result += step_line(before, after);
  result += "\n" + piles_table(before, after, style);
  if (!changed.empty()) result += "\n" + changed_keys_text(changed);
  result += "\n" + batch_line(before, after, style);
  return without_trailing_blanks(result);
}

Json json_of(const Compared& before, const Compared& after,
             const std::vector<ChangedKey>& changed) {
  Json piles = Json::array();
  for (const PileRow& row : rows_of(before.prediction, after.prediction)) {
    std::string name = row.label;
    std::replace(name.begin(), name.end(), ' ', '_');
    piles.push_back({{"pile", name},
                     {"before_bytes", row.before.value().value()},
                     {"after_bytes", row.after.value().value()},
                     {"delta_bytes", row.delta().value().value()}});
  }
  Json keys = Json::array();
  for (const ChangedKey& key : changed)
    keys.push_back({{"key", key.key}, {"before", key.before}, {"after", key.after}});
  return {
      {"schema", "steelyard.comparison/1"},
      {"same", !differ(before, after)},
      {"same_batch", same_batch(before.job, after.job)},
      {"delta_device_bytes",
       (after.prediction.peak.device - before.prediction.peak.device).value().value()},
      {"piles", std::move(piles)},
      {"changed", std::move(keys)},
      {"before",
       {{"name", before.name}, {"prediction", json_of(before.job, before.prediction, {}, false)}}},
      {"after",
       {{"name", after.name}, {"prediction", json_of(after.job, after.prediction, {}, false)}}}};
}

}  // namespace steelyard
