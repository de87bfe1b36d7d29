#include "report/weighing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "job/keys.h"
#include "report/bar.h"
#include "report/host_need.h"
#include "report/table.h"
#include "report/time_table.h"
#include "report/verdict_words.h"

namespace steelyard {
namespace {

constexpr int kLabelColumns = 21;   // two blanks, the longest pile, two blanks
constexpr int kNumberColumns = 9;   // "  1,103.2"
constexpr int kPercentColumns = 8;  // "    65 %"
constexpr int kNarrow = 60;         // below it the bars go first

struct Row {
  std::string label;
  Bytes bytes{};
  std::string note;
};

const PhasePrediction* phase_of(const RankPrediction& rank, Phase phase) {
  for (const PhasePrediction& candidate : rank.phases)
    if (candidate.phase == phase) return &candidate;
  return nullptr;
}

std::string rank_fact(const Job& job, const Prediction& prediction, const Scale& scale,
                      bool rehearsed) {
  const RankPrediction& fullest = prediction.ranks[peak_rank_index(prediction)];
  if (rehearsed && job.cluster.devices > Ranks(1))
    return fmt::format("rank {} of {}", fullest.rank, print_count(job.cluster.devices));
  if (prediction.ranks.size() == 1)
    return job.cluster.devices == 1
               ? "one device"
               : fmt::format("all {} ranks alike", print_count(job.cluster.devices));
  const auto lightest =
      std::min_element(prediction.ranks.begin(), prediction.ranks.end(),
                       [](const auto& a, const auto& b) { return a.device < b.device; });
  return fmt::format("rank {}, stage {} of {}, is the fullest; the least: {} on stage {}",
                     fullest.rank, fullest.pipeline + 1, job.parallel.pipeline,
                     number_of(lightest->device, scale), lightest->pipeline + 1);
}

std::string crossing_fact(const Prediction& prediction) {
  const RankPrediction& rank = prediction.ranks[peak_rank_index(prediction)];
  const auto crosses = [&](const PhasePrediction& phase) {
    return phase.reserved + phase.runtime > prediction.usable;
  };
  if (prediction.verdict == Verdict::kDoesNotFit) {
    if (!rank.phases.empty() && crosses(rank.phases.front()))
      return fmt::format("crosses the line in {}", name_of(rank.phases.front().phase));
    for (const PhasePrediction& phase : rank.first_step.phases)
      if (crosses(phase)) return fmt::format("crosses the line in {}", name_of(phase.phase));
    for (const PhasePrediction& phase : rank.phases)
      if (crosses(phase))
        return fmt::format("the first step may pass, {} of the next crosses the line",
                           name_of(phase.phase));
  }
  return fmt::format("peak in {}", name_of(prediction.peak.phase));
}

// The largest thing of a pile, if it makes most of it: the word that a reader would search for.
std::string note_of(const std::optional<Moment>& moment, Pile pile, Bytes bytes) {
  if (!moment || (pile != Pile::kTemporary && pile != Pile::kCommunication)) return "";
  for (const Holding& holding : moment->alive)
    if (holding.pile == pile) {
      if (holding.total + holding.total < bytes) return "";
      const std::string copies =
          holding.count > 1 ? fmt::format(", {} times", print_count(holding.count)) : "";
      return holding.name + copies;
    }
  return "";
}

std::vector<Row> rows_of(const Weighing& weighing) {
  const Prediction& prediction = weighing.prediction;
  const PeakPrediction& peak = prediction.peak;
  const PhasePrediction* phase =
      phase_of(prediction.ranks[peak_rank_index(prediction)], peak.phase);
  std::vector<Row> rows;
  if (phase != nullptr)
    for (int i = 0; i < kPileCount; ++i) {
      const auto pile = static_cast<Pile>(i);
      const Bytes bytes = phase->piles[pile];
      if (bytes > Bytes())
        rows.push_back({words_of(pile), bytes, note_of(weighing.moment, pile, bytes)});
    }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.bytes > b.bytes; });
  const Bytes slack = peak.reserved - peak.allocated;
  const Bytes runtime = peak.device - peak.reserved;
  // Two small rows of the machine read as one; a large one stands alone.
  if ((slack + runtime).value() * Checked(10) < peak.device.value()) {
    if (slack + runtime > Bytes()) rows.push_back({"slack + runtime", slack + runtime, ""});
  } else {
    if (slack > Bytes()) rows.push_back({"slack", slack, ""});
    if (runtime > Bytes()) rows.push_back({"runtime", runtime, ""});
  }
  return rows;
}

