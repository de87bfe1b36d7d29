#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/exit_status.h"
#include "cli/input_file.h"
#include "cli/outlet.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/rewritten.h"
#include "cli/run_input.h"
#include "cli/share_work.h"
#include "cli/weigh_command.h"
#include "document/read.h"
#include "report/prediction_json.h"
#include "world/world.h"

namespace steelyard {
namespace {

nlohmann::ordered_json internal_error(const std::string& what) {
  return json_of({command_line_problem("E070", "internal error: " + what)});
}

struct JobLine {
  std::string text;
  std::string source;
};
struct JobAnswer {
  std::string text;
  bool internal = false;
};

JobAnswer answer_of(const Invocation& invocation, const std::vector<KeyEdit>& edits,
                    const JobLine& line) {
  // One bad line, be it our own defect, must not silence the lines after it.
  try {
    tl::expected<Value, Diagnostics> document = read_json(line.text, line.source);
    if (!document) return {line_text(json_of(document.error()))};
    if (document->is_table()) lay_over(*document, edits);
    const bool brief = invocation.has("brief"), judged = invocation.has("replay");
    const Weighed weighed = weigh_document(*document, "", brief && !judged ? decided : predict);
    if (!weighed.prediction) return {line_text(json_of(weighed.problems))};
    if (judged)
      if (const std::string difference =
              differences(*weighed.prediction, predict_by_replay(*weighed.job));
          !difference.empty())
        return {line_text(internal_error("the replay of every event disagrees: " + difference)),
                true};
    const std::vector<Suggestion> suggestions =
        brief ? std::vector<Suggestion>()
              : suggest(*weighed.job, *weighed.prediction,
                        rewritten(*document, "", tool_of(*document)));
    return {line_text(json_of(*weighed.job, *weighed.prediction, suggestions, brief))};
  } catch (const std::exception& fault) {
    return {line_text(internal_error(fault.what())), true};
  }
}

}  // namespace

int weigh_jobs(const Invocation& invocation, const std::string& file) {
  InputLines lines(file);
  if (lines.problem()) return refuse(invocation, {*lines.problem()}, "nothing weighed");
  const std::vector<KeyEdit> edits = edits_of(invocation.keys);
  const std::size_t said = threads_of(invocation);
  const std::size_t threads = said > 0 ? said : world().threads();
  // A pipe that is read line by line is answered line by line.
  const std::size_t at_once = file == "-" || threads == 1 ? 1 : 64 * threads;
  bool internal = false;
  std::vector<JobLine> batch;
  const auto answer_all = [&] {
    std::vector<JobAnswer> answers(batch.size());
    share_work(
        batch.size(), [&](std::size_t i) { answers[i] = answer_of(invocation, edits, batch[i]); },
        threads);
    for (const JobAnswer& one : answers) {
      internal = internal || one.internal;
      answer(one.text);
    }
    batch.clear();
  };
  while (lines.next()) {
    batch.push_back({std::string(lines.line()), fmt::format("<jobs>:{}", lines.number())});
    if (batch.size() >= at_once) answer_all();
  }
  answer_all();
  if (lines.problem())
    return refuse(invocation, {*lines.problem()}, "the lines from there on are not weighed");
  return internal ? kInternal : kDone;
}

}  // namespace steelyard
