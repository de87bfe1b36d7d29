#include "job/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <tuple>
#include <utility>

#include "data/catalogue.h"
#include "job/adapter_choice.h"
#include "job/device_choice.h"
#include "job/draft.h"
#include "job/environment_choice.h"
#include "job/frozen_choice.h"
#include "job/graph_capture_choice.h"
#include "job/group_choice.h"
#include "job/layout_choice.h"
#include "job/machine_choice.h"
#include "job/method_choice.h"
#include "job/model_code.h"
#include "job/prediction_choice.h"
#include "job/recipe_choice.h"
#include "job/retention_choice.h"
#include "job/settings.h"
#include "job/stages.h"
#include "job/unsupported.h"
#include "job/validate.h"
#include "job/wrapping_choice.h"

namespace steelyard {
namespace {

bool is_error(const Diagnostic& problem) { return problem.severity == Severity::kError; }

// A table without vocab_size, as launch files of Megatron-LM give it: the tokenizer's own size is said beside it.
Value with_vocabulary(const Draft& draft, Value model) {
  const Setting* said = draft.settings().find(KeyId::kVocabularySize);
  if (said == nullptr || !model.is_table()) return model;
  Value rows = Value::integer(said->count);
  rows.set_mark(said->member->value.mark());
  set_path(model, "vocab_size", std::move(rows), said->member->value.place());
  return model;
}

// What is asked for beside a table of a model, and what says it.
void check_vocabulary(Draft& draft, Diagnostics& problems) {
  const Setting* said = draft.settings().find(KeyId::kVocabularySize);
  for (Diagnostic& problem : problems)
    if (said == nullptr && problem.code == "E302" &&
        problem.message.find("\"vocab_size\" is missing") != std::string::npos)
      problem.help = "the tokenizer decides it: --vocab-size N says how many entries it has";
  if (said == nullptr || draft.job().model == nullptr) return;
  if (draft.job().model->vocabulary != said->count)
    draft.refuse(KeyId::kVocabularySize, "E213",
                 fmt::format("vocabulary_size {} beside a model of {}", said->count,
                             draft.job().model->vocabulary),
                 "the model says its own",
                 "model = {...}, a table of config.json's keys, takes another");
}

std::optional<ModelChoice> take_model(Draft& draft, const JobContext& context,
                                      Diagnostics& problems) {
  const Setting* setting = draft.settings().find(KeyId::kModel);
  if (setting == nullptr) {
    // One that was misspelt or of a wrong kind has its own error already.
    if (!draft.settings().was_refused(KeyId::kModel))
      draft.refuse(
          KeyId::kModel, "E108", "no model is given", "needs a model",
          "model = \"llama-3.1-8b\" names one; `steelyard list models` shows the known ones");
    return std::nullopt;
  }
  const Value model = with_vocabulary(draft, setting->member->value);
  auto choice = choose_model(model, context.read_file, context.folder, problems);
  if (choice) draft.job().model = choice->architecture;
  check_vocabulary(draft, problems);
  if (!choice) return std::nullopt;
  if (!choice->understood.empty()) {
    const bool guessed = choice->architecture->guessed;
    draft.assume(KeyId::kModel, guessed ? "a guess" : choice->architecture->name,
                 choice->understood);
  }
  return choice;
}

std::optional<std::int64_t> take_device(Draft& draft, const JobContext& context,
                                        Diagnostics& problems) {
  const Setting* setting = draft.settings().find(KeyId::kDevice);
  if (setting == nullptr) {
    if (const Device* device =
            device_of_machine(draft.settings(), context.read_file, context.folder)) {
      draft.job().cluster.device = unowned(*device);
      draft.assume(KeyId::kDevice, device->name, "the first that the machine is built with");
    } else if (!draft.settings().was_refused(KeyId::kDevice))
      draft.refuse(
          KeyId::kDevice, "E108", "no device is given", "needs [cluster] device",
          "device = \"h100-sxm-80gb\" names one, --on 8xh100 too; `steelyard list devices` "
          "shows the known ones");
    return std::nullopt;
  }
  const auto choice =
      choose_device(setting->text, draft.settings().value_place(KeyId::kDevice), problems);
  if (!choice) return std::nullopt;
  draft.job().cluster.device = choice->device;
  if (!choice->understood.empty())
    draft.assume(KeyId::kDevice, choice->device->name, choice->understood);
  return choice->count;
}

// Errors first, then file by file in the order of the text.
void sort_worst_first(Diagnostics& problems) {
  std::vector<std::string> sources;
  for (const Diagnostic& problem : problems)
    if (std::find(sources.begin(), sources.end(), problem.place.source) == sources.end())
      sources.push_back(problem.place.source);
  const auto rank = [&](const Diagnostic& problem) {
    const auto source = std::find(sources.begin(), sources.end(), problem.place.source);
    return std::tuple(!is_error(problem), source - sources.begin(), problem.place.line,
                      problem.place.column);
  };
  std::stable_sort(problems.begin(), problems.end(),
                   [&](const Diagnostic& a, const Diagnostic& b) { return rank(a) < rank(b); });
}

ReadJob complete(const Value& document, const JobContext& context) {
  Diagnostics problems;
  Job job;
  job.assumptions.reserve(32);
  const Settings settings(document, problems);
  Draft draft(settings, job, problems);
  job.assumptions = settings.understood();

  const auto model = take_model(draft, context, problems);
  take_method(draft);
  const auto counted = take_device(draft, context, problems);
  choose_machine(draft, context.read_file, context.folder, problems);
  choose_devices(draft, counted);
  choose_engine(draft);
  choose_parallel(draft);
  choose_sequence(draft);
  choose_batch(draft);
  choose_recipe(draft, model ? model->states_dropout : true);
  choose_experts(draft);
  choose_prediction(draft);
  if (job.model != nullptr) choose_stages(draft);
  choose_recompute(draft);
  peek_at_transformers(draft, document);
  choose_adapter(draft, model ? model->stored : std::nullopt);
  choose_frozen(draft);
  choose_offload(draft);
  choose_graphs(draft);
  choose_buffers(draft);
  choose_environment(draft, document, problems);
  choose_wrapping(draft);
  choose_training_method(draft);
  validate(draft);
  refuse_unsupported(draft);
  if (std::none_of(problems.begin(), problems.end(), is_error)) warn_of_missing_code(draft);

  sort_worst_first(problems);
  if (!problems.empty() && is_error(problems.front())) return tl::unexpected(std::move(problems));
  job.warnings = std::move(problems);
  return job;
}

}  // namespace

ReadJob read_job(const Value& document, const JobContext& context) {
  try {
    return complete(document, context);
  } catch (const std::exception& fault) {
    // A size that no 64-bit number holds, and whatever a reader of files may throw.
    return tl::unexpected(Diagnostics{{Severity::kError,
                                       "E107",
                                       fault.what(),
                                       Place{document.place().source, 0, 0, {}, 0},
                                       {},
                                       {}}});
  }
}

}  // namespace steelyard