double share_of(Bytes part, Bytes whole) {
  return static_cast<double>(part.value().value()) /
         static_cast<double>(std::max<std::int64_t>(whole.value().value(), 1));
}

// How the bars stand on this screen.
struct Layout {
  bool bars = true;
  bool percent = true;
  int bar_columns = 0;
};

Layout layout_of(const Style& style) {
  Layout layout;
  layout.bars = style.bars && style.width >= kNarrow;
  layout.percent = style.width >= kLabelColumns + kNumberColumns + kPercentColumns;
  const int width = std::min(style.width, 120);
  if (layout.bars)
    layout.bar_columns = std::min(38 + std::max(0, width - 80),
                                  width - kLabelColumns - kNumberColumns - kPercentColumns);
  return layout;
}

std::string bar_line(const Style& style, const Layout& layout, const std::string& label,
                     std::string drawn, const std::string& note, const std::string& number,
                     const std::string& percent) {
  std::string line = padded_right("  " + label, kLabelColumns);
  if (layout.bars) {
    // A note stands where the bar leaves room for it; its first piece is tried alone.
    if (!note.empty() &&
        columns_of(drawn) + (drawn.empty() ? 0 : 2) + columns_of(note) <= layout.bar_columns)
      drawn += (drawn.empty() ? "" : "  ") + painted(style, Ink::kQuiet, note);
    line += padded_right(std::move(drawn), layout.bar_columns);
  }
  line += padded_left(number, kNumberColumns);
  // A share, or a word that judges the row.
  if (layout.percent && !percent.empty())
    line += percent.front() == ' ' ? percent : padded_left(percent, kPercentColumns);
  return line + "\n";
}

// What is held between steps and grows with the model alone: all four piles stand together when the optimizer steps.
Bytes states_alone(const Prediction& prediction) {
  const PhasePrediction* phase =
      phase_of(prediction.ranks[peak_rank_index(prediction)], Phase::kOptimizer);
  if (phase == nullptr) return Bytes();
  return phase->piles[Pile::kParameters] + phase->piles[Pile::kGradients] +
         phase->piles[Pile::kMasterWeights] + phase->piles[Pile::kOptimizerMoments];
}

std::string weights_line(const Prediction& prediction, const Style& style, const Layout& layout,
                         Bytes whole, const Scale& scale) {
  const Bytes weights = prediction.weights_alone;
  std::string note;
  if (weights < prediction.peak.device)
    note = fmt::format(
        "training adds {}",
        number_of_ticks(ticks_of(prediction.peak.device, scale) - ticks_of(weights, scale), scale));
  else if (weights > prediction.usable)
    note = prediction.ranks.size() > 1 || prediction.ranks.front().replicas > 1
               ? "of the whole model; here divided"
               : "in 16 bits; here in fewer";
  // More than the screen's scale cannot be drawn: the words stand alone.
  const std::string drawn =
      weights <= whole ? bar(style, share_of(weights, whole), layout.bar_columns) : "";
  std::string line =
      bar_line(style, layout, "weights alone", drawn, note, number_of(weights, scale),
               weights <= prediction.usable ? "  fit" : "  do not fit");
  if (!layout.bars && !note.empty()) line += "    " + note + "\n";
  return line;
}

