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
#include "report/json_values.h"
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
  int status = kDone;
};

// The line's own name for itself stands in its answer.
JobAnswer named(nlohmann::ordered_json document, const nlohmann::ordered_json& id,
                int status = kDone) {
  if (!id.is_null()) document["id"] = id;
  return {line_text(document), status};
}

JobAnswer answer_of(const Invocation& invocation, const std::vector<KeyEdit>& edits,
                    const JobLine& line) {
  nlohmann::ordered_json id;
  // One bad line, be it our own defect, must not silence the lines after it.
  try {
    tl::expected<Value, Diagnostics> document = read_json(line.text, line.source);
    if (!document) return named(json_of(document.error()), id, kBadInput);
    if (document->is_table()) {
      if (const Value* name = document->find("id")) id = json_of(*name);
      remove_path(*document, "id");
      lay_over(*document, edits);
    }
    const bool brief = invocation.has("brief"), judged = invocation.has("replay");
    const Weighed weighed = weigh_document(*document, "", brief && !judged ? decided : predict);
    if (!weighed.prediction) return named(json_of(weighed.problems), id, kBadInput);
    if (judged)
      if (const std::string difference =
              differences(*weighed.prediction, predict_by_replay(*weighed.job));
          !difference.empty())
        return named(internal_error("the replay of every event disagrees: " + difference), id,
                     kInternal);
    const std::vector<Suggestion> suggestions =
        brief ? std::vector<Suggestion>()
              : suggest(*weighed.job, *weighed.prediction,
                        rewritten(*document, "", tool_of(*document)));
    return named(json_of(*weighed.job, *weighed.prediction, suggestions, brief), id);
  } catch (const std::exception& fault) {
    return named(internal_error(fault.what()), id, kInternal);
  }
}

}  // namespace

int weigh_jobs(const Invocation& invocation, const std::string& file) {
  InputLines lines(file);
  if (lines.problem()) return refuse(invocation, {*lines.problem()}, "nothing weighed");
  const std::vector<KeyEdit> edits = edits_of(invocation.keys);
  const std::size_t said = threads_of(invocation);
  const std::size_t threads = said > 0 ? said : world().threads();
  const std::size_t at_once = threads == 1 ? 1 : 64 * threads;
  bool internal = false;
  std::size_t asked = 0, failed = 0;
  std::vector<JobLine> batch;
  const auto answer_all = [&] {
    std::vector<JobAnswer> answers(batch.size());
    share_work(
        batch.size(), [&](std::size_t i) { answers[i] = answer_of(invocation, edits, batch[i]); },
        threads);
    for (const JobAnswer& one : answers) {
      internal = internal || one.status == kInternal;
      ++asked;
      failed += one.status == kDone ? 0 : 1;
      answer(one.text);
    }
    batch.clear();
  };
  while (lines.next()) {
    batch.push_back({std::string(lines.line()), fmt::format("<jobs>:{}", lines.number())});
    // A pipe that is written line by line is answered line by line.
    if (batch.size() >= at_once || (file == "-" && !lines.has_next())) answer_all();
  }
  answer_all();
  if (lines.problem())
    return refuse(invocation, {*lines.problem()}, "the lines from there on are not weighed");
  if (failed > 0)
    remark(
        fmt::format("{} of {} lines could not be weighed: their answers say why\n", failed, asked));
  return internal ? kInternal : failed > 0 ? kFinding : kDone;
}

}  // namespace steelyard
