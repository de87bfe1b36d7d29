#include "report/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "report/amount.h"
#include "report/host_need.h"
#include "report/plan_unfinished.h"
#include "report/table.h"
#include "report/time_table.h"
#include "report/verdict_words.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

std::string memory(Bytes bytes, const Style& style) { return print_memory(bytes, style.units); }
std::string memory(std::int64_t bytes, const Style& style) { return memory(Bytes(bytes), style); }

TimeTerm most_of(const StepTime& time) {
  std::size_t most = 0;
  for (std::size_t i = 1; i < kTimeTerms; ++i)
    if (time.terms.seconds[i] > time.terms.seconds[most]) most = i;
  return static_cast<TimeTerm>(most);
}

// What costs most beside arithmetic.
std::string bound_words(const StepTime& time) {
  TimeTerms others = time.terms;
  others[TimeTerm::kCompute] = 0;
  StepTime rest = time;
  rest.terms = others;
  const TimeTerm most = most_of(rest);
  const double share = rest.terms[most] / time.step.value();
  return share < 0.02 ? "compute" : fmt::format("{} {:.0f} %", name_of(most), 100 * share);
}

std::string lines_of(const Style& style, const std::string& name,
                     const std::vector<std::string>& parts) {
  constexpr int kIndent = 7;
  return painted(style, Ink::kStrong, padded_right(name, kIndent)) + facts(style, parts, kIndent) +
         "\n";
}

