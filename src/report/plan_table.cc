#include "report/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "job/engine_rules.h"
#include "report/amount.h"
#include "report/host_need.h"
#include "report/plan_details.h"
#include "report/plan_stacks.h"
#include "report/plan_unfinished.h"
#include "report/table.h"
#include "report/time_table.h"
#include "report/verdict_words.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

std::string size_text(Bytes bytes, const Style& style) { return print_memory(bytes, style.units); }

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
  return named_line(style, name, parts);
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

// "fsdp2", or "torchtitan" where that is the code that fsdp2 runs here.
std::string runner_words(const Layout& layout) {
  return std::string(layout.implementation == rules_of(layout.engine).usual_implementation
                         ? name_of(layout.engine)
                         : name_of(layout.implementation));
}

// With what it changes of the recipe.
std::vector<std::string> row_parts(const PlanRow& row) {
  std::vector<std::string> parts = layout_parts(row.layout);
  if (runner_words(row.layout) != parts.front())
    parts.front() = fmt::format("{} ({})", runner_words(row.layout), parts.front());
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
      fmt::format("{:.0f} % MFU", 100 * row.time.model_flops_utilization),
      fmt::format("{}: {} of {} {}{}", verdict_words(row.prediction.verdict),
                  size_text(row.prediction.peak.device, style),
                  size_text(row.prediction.usable, style), memory_unit(style.units),
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
std::string speed_words(const PlanRow& best, const PlanRow& other) {
  const double share = other.time.step.value() / best.time.step.value() - 1;
  return fmt::format("{}, {:.0f} % {}", print_seconds(other.time.step), 100 * std::abs(share),
                     share < 0 ? "faster" : "slower");
}
std::string slower_words(const PlanRow& best, const PlanRow& other) {
  const std::string why = difference_words(best.time, other.time);
  return speed_words(best, other) + (why.empty() ? "" : ": " + why);
}

// "megatron tp2 pp4 dp8": what divides it.
std::string short_words(const Layout& layout) {
  std::string text = runner_words(layout);
  const auto add = [&](const char* name, std::int64_t count) {
    if (count > 1) text += fmt::format(" {}{}", name, count);
  };
  add("tp", layout.tensor);
  add("cp", layout.context);
  add("pp", layout.pipeline);
  add("ep", layout.expert);
  add("dp", layout.data);
  return text;
}
// "deepspeed dp8 zero 3 micro-batch 1 recompute full"
std::string brief_words(const PlanRow& row) {
  return fmt::format("{} zero {} micro-batch {} recompute {}", short_words(row.layout),
                     row.layout.zero_stage, row.layout.micro_batch, recompute_words(row.layout));
}

// Why the answer is not the fastest.
std::string steadiness_text(const PlanAnswer& answer, const Style& style) {
  const Steadiness& why = *answer.steadiness;
  const PlanRow& best = answer.rows.front();
  // A front is listed instead of the rows.
  const bool is_listed = answer.front.empty() && answer.stacks.empty() && answer.rows.size() > 1;
  return lines_of(
      style, "steady",
      {fmt::format("ties with the fastest{} on {} (assumed), which is {:.0f} % slower on {}",
                   is_listed ? " (2)" : "", best.job.cluster.machine->name,
                   100 * (why.fastest_there.value() / why.there.step.value() - 1),
                   why.there.machine->name)});
}

// "offload.optimizer + parameters = cpu" as "offload optimizer + parameters".
std::string short_change(std::string change) {
  if (!change.starts_with("offload.")) return change;
  change[7] = ' ';
  return change.substr(0, change.find(" = cpu"));
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
      closed.push_back(short_change(way.change));
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
  if (hosts) columns.push_back({"host", true});
  columns.push_back({"step", true});
  columns.push_back({"layout"});
  Table table(std::move(columns));
  for (const WayOut* way : open) {
    const Prediction& prediction = way->row->prediction;
    std::vector<std::string> cells = {short_change(way->change),
                                      size_text(prediction.peak.device, style)};
    if (hosts) {
      std::string host =
          prediction.holdings.empty() ? "-" : size_text(prediction.host_of_node, style);
      if (const auto has = lacks(way)) host += " of " + size_text(*has, style);
      cells.push_back(std::move(host));
    }
    cells.push_back(print_seconds(way->row->time.step));
    cells.push_back(short_words(way->row->layout));
    table.add(std::move(cells));
  }
  std::string text = "\n" + (open.empty() ? "" : table.text(style));
  if (!closed.empty()) text += lines_of(style, open.empty() ? "tried" : "not by", closed);
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
  // Where they differ in it: the answer above has named it.
  const bool engines = sure.empty() || any([&](const PlanRow& row) {
                         return row.layout.engine != rows.front()->layout.engine ||
                                row.layout.implementation != rows.front()->layout.implementation;
                       });
  std::vector<Column> columns = {{" "}};
  if (engines) columns.push_back({"engine"});
  for (const char* heading : {"tp", "pp", "dp"}) columns.push_back({heading, true});
  if (contexts) columns.push_back({"cp", true});
  if (experts) columns.push_back({"ep", true});
  for (const char* heading : {"zero", "mbs"}) columns.push_back({heading, true});
  columns.push_back({"recompute"});
  columns.push_back({fmt::format("peak, {}", memory_unit(style.units)), true});
  columns.push_back({"step", true});
  columns.push_back({"MFU", true});
  // Where there is room for it.
  const bool costs = !contexts && !experts && tight.empty();
  if (costs) columns.push_back({"costs most"});
  const bool changes = any([](const PlanRow& row) { return !row.recipe.empty(); });
  if (changes) columns.push_back({"with"});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PlanRow& row = *rows[i];
    const bool is_tight = i < tight.size();
    const Layout& layout = row.layout;
    const auto count = [](std::int64_t value) { return fmt::format("{}", value); };
    std::vector<std::string> cells = {is_tight ? std::string("tight")
                                               : fmt::format("{}", i - tight.size() + 1)};
    if (engines) cells.push_back(runner_words(layout));
    cells.push_back(count(layout.tensor));
    cells.push_back(layout.chunks > 1 ? fmt::format("{}x{}", layout.pipeline, layout.chunks)
                                      : count(layout.pipeline));
    cells.push_back(count(layout.data));
    if (contexts) cells.push_back(count(layout.context));
    if (experts) cells.push_back(count(layout.expert));
    cells.push_back(count(layout.zero_stage));
    cells.push_back(count(layout.micro_batch));
    cells.push_back(recompute_words(layout));
    const PeakPrediction& peak = row.prediction.peak;
    cells.push_back(is_tight ? size_text(peak.low, style) + "-" + size_text(peak.high, style)
                             : size_text(peak.device, style));
    cells.push_back(print_seconds(row.time.step));
    cells.push_back(fmt::format("{:.0f} %", 100 * row.time.model_flops_utilization));
    if (costs) cells.push_back(bound_words(row.time));
    if (changes) cells.push_back(row.recipe);
    table.add(std::move(cells));
  }
  return table.text(style);
}

}  // namespace