std::string bars_text(const Weighing& weighing, const Style& style) {
  const Prediction& prediction = weighing.prediction;
  const Scale scale = scale_of(prediction, style.units);
  const Layout layout = layout_of(style);
  const Bytes whole = std::max(prediction.peak.device, prediction.usable);
  const std::vector<Row> rows = rows_of(weighing);
  std::vector<Bytes> parts;
  for (const Row& row : rows) parts.push_back(row.bytes);
  const std::vector<std::int64_t> ticks = apportioned(parts, scale);

  const std::string where = weighing.moment && !weighing.moment->where.empty()
                                ? weighing.moment->where
                                : std::string(name_of(prediction.peak.phase));
  // The unit heads its column; where there is no room for both, it stands in the sentence.
  const int number_end = kLabelColumns + layout.bar_columns + kNumberColumns;
  std::string title = "at the peak: " + where;
  if (columns_of(title) + 2 + columns_of(scale.unit) <= number_end)
    title = padded_right(std::move(title), number_end - columns_of(scale.unit)) + scale.unit;
  else
    title = wrapped(style, fmt::format("at the peak ({}): {}", scale.unit, where), 2);
  std::string result = painted(style, Ink::kQuiet, title) + "\n";
  for (std::size_t i = 0; i < rows.size(); ++i)
    result += bar_line(style, layout, rows[i].label,
                       bar(style, share_of(rows[i].bytes, whole), layout.bar_columns), rows[i].note,
                       number_of_ticks(ticks[i], scale),
                       percent_of(rows[i].bytes, prediction.peak.device));
  const std::string total = number_of(prediction.peak.device, scale);
  result += bar_line(style, layout, layout.bars ? "" : "total",
                     line_with_limit(style, share_of(prediction.peak.device, whole),
                                     share_of(prediction.usable, whole), layout.bar_columns),
                     "", painted(style, Ink::kStrong, padded_left(total, kNumberColumns)), "");

  // Why it fits for inference and not for training: the weights beside everything that training adds.
  if (prediction.weights_alone > Bytes())
    result += weights_line(prediction, style, layout, whole, scale);
  // The rule of thumb that everyone quotes in GB: 16 bytes for each parameter, when that alone is too much.
  if (const Bytes states = states_alone(prediction); states > prediction.usable)
    result += bar_line(
        style, layout,
        style.units == Units::kBytes
            ? "states"
            : fmt::format(
                  "states ({} GB)",
                  print_count(std::llround(static_cast<double>(states.value().value()) / 1e9))),
        bar(style, share_of(states, whole), layout.bar_columns), "", number_of(states, scale),
        "  do not fit");
  return result;
}

// For the tokens of the run's own step: "+2.2 s".
std::string step_of(const Suggestion& suggestion) {
  if (!suggestion.costs) return "?";
  const double seconds = suggestion.costs->value();
  return (seconds < 0 ? "-" : "+") + print_seconds(Seconds(std::abs(seconds)));
}

std::string suggestions_text(const Weighing& weighing, const Style& style) {
  const Prediction& prediction = weighing.prediction;
  if (weighing.suggestions.empty()) {
    if (weighing.rehearsed || prediction.verdict != Verdict::kDoesNotFit) return "";
    return "\n" +
           wrapped(style,
                   "no single change of this run file makes it fit: more or larger devices "
                   "(steelyard list devices), or a smaller model",
                   0) +
           "\n";
  }
  const Scale scale = scale_of(prediction, style.units);
  const bool timed = std::any_of(weighing.suggestions.begin(), weighing.suggestions.end(),
                                 [](const Suggestion& one) { return one.costs.has_value(); });
  std::vector<Column> columns = {
      {"a change that fits"}, {"keys", true}, {"peak", true}, {"saves", true}};
  if (timed) columns.push_back({"step", true});
  columns.push_back({"costs"});
  Table table(std::move(columns));
  int number = 0;
  for (const Suggestion& suggestion : weighing.suggestions) {
    std::vector<std::string> cells = {fmt::format("{}  {}", ++number, suggestion.parts[0].change),
                                      std::to_string(suggestion.edits.size()),
                                      number_of(suggestion.peak, scale),
                                      number_of(suggestion.saves, scale)};
    if (timed) cells.push_back(step_of(suggestion));
    cells.push_back(suggestion.parts[0].moves_cost_to);
    table.add(std::move(cells));
    // What it is made of stands below, each part with what it costs.
    for (std::size_t part = 1; part < suggestion.parts.size(); ++part) {
      std::vector<std::string> more(timed ? 6 : 5);
      more.front() = "   + " + suggestion.parts[part].change;
      more.back() = suggestion.parts[part].moves_cost_to;
      table.add(std::move(more));
    }
  }
  return "\n" + table.text(style);
}

// What nobody said and most of the answer rests on.
std::vector<std::string> driving_assumptions(const Job& job, const Prediction& prediction) {
  std::vector<std::string> assumed;
  for (const Assumption& one : prediction.assumptions) {
    if (one.key == key_of(KeyId::kSequenceLength).path)
      assumed.push_back(fmt::format("{} tokens", print_count(job.training.sequence_length)));
    if (one.key == key_of(KeyId::kMicroBatch).path) assumed.push_back("micro-batch " + one.value);
    if (one.key == key_of(KeyId::kEngine).path) assumed.push_back(one.value);
    if (one.key == key_of(KeyId::kMachine).path) assumed.push_back("in " + one.value);
  }
  if (!assumed.empty()) assumed.front() = "assumed: " + assumed.front();
  return assumed;
}

