#include "job/generation_choice.h"

namespace steelyard {
namespace {

constexpr KeyId kKeysOfGeneration[] = {KeyId::kGenerationEngine, KeyId::kGenerationShare,
                                       KeyId::kGenerationSleeps, KeyId::kGenerationSequences};

void refuse_keys_of_others(Draft& draft) {
  for (const KeyId key : kKeysOfGeneration)
    if (draft.has(key))
      draft.refuse(key, "E231", "generation of a method that learns from what it is given",
                   "nothing would be generated", "method = \"grpo\" generates");
}

void choose_share(Draft& draft) {
  Generation& generation = draft.job().generation;
  if (!draft.has(KeyId::kGenerationShare))
    draft.assume(KeyId::kGenerationShare, "0.3", "TRL's vllm_gpu_memory_utilization");
  generation.share = draft.settings().number(KeyId::kGenerationShare).value_or(0.3);
  generation.sleeps =
      draft.truth_or(KeyId::kGenerationSleeps, false, "TRL's vllm_enable_sleep_mode is off");
}

}  // namespace

void choose_generation(Draft& draft) {
  Job& job = draft.job();
  if (job.training.method != Method::kGrpo) return refuse_keys_of_others(draft);
  Generation& generation = job.generation;
  generation.by = draft.name_or(KeyId::kGenerationEngine, Generator::kTransformers,
                                "TRL generates with the model's own code unless it is told to use "
                                "vLLM");
  if (generation.by != Generator::kTransformers && draft.has(KeyId::kGenerationSequences))
    draft.refuse(KeyId::kGenerationSequences, "E231", "generation.sequences of an engine",
                 "it takes as many as its own memory holds", "memory_fraction says how much");
  if (generation.by == Generator::kVllm) return choose_share(draft);
  for (const KeyId key : {KeyId::kGenerationShare, KeyId::kGenerationSleeps})
    if (draft.has(key))
      draft.refuse(key, "E231", "a share of the device without an engine on it",
                   "nothing would take it", "generation.engine = \"vllm\" takes one");
  if (generation.by == Generator::kTransformers)
    draft.refuse(
        KeyId::kGenerationEngine, "E320", "not weighed yet: generation by the model's own code",
        "its cache of keys and values, and what a prompt's forward holds, are not known "
        "here",
        "generation.engine = \"vllm\" (with memory_fraction) and \"elsewhere\" are weighed");
}

}  // namespace steelyard