namespace {

// A person reads a screen: the answer keeps to so many lines, and -v says the rest.
constexpr std::size_t kMostLines = 20;

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    lines.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return lines;
}

// Blank lines go first, then the last rows of the table.
std::string within_a_screen(std::string head, std::string table, std::string tail) {
  std::vector<std::string> top = lines_in(head), rows = lines_in(table), end = lines_in(tail);
  const auto size = [&] { return top.size() + rows.size() + end.size(); };
  const auto without_blanks = [](std::vector<std::string>& lines) {
    std::erase_if(lines, [](const std::string& line) { return line.empty(); });
  };
  for (std::vector<std::string>* lines : {&end, &top})
    if (size() > kMostLines) without_blanks(*lines);
  while (size() > kMostLines && rows.size() > 3) rows.pop_back();
  std::string text;
  for (const auto* lines : {&top, &rows, &end})
    for (const std::string& line : *lines) text += line + "\n";
  return text;
}

std::string sensitivity_text(const PlanAnswer& answer, const Style& style) {
  std::vector<std::string> more;
  constexpr double kNothing = 0.005;  // what buys less is not worth a word
  for (const Sensitivity& what : answer.sensitivity)
    if (what.step <= 0 || std::abs(what.gain) >= kNothing)
      more.push_back(what.step > 0 ? fmt::format("{} {:+.1f} %", what.change, -100 * what.gain)
                                   : what.change);
  return more.empty() ? "" : lines_of(style, "with", more);
}

// The command whole where a line holds it, else what is to be added to it.
std::string next_text(const std::string& arguments, const std::string& asked, const Style& style) {
  const std::string flags = fmt::format("--why {}", asked);
  const std::string whole =
      fmt::format("next   steelyard plan {} {} (or --write best.toml, -v)", arguments, flags);
  if (columns_of(whole) <= style.width) return whole + "\n";
  return lines_of(style, "next", {"the same with " + flags, "--write best.toml", "-v"});
}