std::string closing_line(const Weighing& weighing, const Style& style) {
  std::vector<std::string> parts;
  const std::size_t assumed = weighing.prediction.assumptions.size();
  if (assumed > 0)
    parts.push_back(
        fmt::format("{} {} (-v)", assumed, assumed == 1 ? "assumption" : "assumptions"));
  if (!weighing.suggestions.empty()) parts.emplace_back("try one: --apply 1");
  const std::vector<Row> rows = rows_of(weighing);
  if (!weighing.arguments.empty() && !rows.empty())
    for (int i = 0; i < kPileCount; ++i)
      if (words_of(static_cast<Pile>(i)) == rows.front().label)
        parts.push_back(fmt::format("why: steelyard explain {} {}", weighing.arguments,
                                    name_of(static_cast<Pile>(i))));
  return parts.empty() ? "" : painted(style, Ink::kQuiet, facts(style, parts)) + "\n";
}

}  // namespace

Scale scale_of(const Prediction& prediction, Units units) {
  return scale_for(prediction.peak.device, units);
}

std::string words_of(Pile pile) {
  std::string words(name_of(pile));
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::size_t peak_rank_index(const Prediction& prediction) {
  for (std::size_t i = 0; i < prediction.ranks.size(); ++i)
    if (prediction.ranks[i].rank == prediction.peak.rank) return i;
  return 0;
}

int fact_indent(const Prediction& prediction) {
  return columns_of(verdict_words(prediction.verdict)) + 3;
}

std::string verdict_line(const Prediction& prediction, const Style& style) {
  const PeakPrediction& peak = prediction.peak;
  const Scale scale = scale_of(prediction, style.units);
  const std::int64_t spare = ticks_of(prediction.usable, scale) - ticks_of(peak.device, scale);
  std::string judged;
  if (prediction.verdict == Verdict::kDoesNotFit) {
    judged = spare < 0 ? fmt::format("{} too much", number_of_ticks(-spare, scale)) : "too much";
  } else if (prediction.verdict == Verdict::kTight && peak.high > prediction.usable) {
    judged = "the band crosses the line";
  } else {
    judged = fmt::format("{} spare", number_of_ticks(spare, scale));
  }
  if (peak.high <= prediction.usable && prediction.host_verdict != Verdict::kFits)
    judged = prediction.host_verdict == Verdict::kTight ? "the host may lack memory"
                                                        : "the host lacks memory";
  const std::string verdict =
      painted(style, ink_of(prediction.verdict), verdict_words(prediction.verdict)) + "   ";
  const std::string needs = fmt::format(
      "needs {} {} ({} to {})", painted(style, Ink::kStrong, number_of(peak.device, scale)),
      scale.unit, number_of(peak.low, scale), number_of(peak.high, scale));
  const std::string limit =
      fmt::format("usable {}: {}\n", number_of(prediction.usable, scale), judged);
  if (columns_of(verdict) + columns_of(needs) + 2 + columns_of(limit) - 1 <= style.width)
    return verdict + needs + ", " + limit;
  return verdict + needs + "\n" +
         std::string(static_cast<std::size_t>(fact_indent(prediction)), ' ') + limit;
}

std::string weighing_text(const Weighing& weighing, const Style& style) {
  const Prediction& prediction = weighing.prediction;
  const Scale scale = scale_of(prediction, style.units);
  const int indent = fact_indent(prediction);
  std::string result = verdict_line(prediction, style);
  result.append(static_cast<std::size_t>(indent), ' ');
  const std::vector<std::string> known = {
      rank_fact(weighing.job, prediction, scale, weighing.rehearsed), crossing_fact(prediction)};
  result += facts(style, with_host(known, weighing.job, prediction, style), indent) + "\n";
  const std::vector<std::string> assumed = driving_assumptions(weighing.job, prediction);
  if (!assumed.empty())
    result +=
        std::string(static_cast<std::size_t>(indent), ' ') + facts(style, assumed, indent) + "\n";
  result += "\n";
  result += bars_text(weighing, style);
  result += suggestions_text(weighing, style);
  result += closing_line(weighing, style);
  return without_trailing_blanks(result);
}

}  // namespace steelyard
