// The calls of the first module: what the page asks while a slider moves. The whole core is downloaded behind it and answers
// the same with suggestions and derivations; what is asked here and not known ends with kElsewhere, and is asked there.
#include <steelyard/steelyard.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/call_world.h"
#include "api/estimate_answer.h"
#include "api/request.h"
#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/output_file.h"
#include "cli/picture_files.h"
#include "cli/problems.h"
#include "cli/run_input.h"
#include "data/version.h"
#include "document/read.h"
#include "picture/memory_bar.h"
#include "predict/prediction.h"
#include "report/prediction_json.h"
#include "report/weighing.h"
#include "world/world.h"

namespace steelyard {
namespace {

// Of a reply: the whole core is to be asked. No command ends with it.
constexpr int kElsewhere = 3;

// The run that a request holds as a table. A name, a launch file, a config.json: the whole core reads those.
std::optional<Value> document_of(const Invocation& invocation) {
  if (invocation.words.size() != 1) return std::nullopt;
  const std::string& word = invocation.words.front();
  const std::string* text = world().text_in_memory(word);
  if (text == nullptr || !text->starts_with('{')) return std::nullopt;
  tl::expected<Value, Diagnostics> document = read_json(*text, word);
  if (!document || document->find("model") == nullptr) return std::nullopt;
  lay_over(*document, edits_of(invocation.keys));
  return std::move(*document);
}

bool knows(const Invocation& invocation, const std::vector<std::string_view>& flags) {
  return std::all_of(invocation.flags.begin(), invocation.flags.end(), [&](const auto& said) {
    return std::find(flags.begin(), flags.end(), said.first) != flags.end();
  });
}

int estimate_here(const Invocation& invocation) {
  const auto document = document_of(invocation);
  if (!document || !knows(invocation, {"svg", kPictureWidth})) return kElsewhere;
  return answer_estimate(invocation, *document, "");
}

int weigh_here(const Invocation& invocation) {
  const auto document = document_of(invocation);
  if (!document || !invocation.has("no-suggestions") ||
      !knows(invocation, {"no-suggestions", "html", "write", kPictureWidth}))
    return kElsewhere;
  const Weighed weighed = weigh_document(*document, "", predict);
  if (!weighed.prediction) return refuse(invocation, weighed.problems, "nothing weighed");
  const Job& job = *weighed.job;
  const Prediction& prediction = *weighed.prediction;
  const int status =
      prediction.verdict == Verdict::kDoesNotFit || job.dies_at_start ? kFinding : kDone;
  if (const std::string* file = invocation.value("write"))
    if (const auto problem = write_file(*file, run_file_text(*document)))
      return refuse(invocation, {*problem}, "nothing written");
  const auto drawn = write_pictures(
      invocation, status, [&](const Frame& frame) { return memory_bar_svg(prediction, frame); },
      [&](const std::string&) {
        const Weighing shown{job, prediction, peak_moment(job, peak_rank_index(prediction)),
                             {},  true,       ""};
        return report_of_weighing(shown, {}, *document, "", about_run("run", job),
                                  picture_width(invocation));
      });
  if (drawn) return *drawn;
  answer(document_text(json_of(job, prediction, {}, false)));
  return status;
}

const Command* command_here(std::string_view verb) {
  static const Command estimates = {"estimate", "", "", "", {}, true, estimate_here};
  static const Command weighs = {"weigh", "", "", "", {}, true, weigh_here};
  for (const Command* command : {&estimates, &weighs})
    if (command->name == verb) return command;
  return nullptr;
}

}  // namespace

Reply call(std::string_view verb, std::string_view request, const Surrounding& around) noexcept {
  Reply reply;
  try {
    reply.status = kElsewhere;
    const Command* command = command_here(verb);
    if (command == nullptr) return reply;
    const auto asked = read_request(*command, request);
    if (!asked) return reply;
    CallWorld here(around, asked->files, reply);
    const InWorld scope(here);
    reply.status = command->run(asked->invocation);
    return reply;
  } catch (...) {
    // Whatever it is, the whole core says it in its own words.
    Reply elsewhere;
    elsewhere.status = kElsewhere;
    return elsewhere;
  }
}

std::string version_text() { return std::string(version()); }

}  // namespace steelyard