std::string notes_text(const PlanAnswer& answer, const Style& style) {
  std::string text;
  for (const std::string& note : answer.notes) text += wrapped(style, note, 2) + "\n";
  if (!answer.launch_fault.empty())
    text += wrapped(style, "export cannot write this layout: " + answer.launch_fault, 2) + "\n";
  if (answer.result.interrupted)
    text += wrapped(style,
                    unfinished_words(answer.result.counts, answer.space.unfinished,
                                     !answer.rows.empty()),
                    2) +
            "\n";
  return text;
}

std::string answer_text(const PlanQuestion& question, const PlanAnswer& answer,
                        const std::string& arguments, const Style& style) {
  const PlanRow& best = answer.rows.front();
  std::string head = assumed_text(question, answer, style);
  head += lines_of(style, "best", row_parts(best));
  head += "       " + facts(style, measure_parts(best, style), 7) + "\n";
  if (answer.steadiness) head += steadiness_text(answer, style);
  head += recipe_text(answer, style) + "\n";
  // One stack alone: its layouts; several: the best of each, behind those that are worth a try.
  std::string table;
  if (!answer.front.empty() || answer.stacks.empty())
    table = layouts_text(answer.tight, answer.front.empty() ? answer.rows : answer.front, style);
  else
    table = stacks_text(answer, style);
  std::string tail = answer.stacks.empty() ? "" : left_out_text(question, answer, style);
  tail += "\n";
  if (!answer.tight.empty() && !answer.stacks.empty()) {
    const PlanRow& row = answer.tight.front();
    const PeakPrediction& peak = row.prediction.peak;
    tail += lines_of(style, "tight",
                     {brief_words(row), print_seconds(row.time.step),
                      fmt::format("needs {} to {} {}", size_text(peak.low, style),
                                  size_text(peak.high, style), memory_unit(style.units))});
  }
  if (answer.rule_of_thumb) {
    const PlanRow& thumb = answer.rule_of_thumb->row;
    tail += lines_of(style, "thumb", {brief_words(thumb), speed_words(best, thumb)});
  }
  tail += sensitivity_text(answer, style);
  tail += notes_text(answer, style);
  tail +=
      next_text(arguments, question.target.devices > 1 ? "tensor=2" : "recompute.mode=none", style);
  return answer.front.empty() ? within_a_screen(head, table, tail) : head + table + tail;
}

std::string no_answer_text(const PlanQuestion& question, const PlanAnswer& answer,
                           const Style& style) {
  const bool stopped = answer.result.interrupted;
  std::string text =
      (stopped ? painted(style, Ink::kWarning, "not finished: nothing found yet")
               : painted(style, Ink::kBad,
                         answer.tight.empty() ? "nothing fits" : "nothing is sure to fit")) +
      fmt::format("   {}{} on {} x {}\n", stopped ? "" : "no layout of ",
                  question.target.model->name, print_count(question.target.devices),
                  question.target.device->name);
  text += assumed_text(question, answer, style);
  if (answer.space.empty() && !stopped)
    text += "       what is said does not divide the devices, the batch or the model\n";
  if (!answer.stacks.empty() || !question.stacks.left_out.empty())
    text += stacks_text(answer, style) + left_out_text(question, answer, style);
  if (!answer.tight.empty()) {
    std::vector<PlanRow> tight = answer.tight;
    if (tight.size() > 2) tight.resize(2);
    text += layouts_text(tight, {}, style);
  }
  std::string tail = answer.ways_out.empty() ? "" : ways_text(answer.ways_out, style);
  return within_a_screen(std::move(text), std::move(tail), notes_text(answer, style));
}

// How the search went.
std::string search_text(const PlanQuestion& question, const PlanAnswer& answer, double seconds,
                        const Style& style) {
  std::string text = "\n" + asked_text(question, answer, style);
  if (!answer.stacks.empty() && !answer.rows.empty())
    text += "\n" + layouts_text(answer.tight, answer.rows, style) + "\n";
  if (answer.simplest)
    text += lines_of(
        style, "simple",
        {row_words(*answer.simplest), slower_words(answer.rows.front(), *answer.simplest)});
  return text + counted_text(answer, seconds, style);
}

}  // namespace

std::string plan_text(const PlanQuestion& question, const PlanAnswer& answer, double seconds,
                      const std::string& arguments, bool verbose, const Style& style) {
  std::string text = answer.rows.empty() ? no_answer_text(question, answer, style)
                                         : answer_text(question, answer, arguments, style);
  if (verbose) text += search_text(question, answer, seconds, style);
  return without_trailing_blanks(text);
}

}  // namespace steelyard
