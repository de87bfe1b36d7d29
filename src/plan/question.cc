#include "plan/question.h"

#include <fmt/format.h>

#include <algorithm>

#include "job/model_code.h"
#include "job/recipe_choice.h"
#include "plan/recompute_choice.h"

namespace steelyard {
namespace {

// Sequences of a step where nobody says how many: enough to keep accumulation and pipelines busy on few devices, one for
// each device on many, and no more tokens than the largest published runs take (Llama 3: 16 M, arXiv 2407.21783).
constexpr std::int64_t kUsualSequences = 64;
constexpr std::int64_t kMostTokens = 16 * 1024 * 1024;

// Keys that a layout decides: a reader that asks only for the model and the devices does without them.
constexpr KeyId kOfLayouts[] = {KeyId::kEngine,
                                KeyId::kImplementation,
                                KeyId::kMicroBatch,
                                KeyId::kGlobalBatch,
                                KeyId::kGradientAccumulation,
                                KeyId::kData,
                                KeyId::kZeroStage,
                                KeyId::kReshard,
                                KeyId::kReplicate,
                                KeyId::kTensor,
                                KeyId::kSequenceParallel,
                                KeyId::kContext,
                                KeyId::kContextMethod,
                                KeyId::kContextInner,
                                KeyId::kPipeline,
                                KeyId::kVirtualPipeline,
                                KeyId::kSchedule,
                                KeyId::kVocabulary,
                                KeyId::kPipelineGroup,
                                KeyId::kPipelineLayout,
                                KeyId::kFirstStageLayers,
                                KeyId::kLastStageLayers,
                                KeyId::kCountEmbedding,
                                KeyId::kCountLoss,
                                KeyId::kExpert,
                                KeyId::kExpertTensor,
                                KeyId::kRecomputeMode,
                                KeyId::kRecomputeEvery,
                                KeyId::kRecomputeLayers,
                                KeyId::kRecomputeModules,
                                KeyId::kReentrant,
                                KeyId::kLoss,
                                KeyId::kOptimizerForm,
                                KeyId::kLossParallel};

Value without_layout(const Value& run) {
  Value bare = run;
  for (const KeyId id : kOfLayouts) remove_path(bare, key_of(id).path);
  for (const char* section : {"buckets", "experts", "overlap", "offload", "checkpoint"})
    remove_path(bare, section);
  return bare;
}

std::int64_t usual_batch(const PlanTarget& target) {
  std::int64_t sequences = std::max(kUsualSequences, target.devices);
  const std::int64_t most = std::max<std::int64_t>(
      kUsualSequences, kMostTokens / std::max<std::int64_t>(1, target.sequence_length));
  if (sequences > most) {
    sequences = most;
  } else if (target.devices < kUsualSequences) {
    // A whole number for each device, so that all of them can be data ranks.
    sequences = (kUsualSequences + target.devices - 1) / target.devices * target.devices;
  }
  return sequences;
}

std::int64_t batch_of(const Settings& fixed, const PlanTarget& target,
                      std::vector<Assumption>& assumptions) {
  if (const auto said = fixed.count(KeyId::kGlobalBatch)) return *said;
  const auto micro = fixed.count(KeyId::kMicroBatch);
  const auto rounds = fixed.count(KeyId::kGradientAccumulation);
  const auto degree = [&](KeyId id) { return fixed.count(id).value_or(1); };
  if (rounds) {
    // What the run as written takes.
    const std::int64_t data = std::max<std::int64_t>(
        1, target.devices /
               (degree(KeyId::kTensor) * degree(KeyId::kContext) * degree(KeyId::kPipeline)));
    const std::int64_t batch =
        micro.value_or(1) * *rounds * fixed.count(KeyId::kData).value_or(data);
    assumptions.push_back({key_of(KeyId::kGlobalBatch).path, fmt::format("{}", batch),
                           "micro_batch x accumulation x data of the run as written, kept"});
    return batch;
  }
  const std::int64_t batch = usual_batch(target);
  assumptions.push_back(
      {key_of(KeyId::kGlobalBatch).path, fmt::format("{}", batch),
       "not given: 64 sequences or one for each device, at most 16 M tokens; say --global-batch"});
  return batch;
}

// None of the stacks that were asked for can train this.
Diagnostic nothing_to_search(const ChosenStacks& stacks, const Job& job) {
  std::string reasons;
  for (const LeftOutStack& one : stacks.left_out)
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : "; ", one.title, one.reason);
  return {Severity::kError,
          "E247",
          reasons.empty()
              ? std::string("nothing of what is used here runs that engine and that code")
              : fmt::format("nothing can train {}: {}", job.model->name, reasons),
          {},
          {},
          codes_with(job.model->family)};
}

bool has_products_of_change(const Device& device, const RecipeChange& change) {
  for (const auto& [path, value] : change.keys) {
    if (path != key_of(KeyId::kPrecision).path || !value.is_string()) continue;
    const Precision* precision = find_precision(value.as_string());
    if (precision != nullptr && !has_products_of(device, *precision)) return false;
  }
  return true;
}

}  // namespace

