#include "report/rehearsal.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "document/printable.h"
#include "report/json_values.h"
#include "report/prediction_json.h"
#include "report/table.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLines = 5;

std::string file_and_line(const std::string& place) {
  const std::size_t slash = place.rfind('/');
  return printable(slash == std::string::npos ? place : place.substr(slash + 1));
}

// The lines that hold the most, without what a model and its optimizer hold whatever a line does.
std::string lines_text(const RehearsalReport& report, const Rehearsal& seen, const Style& style) {
  const Scale scale = scale_of(report.answer.prediction, style.units);
  Table table({{fmt::format("held at the peak, {}", scale.unit)},
               {"by"},
               {"times", true},
               {"", true},
               {"pile"}});
  std::size_t rows = 0;
  for (const RehearsedLine& line : seen.lines) {
    if (rows == kLines && !report.verbose) break;
    ++rows;
    table.add({line.user.empty() ? "backward" : file_and_line(line.user),
               line.line.empty()
                   ? "a kernel of autograd"
                   : fmt::format("{} {}", file_and_line(line.line), printable(line.function)),
               print_count(line.count), number_of(line.bytes, scale), words_of(line.pile)});
  }
  return rows == 0 ? "" : "\n" + table.text(style);
}

// The real text, where the allocator's refusal ended the script.
std::string death_text(const Rehearsal& seen, bool without_an_end, const Style& style) {
  if (!seen.error || !seen.error->out_of_memory) return "";
  std::string result =
      "\n" +
      painted(style, Ink::kBad,
              fmt::format("dies in step {}, {}",
                          std::max<std::int64_t>(1, seen.failure ? seen.failure->step : 1),
                          seen.failure ? seen.failure->phase : "")) +
      fmt::format(" at {}\n", file_and_line(seen.error->line));
  result += "  " + wrapped(style, printable(seen.error->text), 2) + "\n";
  if (!without_an_end)
    result +=
        "  " +
        wrapped(style, "the numbers above are what it had come to by then: it needs more", 2) +
        "\n";
  return result;
}

std::int64_t times_substituted(const Rehearsal& seen) {
  std::int64_t times = 0;
  for (const Substitution& one : seen.substitutions) times += one.times;
  return times;
}

std::string substitutions_text(const Rehearsal& seen, bool verbose, const Style& style) {
  std::string result;
  if (const std::int64_t times = times_substituted(seen); times > 0 && !verbose) {
    std::vector<std::string> kinds;
    for (const Substitution& one : seen.substitutions)
      if (std::find(kinds.begin(), kinds.end(), one.what) == kinds.end()) kinds.push_back(one.what);
    result +=
        wrapped(style,
                fmt::format(
                    "{} answers stand for what a device would have computed, of {} kinds (-v): {}",
                    print_count(times), kinds.size(), fmt::join(kinds, "; ")),
                0) +
        "\n";
  }
  if (verbose && !seen.substitutions.empty()) {
    Table table({{"answered in place of a device"}, {"times", true}, {"for"}});
    for (const Substitution& one : seen.substitutions)
      table.add({printable(one.what), print_count(one.times), file_and_line(one.line)});
    result += "\n" + table.text(style);
  }
  for (const auto& [name, times] : seen.unanswered)
    result +=
        wrapped(style,
                fmt::format(
                    "not answered: {}, called {} times (steelyard has no answer for it yet: what "
                    "rests on it is unknown)",
                    printable(name), times),
                0) +
        "\n";
  return result;
}

std::string versions_text(const Rehearsal& seen) {
  std::string result;
  for (const auto& [name, version] : seen.versions)
    if (name != "python" && name != "cuda")
      result += fmt::format(", {} {}", printable(name), printable(version));
  return result;
}

Json json_of(const Rehearsal& seen) {
  Json lines = Json::array();
  for (const RehearsedLine& line : seen.lines)
    lines.push_back({{"pile", name_of(line.pile)},
                     {"bytes", number(line.bytes)},
                     {"count", line.count},
                     {"user", line.user},
                     {"line", line.line},
                     {"function", line.function}});
  Json most = Json::array();
  for (const RehearsedPhase& phase : seen.phases)
    most.push_back({{"step", phase.step},
                    {"phase", name_of(phase.phase)},
                    {"allocated_bytes", number(phase.allocated)},
                    {"max_memory_allocated_bytes", number(phase.max_allocated)},
                    {"max_memory_reserved_bytes", number(phase.reserved)}});
  Json substitutions = Json::array();
  for (const Substitution& one : seen.substitutions)
    substitutions.push_back({{"what", one.what}, {"line", one.line}, {"times", one.times}});
  Json unanswered = Json::array();
  for (const auto& [name, times] : seen.unanswered)
    unanswered.push_back({{"name", name}, {"times", times}});
  Json result = {{"rank", seen.rank},        {"ranks", seen.ranks},     {"steps", seen.steps},
                 {"ended", seen.ended},      {"seconds", seen.seconds}, {"phases", std::move(most)},
                 {"lines", std::move(lines)}};
  if (seen.failure)
    result["failure"] = {{"tried_bytes", number(seen.failure->tried)},
                         {"allocated_bytes", number(seen.failure->allocated)},
                         {"reserved_bytes", number(seen.failure->reserved)},
                         {"free_bytes", number(seen.failure->free)},
                         {"capacity_bytes", number(seen.failure->capacity)},
                         {"step", seen.failure->step},
                         {"phase", seen.failure->phase}};
  if (seen.error)
    result["error"] = {{"type", seen.error->type},
                       {"text", seen.error->text},
                       {"line", seen.error->line},
                       {"out_of_memory", seen.error->out_of_memory},
                       {"traceback", seen.error->traceback}};
  result["substitutions"] = std::move(substitutions);
  result["unanswered"] = std::move(unanswered);
  return result;
}

}  // namespace

std::string rehearsal_text(const RehearsalReport& report, const Style& style) {
  const Rehearsed& answer = report.answer;
  const Rehearsal& top = report.seen[peak_rank_index(answer.prediction)];
  std::string result =
      weighing_text({answer.job, answer.prediction, answer.moment, {}, true, "", true}, style);
  result += death_text(top, report.without_an_end, style);
  result += lines_text(report, top, style);
  std::string ranks;
  for (const Rehearsal& one : report.seen)
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", one.rank);
  const std::string steps = fmt::format("{} {}", top.steps, top.steps == 1 ? "step" : "steps");
  result += "\n" +
            wrapped(style,
                    fmt::format("rehearsed {} of rank {} of {} in {:.0f} s{}{}", steps, ranks,
                                top.ranks, top.seconds, versions_text(top),
                                report.without_an_end
                                    ? "; what it needs was seen on a device without an end"
                                    : ""),
                    0) +
            "\n";
  return result + substitutions_text(top, report.verbose, style);
}

Json json_of(const RehearsalReport& report) {
  Json result = json_of(report.answer.job, report.answer.prediction, {}, false);
  result["how"] = "rehearsed";
  Json ranks = Json::array();
  for (const Rehearsal& one : report.seen) ranks.push_back(json_of(one));
  const Rehearsal& top = report.seen[peak_rank_index(report.answer.prediction)];
  Json versions = Json::object();
  for (const auto& [name, version] : top.versions) versions[name] = version;
  result["rehearsal"] = {{"command", report.command},
                         {"without_an_end", report.without_an_end},
                         {"versions", std::move(versions)},
                         {"ranks", std::move(ranks)}};
  return result;
}

}  // namespace steelyard