std::vector<std::string> layout_parts(const Layout& layout) {
  std::vector<std::string> parts;
  std::string words = words_of(layout, "\n");
  for (std::size_t from = 0; from <= words.size();) {
    const std::size_t end = std::min(words.find('\n', from), words.size());
    parts.push_back(words.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

// With what it changes of the recipe.
std::vector<std::string> row_parts(const PlanRow& row) {
  std::vector<std::string> parts = layout_parts(row.layout);
  if (!row.recipe.empty()) parts.push_back(row.recipe);
  return parts;
}
std::string row_words(const PlanRow& row) {
  return words_of(row.layout, " ") + (row.recipe.empty() ? "" : " " + row.recipe);
}

std::vector<std::string> measure_parts(const PlanRow& row, const Style& style) {
  std::vector<std::string> parts = {
      fmt::format("{} a step ({} to {})", print_seconds(row.time.step), print_seconds(row.time.low),
                  print_seconds(row.time.high)),
      fmt::format("{:.0f} tokens/s a device", row.time.tokens_per_second_per_device),
      fmt::format("{:.0f} % MFU", 100 * row.time.model_flops_utilization),
      fmt::format("{}: {} of {} {}{}", verdict_words(row.prediction.verdict),
                  memory(row.prediction.peak.device, style), memory(row.prediction.usable, style),
                  memory_unit(style.units),
                  row.layout.pipeline > 1
                      ? fmt::format(" on stage {}", row.prediction.peak.pipeline)
                      : std::string())};
  return with_host(std::move(parts), row.job, row.prediction, style);
}

// "tensor +3.1 s, recompute +2.0 s"
std::string difference_words(const StepTime& faster, const StepTime& slower) {
  std::string text;
  const auto differences = term_differences(faster, slower);
  for (std::size_t i = 0; i < differences.size() && i < 2; ++i) {
    const auto& [term, seconds] = differences[i];
    if (seconds <= 0) break;
    text += fmt::format("{}{} +{}", text.empty() ? "" : ", ", name_of(term),
                        print_seconds(Seconds(seconds)));
  }
  return text;
}

// A steady plan may be slower than what it is compared with.
std::string slower_words(const PlanRow& best, const PlanRow& other) {
  const double share = other.time.step.value() / best.time.step.value() - 1;
  const std::string why = difference_words(best.time, other.time);
  return fmt::format("{}, {:.0f} % {}{}", print_seconds(other.time.step), 100 * std::abs(share),
                     share < 0 ? "faster" : "slower", why.empty() ? "" : ": " + why);
}

// Why the answer is not the fastest.
std::string steadiness_text(const PlanAnswer& answer, const Style& style) {
  const Steadiness& why = *answer.steadiness;
  const PlanRow& best = answer.rows.front();
  // A front is listed instead of the rows.
  const bool is_listed = answer.front.empty() && answer.rows.size() > 1;
  return lines_of(style, "steady",
                  {fmt::format("draws with the fastest{} on {}, which is assumed",
                               is_listed ? " (2)" : "", best.job.cluster.machine->name),
                   fmt::format("on {} {}, where that takes {:.0f} % longer",
                               why.there.machine->name, print_seconds(why.there.step),
                               100 * (why.fastest_there.value() / why.there.step.value() - 1)),
                   "--machine says which it is"});
}

std::string batch_words(const PlanQuestion& question) {
  const std::int64_t sequences = question.target.global_batch;
  return fmt::format("{} sequences, {} tokens a step: the schedule can stay",
                     print_count(sequences),
                     print_count(Checked(sequences) * question.target.sequence_length));
}

std::string question_text(const FirstQuestion& first, const Style& style) {
  const Bytes most = std::max({first.activations, first.optimizer, first.replicated});
  const std::string what = most == first.activations ? "activations"
                           : most == first.optimizer ? "optimizer state"
                           : first.shared            ? "parameters"
                                                     : "replicated parameters";
  std::string text =
      lines_of(style, "first",
               {fmt::format("{}, {} of {} {} as it is written", what, memory(most, style),
                            memory(first.need, style), memory_unit(style.units)),
                fmt::format("{} usable", memory(first.usable, style))});
  std::vector<std::string> moves;
  for (const FirstQuestion::Move& move : first.moves)
    if (move.need != first.need)  // what is so already is no move
      moves.push_back(
          fmt::format("{} {}{}", move.words, memory(move.need, style), move.fits ? " fits" : ""));
  return moves.empty() ? text : text + "       " + facts(style, moves, 7) + "\n";
}

// Those that help, fastest first, behind the others those that ask more of the host than the usual machine has; then the names
// of those that do not.
std::string ways_text(const std::vector<WayOut>& ways, const Style& style) {
  std::vector<const WayOut*> open;
  std::vector<std::string> closed;
  for (const WayOut& way : ways) {
    if (way.row)
      open.push_back(&way);
    else
      closed.push_back(way.change);
  }
  const auto lacks = [](const WayOut* way) {
    return lacking_host_memory(way->row->job, way->row->prediction);
  };
  std::stable_sort(open.begin(), open.end(), [&](const WayOut* a, const WayOut* b) {
    return std::pair(lacks(a).has_value(), a->row->time.step) <
           std::pair(lacks(b).has_value(), b->row->time.step);
  });
  const bool hosts = std::any_of(open.begin(), open.end(), [](const WayOut* way) {
    return !way->row->prediction.holdings.empty();
  });
  const std::string unit(memory_unit(style.units));
  std::vector<Column> columns = {{"what would have to change"}, {"peak, " + unit, true}};
  if (hosts) columns.push_back({"host, " + unit, true});
  columns.push_back({"step", true});
  columns.push_back({"layout"});
  Table table(std::move(columns));
  for (const WayOut* way : open) {
    const Prediction& prediction = way->row->prediction;
    std::vector<std::string> cells = {way->change, memory(prediction.peak.device, style)};
    if (hosts) {
      std::string host = prediction.holdings.empty() ? "-" : memory(prediction.host_of_node, style);
      if (const auto has = lacks(way)) host += " of " + memory(*has, style);
      cells.push_back(std::move(host));
    }
    cells.push_back(print_seconds(way->row->time.step));
    cells.push_back(words_of(way->row->layout, " "));
    table.add(std::move(cells));
  }
  std::string text = "\n" + (open.empty() ? "" : table.text(style));
  if (!closed.empty()) text += lines_of(style, open.empty() ? "tried" : "not by", closed);
  return text;
}

std::string rejected_text(const PlanAnswer& answer, const Style& style) {
  std::string text;
  std::size_t shown = 0;
  for (const TooLarge& group : answer.result.too_large) {
    if (++shown > 3) break;
    const Layout& layout = answer.space.layout(group.nearest);
    std::string line =
        fmt::format("{} too large by {}: the nearest misses by {} {}", print_count(group.layouts),
                    group.certain ? std::string("weights, states and what layers keep")
                    : group.host  ? std::string("what waits on the host")
                                  : words_of(group.binds),
                    memory(group.least_excess, style), memory_unit(style.units));
    if (const WeighedLayout* fit = nearest_fit(answer.result, answer.space, layout)) {
      const Layout& other = layout_of(answer.space, *fit);
      std::string change = words_of_change(layout, other);
      if (other.recipe != layout.recipe)
        change += (change.empty() ? "" : ", ") +
                  (other.recipe == 0 ? "no " + answer.space.recipes[layout.recipe].name
                                     : answer.space.recipes[other.recipe].name);
      line += "; admits it: " + change;
    }
    text += "  " + wrapped(style, line, 4) + "\n";
  }
  for (std::size_t i = 0; i < answer.result.refusals.size() && i < 2; ++i) {
    const Refusal& refusal = answer.result.refusals[i];
    text += "  " +
            wrapped(style,
                    fmt::format("{} not allowed [{}]: {}", print_count(refusal.layouts),
                                refusal.code, refusal.words),
                    4) +
            "\n";
  }
  return text;
}

// Layouts beside each other: the tight ones with their band, the sure ones numbered.
std::string layouts_text(const std::vector<PlanRow>& tight, const std::vector<PlanRow>& sure,
                         const Style& style) {
  std::vector<const PlanRow*> rows;
  for (const PlanRow& row : tight) rows.push_back(&row);
  for (const PlanRow& row : sure) rows.push_back(&row);
  const auto any = [&rows](auto has) {
    return std::any_of(rows.begin(), rows.end(), [&](const PlanRow* row) { return has(*row); });
  };
  const bool experts = any([](const PlanRow& row) { return row.layout.expert > 1; });
  const bool contexts = any([](const PlanRow& row) { return row.layout.context > 1; });
  std::vector<Column> columns = {{" "}, {"engine"}, {"tp", true}, {"pp", true}, {"dp", true}};
  if (contexts) columns.push_back({"cp", true});
  if (experts) columns.push_back({"ep", true});
  for (const char* heading : {"zero", "mbs"}) columns.push_back({heading, true});
  columns.push_back({"recompute"});
  columns.push_back({fmt::format("peak, {}", memory_unit(style.units)), true});
  columns.push_back({"step", true});
  columns.push_back({"MFU", true});
  columns.push_back({"costs most"});
  const bool changes = any([](const PlanRow& row) { return !row.recipe.empty(); });
  if (changes) columns.push_back({"with"});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PlanRow& row = *rows[i];
    const bool is_tight = i < tight.size();
    const Layout& layout = row.layout;
    const auto count = [](std::int64_t value) { return fmt::format("{}", value); };
    std::vector<std::string> cells = {
        is_tight ? std::string("tight") : fmt::format("{}", i - tight.size() + 1),
        std::string(name_of(layout.engine)), count(layout.tensor),
        layout.chunks > 1 ? fmt::format("{}x{}", layout.pipeline, layout.chunks)
                          : count(layout.pipeline),
        count(layout.data)};
    if (contexts) cells.push_back(count(layout.context));
    if (experts) cells.push_back(count(layout.expert));
    cells.push_back(count(layout.zero_stage));
    cells.push_back(count(layout.micro_batch));
    cells.push_back(recompute_words(layout));
    const PeakPrediction& peak = row.prediction.peak;
    cells.push_back(is_tight ? memory(peak.low, style) + "-" + memory(peak.high, style)
                             : memory(peak.device, style));
    cells.push_back(print_seconds(row.time.step));
    cells.push_back(fmt::format("{:.0f} %", 100 * row.time.model_flops_utilization));
    cells.push_back(bound_words(row.time));
    if (changes) cells.push_back(row.recipe);
    table.add(std::move(cells));
  }
  return table.text(style);
}

}  // namespace

std::string counts_text(const SearchCounts& counts, const Style& style) {
  std::vector<std::string> parts;
  const auto add = [&](std::int64_t count, const char* words) {
    if (count > 0) parts.push_back(fmt::format("{} {}", print_count(count), words));
  };
  add(counts.not_allowed, "not allowed");
  add(counts.certainly_too_large, "certainly too large");
  add(counts.cannot_be_faster, "that cannot be faster");
  add(counts.not_asked, "not asked");
  add(counts.weighed(), "weighed");
  std::string text = fmt::format("{} layouts = ", print_count(counts.layouts));
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : " + ") + parts[i];
  text += fmt::format(" ({} fit, {} tight, {} too large)", print_count(counts.fits),
                      print_count(counts.tight), print_count(counts.too_large));
  return wrapped(style, text, 2);
}