Value with_key(const Value& run, KeyId id, Value value) {
  Value changed = run;
  Place place;
  place.source = "plan";
  value.set_mark(mark_of(place));
  set_path(changed, key_of(id).path, std::move(value), place);
  return changed;
}

tl::expected<PlanQuestion, Diagnostics> question_of(const Value& document, const SearchHelp& help,
                                                    std::vector<RecipeChange> allowed) {
  PlanQuestion question;
  question.run = document;
  use_canonical_keys(question.run);
  // A plan chooses what is computed again for every layout.
  if (asks_for_recompute_choice(question.run))
    remove_path(question.run, key_of(KeyId::kRecomputeMode).path);
  Diagnostics problems;
  const Settings fixed(question.run, problems);
  const bool wrong = std::any_of(problems.begin(), problems.end(), [](const Diagnostic& problem) {
    return problem.severity == Severity::kError;
  });
  if (wrong) return tl::unexpected(std::move(problems));
  Value bare = without_layout(question.run);
  ReadJob job = help.read(bare);
  if (!job) {
    // A precision may be known of the engine that was said alone.
    Value with_engine = bare;
    for (const KeyId id : {KeyId::kEngine, KeyId::kImplementation})
      if (const Value* said = question.run.at(key_of(id).path))
        with_engine = with_key(with_engine, id, *said);
    if (ReadJob again = help.read(with_engine)) {
      job = std::move(again);
      bare = std::move(with_engine);
    }
  }
  if (!job) return tl::unexpected(std::move(job.error()));
  // Of a run that stops at its first product no layout is a plan.
  if (job->dies_at_start) {
    for (Diagnostic& warning : job->warnings) warning.severity = Severity::kError;
    return tl::unexpected(std::move(job->warnings));
  }
  // Bounds and times of a stage know the vocabulary at the ends.
  const Value* vocabulary = question.run.at(key_of(KeyId::kVocabulary).path);
  if (vocabulary != nullptr && !(vocabulary->is_string() &&
                                 vocabulary->as_string() == name_of(VocabularyLayers::kAtTheEnds)))
    return tl::unexpected(
        Diagnostics{{Severity::kError, "E320", "not planned yet: a vocabulary divided over stages",
                     vocabulary->place(), "known, not in this version",
                     "weigh and sweep take it, layout by layout"}});
  PlanTarget& target = question.target;
  target.model = job->model;
  target.device = job->cluster.device;
  target.devices = job->cluster.devices;
  target.devices_per_node = job->cluster.devices_per_node;
  if (job->cluster.machine != nullptr) target.room_in_node = job->cluster.machine->devices_per_node;
  target.sequence_length = job->training.sequence_length;
  for (const Assumption& assumption : job->assumptions)
    if (assumption.key == "model" || assumption.key.starts_with("cluster.") ||
        assumption.key == key_of(KeyId::kSequenceLength).path ||
        (assumption.key == key_of(KeyId::kPrecision).path && fixed.has(KeyId::kPrecision)) ||
        assumption.key == key_of(KeyId::kOptimizer).path)
      question.assumptions.push_back(assumption);
  target.global_batch = batch_of(fixed, target, question.assumptions);
  question.sequences = target.global_batch;
  // Forms have fewer devices than the cluster, and its machines all the same.
  question.run =
      with_key(question.run, KeyId::kDevicesPerNode, Value::integer(target.devices_per_node));
  question.run =
      with_key(question.run, KeyId::kSequenceLength, Value::integer(target.sequence_length));
  // The form of the step that costs nothing; which layouts it is allowed for the readers know.
  if (!fixed.has(KeyId::kOptimizerForm) && job->training.optimizer.only_form.empty()) {
    Value fused = with_key(question.run, KeyId::kOptimizerForm, Value::string("fused"));
    if (help.read(with_key(bare, KeyId::kOptimizerForm, Value::string("fused"))))
      question.run = std::move(fused);
  }
  question.stacks = chosen_stacks(fixed, bare, *job, help);
  if (question.stacks.searched.empty())
    return tl::unexpected(Diagnostics{nothing_to_search(question.stacks, *job)});
  target.stacks = question.stacks.searched;
  question.recipes.push_back({});
  for (RecipeChange& recipe : allowed)
    if (has_products_of_change(*job->cluster.device, recipe))
      question.recipes.push_back(std::move(recipe));
  return question;
}

Space space_of(const PlanQuestion& question, const SearchHelp& help) {
  Diagnostics problems;
  const Settings fixed(question.run, problems);
  return space_of(question.target, fixed, question.recipes, help.expired);
}

}  // namespace steelyard
