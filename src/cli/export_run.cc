#include "cli/export_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/exit_status.h"
#include "cli/input_file.h"
#include "cli/outlet.h"
#include "cli/output_file.h"
#include "cli/problems.h"
#include "cli/read_back.h"
#include "cli/read_invocation.h"
#include "cli/run_input.h"
#include "cli/written_paths.h"
#include "document/edit_distance.h"
#include "document/unified_diff.h"
#include "job/keys.h"
#include "job/model_code.h"
#include "report/json_values.h"
#include "report/prediction_json.h"
#include "report/verdict_words.h"
#include "world/world.h"

namespace steelyard {
namespace {

std::string gibibytes(Bytes bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(number(bytes)) / (1024.0 * 1024.0 * 1024.0));
}

std::string predicted_line(const Value& document, const std::string& folder) {
  const Weighed weighed = weigh_document(document, folder);
  if (!weighed.prediction) return "";
  const Prediction& prediction = *weighed.prediction;
  return fmt::format("{} of {} usable on {}, {}.", gibibytes(prediction.peak.device),
                     gibibytes(prediction.usable), weighed.job->cluster.device->name,
                     verdict_words(prediction.verdict));
}

// A file can say more than is weighed: it is then written for the job that differs in this alone, without a prediction.
tl::expected<Job, Diagnostics> job_to_write(const Value& document, const std::string& folder) {
  auto job = job_of(document, folder);
  const Value* mode = document.at("recompute.mode");
  if (job || mode == nullptr || (word_of(*mode) != "operators" && word_of(*mode) != "budget"))
    return job;
  Value stand_in = document;
  set_path(stand_in, "recompute.mode", Value::string("full"), mode->place());
  remove_path(stand_in, "recompute.budget");
  auto other = job_of(stand_in, folder);
  if (!other) return job;
  remark(
      fmt::format("not predicted: recompute.mode = \"{}\" is not weighed yet\n", word_of(*mode)));
  return other;
}

// What would be written, against what stands there now: nothing, where there is no such file.
std::string diff_against(const std::string& path, const std::string& text) {
  std::optional<std::string> before;
  if (!path.empty() && world().kind_of(path) != PathKind::kNothing)
    if (auto there = read_input(path, kConfigurationFile)) before = std::move(*there);
  return unified_diff(before.value_or(""), text, before ? path : "/dev/null",
                      path.empty() ? "exported" : path);
}

}  // namespace

bool is_export_target(const std::string& name) {
  const auto targets = export_targets();
  return name == "slurm" || std::find(targets.begin(), targets.end(), name) != targets.end();
}

Diagnostic unknown_target(const std::string& name) {
  const auto targets = export_targets();
  Diagnostic problem =
      command_line_problem("E604", fmt::format("no engine called \"{}\" to export to", name));
  problem.help = did_you_mean("engine", nearest_names(name, targets));
  if (problem.help.empty()) problem.help = fmt::format("engines are {} and slurm", any_of(targets));
  return problem;
}

void settle_and_say(Value& document, const std::string& target) {
  Value settled = document;
  settle_for(settled, target);
  for (const char* key :
       {"engine", "implementation", "training.precision", "training.gradient_clip", "wrap.ends"})
    if (document.at(key) == nullptr && settled.at(key) != nullptr)
      remark(fmt::format("taken: {} = {}, which is what {} runs\n", key, shown(*settled.at(key)),
                         target));
  document = std::move(settled);
}

tl::expected<Exported, Diagnostics> exported_run(const Invocation& invocation,
                                                 const Value& document, const std::string& folder,
                                                 const std::string& name,
                                                 const std::string& target) {
  const auto job = job_to_write(document, folder);
  if (!job) return tl::unexpected(job.error());
  const Architecture& model = *job->model;
  if (auto missing = missing_code(*job))
    return tl::unexpected(
        Diagnostics{{Severity::kError, "E245", std::move(*missing), document.find("model")->place(),
                     "nothing would start", codes_with(model.family)}});
  if (target == "fsdp2" && (model.image || model.encoder_part))
    return tl::unexpected(Diagnostics{
        {Severity::kError, "E320",
         fmt::format("not written yet: fsdp2's own script for {}", model.family),
         document.find("model")->place(), "it shards the layers of one stack, model.model.layers",
         "accelerate and deepspeed name no layers"}});
  Value whole = completed(document, *job);
  // These are told sizes, where others load what the run names.
  if (target == "megatron" || target == "nanotron") {
    if (auto config = model_file_of(document, folder))
      set_path(whole, "model", std::move(*config), document.find("model")->place());
    say_sizes(whole, model);
  }
  const std::string* to_folder = invocation.value("to-folder");
  lay_over(whole, moved_paths(whole, folder, to_folder == nullptr ? "" : *to_folder));
  ExportChoice choice;
  choice.slurm = target == "slurm" || invocation.has("slurm");
  choice.name = name;
  choice.predicted = predicted_line(document, folder);
  const std::string_view writer = target == "slurm" ? target_of(whole) : std::string_view(target);
  Exported exported = export_launch(whole, writer, choice);
  if (!exported.problems.empty()) return tl::unexpected(std::move(exported.problems));
  ReadBack back = read_back(exported, whole, to_folder == nullptr ? "" : *to_folder);
  if (!back.problems.empty()) return tl::unexpected(std::move(back.problems));
  choice.lost = std::move(back.losses);
  // What was only assumed and is assumed again is no loss.
  for (const ConfigWriter::Loss& loss : exported.losses)
    if (find_key_by_path(loss.key) != nullptr && document.at(loss.key) == nullptr &&
        std::none_of(choice.lost.begin(), choice.lost.end(),
                     [&](const ConfigWriter::Loss& other) { return other.key == loss.key; }))
      choice.untold.insert(loss.key);
  if (!choice.lost.empty() || !choice.untold.empty())
    exported = export_launch(whole, writer, choice);
  return exported;
}

int give_exported(const Invocation& invocation, const std::string& target,
                  const Exported& exported) {
  for (const ConfigWriter::Loss& loss : exported.losses)
    remark(fmt::format("left out: {}\n", words_of(loss)));
  if (invocation.json) {
    nlohmann::ordered_json result = {{"schema", "steelyard.export/1"}, {"target", target}};
    for (const ExportedFile& file : exported.files) result["files"][file.name] = file.text;
    result["losses"] = nlohmann::ordered_json::array();
    for (const ConfigWriter::Loss& loss : exported.losses)
      result["losses"].push_back(
          {{"key", loss.key}, {"value", loss.value}, {"reason", loss.reason}});
    answer(document_text(result));
    return kDone;
  }
  const std::string* folder = invocation.value("to-folder");
  const std::string* output = invocation.value("output");
  if (folder != nullptr) {
    if (!invocation.has("diff")) make_folder(*folder);
    for (const ExportedFile& file : exported.files) {
      const std::string path = *folder + "/" + file.name;
      if (invocation.has("diff")) {
        answer(diff_against(path, file.text));
        continue;
      }
      if (const auto problem = write_file(path, file.text))
        return refuse(invocation, {*problem}, "not all written");
      answer(path + "\n");
    }
    return kDone;
  }
  if (invocation.has("diff")) {
    answer(diff_against(output == nullptr ? "" : *output, exported.script));
    return kDone;
  }
  if (output != nullptr && *output != "-") {
    if (const auto problem = write_file(*output, exported.script))
      return refuse(invocation, {*problem}, "nothing written");
    return kDone;
  }
  answer_file(exported.script);
  return kDone;
}

}  // namespace steelyard
