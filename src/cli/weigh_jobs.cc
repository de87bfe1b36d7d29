#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/exit_status.h"
#include "cli/input_file.h"
#include "cli/outlet.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/run_input.h"
#include "cli/weigh_command.h"
#include "document/read.h"
#include "report/prediction_json.h"

namespace steelyard {
namespace {

nlohmann::ordered_json internal_error(const std::string& what) {
  return json_of({command_line_problem("E070", "internal error: " + what)});
}

}  // namespace

int weigh_jobs(const Invocation& invocation, const std::string& file) {
  InputLines lines(file);
  if (lines.problem()) return refuse(invocation, {*lines.problem()}, "nothing weighed");
  const std::vector<KeyEdit> edits = edits_of(invocation.keys);
  const bool brief = invocation.has("brief");
  bool internal = false;
  while (lines.next()) {
    // One bad line, be it our own defect, must not silence the lines after it.
    try {
      tl::expected<Value, Diagnostics> document =
          read_json(lines.line(), fmt::format("<jobs>:{}", lines.number()));
      if (!document) {
        answer(line_text(json_of(document.error())));
        continue;
      }
      if (document->is_table()) lay_over(*document, edits);
      const Weighed weighed = weigh_document(*document, "");
      if (!weighed.prediction) {
        answer(line_text(json_of(weighed.problems)));
        continue;
      }
      if (invocation.has("replay")) {
        if (const std::string difference =
                differences(*weighed.prediction, predict_by_replay(*weighed.job));
            !difference.empty()) {
          internal = true;
          answer(line_text(internal_error("the replay of every event disagrees: " + difference)));
          continue;
        }
      }
      const std::vector<Suggestion> suggestions =
          brief ? std::vector<Suggestion>() : suggest(*weighed.job, *weighed.prediction);
      answer(line_text(json_of(*weighed.job, *weighed.prediction, suggestions, brief)));
    } catch (const std::exception& fault) {
      internal = true;
      answer(line_text(internal_error(fault.what())));
    }
  }
  if (lines.problem())
    return refuse(invocation, {*lines.problem()}, "the lines from there on are not weighed");
  return internal ? kInternal : kDone;
}

}  // namespace steelyard