std::string plan_text(const PlanQuestion& question, const PlanAnswer& answer, double seconds,
                      const std::string& arguments, const Style& style) {
  std::string text;
  const auto& rows = answer.rows;
  if (rows.empty()) {
    text += (answer.result.interrupted
                 ? painted(style, Ink::kWarning, "not finished: nothing found yet")
                 : painted(style, Ink::kBad,
                           answer.tight.empty() ? "nothing fits" : "nothing is sure to fit")) +
            fmt::format("   {}{} on {} x {}\n", answer.result.interrupted ? "" : "no layout of ",
                        question.target.model->name, print_count(question.target.devices),
                        question.target.device->name);
    text += lines_of(style, "batch", {batch_words(question)});
    if (answer.space.empty() && !answer.result.interrupted)
      text += "       what is said does not divide the devices, the batch or the model\n";
    if (answer.first_question) text += question_text(*answer.first_question, style);
    if (!answer.tight.empty()) text += "\n" + layouts_text(answer.tight, {}, style);
    if (!answer.ways_out.empty()) text += ways_text(answer.ways_out, style);
    text += "\n";
  } else {
    const PlanRow& best = rows.front();
    text += lines_of(style, "best", row_parts(best));
    text += "       " + facts(style, measure_parts(best, style), 7) + "\n";
    if (answer.steadiness) text += steadiness_text(answer, style);
    text += lines_of(style, "batch", {batch_words(question)});
    if (answer.first_question) text += question_text(*answer.first_question, style);
    text +=
        "\n" + layouts_text(answer.tight, answer.front.empty() ? rows : answer.front, style) + "\n";
    if (answer.simplest)
      text += lines_of(style, "simple",
                       {row_words(*answer.simplest), slower_words(best, *answer.simplest)});
    if (answer.rule_of_thumb) {
      const PlanRow& thumb = answer.rule_of_thumb->row;
      text += lines_of(style, "thumb", {row_words(thumb), slower_words(best, thumb)});
    }
    std::vector<std::string> more;
    for (const Sensitivity& what : answer.sensitivity)
      more.push_back(what.step > 0 ? fmt::format("{} {:+.1f} %", what.change, -100 * what.gain)
                                   : what.change);
    if (!more.empty()) text += lines_of(style, "with", more);
    text += "\n";
  }
  text += fmt::format("{}, in {:.2f} s\n", counts_text(answer.result.counts, style), seconds);
  text += rejected_text(answer, style);
  if (answer.result.interrupted)
    text +=
        wrapped(style, unfinished_words(answer.result.counts, answer.space.unfinished), 2) + "\n";
  for (const std::string& note : answer.notes) text += wrapped(style, note, 2) + "\n";
  if (!rows.empty())
    text +=
        fmt::format("next: steelyard plan {} --why {} · --pareto · --write best.toml\n", arguments,
                    question.target.devices > 1 ? "tensor=2" : "recompute.mode=none");
  return without_trailing_blanks(text);
}

}  // namespace steelyard
