// The optimizer, its form, and when it steps.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "job/engine_rules.h"
#include "job/recipe_choice.h"

namespace steelyard {
namespace {

constexpr std::string_view kNotAddedTo = "a gradient that is applied at once is not added to";
constexpr std::string_view kOneMicroBatch = "gradient_accumulation = 1";

// Hooks that step each tensor: what needs all gradients at once, or keeps them, cannot go with it.
void choose_step_in_backward(Draft& draft) {
  Job& job = draft.job();
  Training& training = job.training;
  training.optimizer_in_backward = draft.truth_or(KeyId::kOptimizerInBackward, false);
  if (!training.optimizer_in_backward) return;
  const auto refuse = [&](const char* code, std::string_view what, std::string_view why,
                          std::string_view help) {
    draft.refuse(KeyId::kOptimizerInBackward, code, std::string(what), std::string(why),
                 std::string(help));
  };
  if (job.engine != Engine::kDdp || job.parallel.data > 1)
    refuse("E320", "not weighed yet: optimizer_in_backward on several ranks",
           "known for one device", "engine = \"ddp\" with one device");
  if (training.gradient_accumulation > 1)
    refuse("E213", "optimizer_in_backward with gradient_accumulation", kNotAddedTo, kOneMicroBatch);
  if (training.gradient_clip)
    refuse("E213", "optimizer_in_backward with gradient_clip",
           "the norm of all gradients is known when the last one is there",
           "gradient_clip = false");
  if (training.precision.master && training.optimizer.keeps_master)
    refuse("E213", "optimizer_in_backward with master weights",
           "hooks step the parameters themselves", "precision = \"bf16-pure\"");
}

}  // namespace

void choose_optimizer(Draft& draft) {
  Training& training = draft.job().training;
  const EngineRules& rules = rules_of(draft.job().engine);
  std::string name = "adamw";
  if (const std::string* given = draft.settings().text(KeyId::kOptimizer))
    name = *given;
  else
    draft.assume(KeyId::kOptimizer, name, "what most training runs use");
  if (const Optimizer* known = find_optimizer(name)) training.optimizer = *known;
  if (training.optimizer.fused_into_backward && training.gradient_accumulation > 1)
    draft.refuse(KeyId::kOptimizer, "E213", fmt::format("{} with gradient_accumulation", name),
                 std::string(kNotAddedTo), std::string(kOneMicroBatch));
  // transformers' Trainer alone registers embeddings with bitsandbytes, so that their states keep 32 bits.
  if (draft.job().implementation == Implementation::kTorchtune)
    training.optimizer.embedding_is_small = false;

  // Some optimizers exist in one form only, whatever the engine likes.
  const Key& key = key_of(KeyId::kOptimizerForm);
  const auto only = std::find(key.names.begin(), key.names.end(), training.optimizer.only_form);
  if (only == key.names.end()) {
    training.optimizer_form = draft.name_or(KeyId::kOptimizerForm, rules.form, rules.form_reason);
    return;
  }
  const auto form = static_cast<OptimizerForm>(only - key.names.begin());
  training.optimizer_form =
      draft.name_or(KeyId::kOptimizerForm, form, fmt::format("the only form of {}", name));
  if (training.optimizer_form != form)
    draft.refuse(KeyId::kOptimizerForm, "E221",
                 fmt::format("{} has no {} form", name, name_of(training.optimizer_form)),
                 fmt::format("expected \"{}\"", name_of(form)));
}

void choose_step(Draft& draft) {
  Job& job = draft.job();
  const std::string_view clips = rules_of(job.engine).clip_reason;
  job.training.gradient_clip =
      draft.truth_or(KeyId::kGradientClip, !clips.empty(), clips.empty() ? "not given" : clips);
  choose_step_in_backward(draft);
}

}  // namespace steelyard
