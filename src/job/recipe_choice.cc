#include "job/recipe_choice.h"

#include <fmt/format.h>

#include <string>

#include "job/engine_rules.h"
#include "job/pipeline_shape.h"

namespace steelyard {
namespace {

void choose_implementation(Draft& draft) {
  Job& job = draft.job();
  const EngineRules& rules = rules_of(job.engine);
  if (const auto given = draft.settings().name(KeyId::kImplementation)) {
    job.implementation = static_cast<Implementation>(*given);
    if (!rules.implementations[*given]) {
      std::string can;
      for (std::size_t i = 0; i < kImplementations; ++i)
        if (rules.implementations[i])
          can += fmt::format("{}\"{}\"", can.empty() ? "" : " or ",
                             name_of(static_cast<Implementation>(i)));
      draft.refuse(KeyId::kImplementation, "E216",
                   fmt::format("{} does not run the code of {}", name_of(job.engine),
                               name_of(job.implementation)),
                   "expected " + can);
    }
    return;
  }
  job.implementation = rules.usual_implementation;
  std::string_view reason = "the engine's usual code";
  // A pipeline needs a model that is written in stages.
  if (job.engine == Engine::kFsdp2 && job.parallel.pipeline > 1) {
    job.implementation = Implementation::kTorchtitan;
    reason = "torchtitan is the code of fsdp2 that runs pipelines";
  } else if (job.engine == Engine::kDeepSpeed &&
             (job.parallel.pipeline > 1 || job.parallel.tensor > 1)) {
    job.implementation = Implementation::kMegatron;
    reason = "Megatron-DeepSpeed is the code of deepspeed that has tensor and pipeline parallelism";
  }
  draft.assume(KeyId::kImplementation, std::string(name_of(job.implementation)), reason);
}

void choose_dropout(Draft& draft, bool config_states_dropout) {
  Training& training = draft.job().training;
  const auto both = draft.settings().number(KeyId::kDropout);
  training.hidden_dropout = draft.settings().number(KeyId::kHiddenDropout);
  training.attention_dropout = draft.settings().number(KeyId::kAttentionDropout);
  if (!training.hidden_dropout) training.hidden_dropout = both;
  if (!training.attention_dropout) training.attention_dropout = both;
  if (training.hidden_dropout && training.attention_dropout) return;
  const bool megatron = draft.job().implementation == Implementation::kMegatron;
  if (megatron && !config_states_dropout) {
    // Its own default is 0.1, which hardly any run since GPT-3 has kept.
    if (!training.hidden_dropout) {
      training.hidden_dropout = 0.0;
      draft.assume(KeyId::kHiddenDropout, "0",
                   "the model's config states none; megatron's own default is 0.1");
    }
    if (!training.attention_dropout) {
      training.attention_dropout = 0.0;
      draft.assume(KeyId::kAttentionDropout, "0",
                   "the model's config states none; megatron's own default is 0.1");
    }
    return;
  }
  draft.assume(KeyId::kDropout, "as the model", "the model's config says");
}

void choose_vocabulary_multiple(Draft& draft) {
  Job& job = draft.job();
  const std::int64_t stages = job.parallel.pipeline;
  if (divides_vocabulary(job)) {
    job.training.vocabulary_multiple =
        draft.count_or(KeyId::kVocabularyMultiple, 2 * stages,
                       "a divided vocabulary is padded to twice the stages");
    if (job.training.vocabulary_multiple % stages != 0)
      draft.refuse(KeyId::kVocabularyMultiple, "E213",
                   fmt::format("{} stages do not divide vocabulary_multiple {}", stages,
                               job.training.vocabulary_multiple),
                   "each has as many rows as the others",
                   fmt::format("vocabulary_multiple = {}", 2 * stages));
  } else if (job.implementation == Implementation::kMegatron) {
    job.training.vocabulary_multiple =
        draft.count_or(KeyId::kVocabularyMultiple, 128, "megatron pads to 128 x tensor");
  } else {
    job.training.vocabulary_multiple = draft.count_or(KeyId::kVocabularyMultiple, 1);
  }
}

}  // namespace

void choose_engine(Draft& draft) {
  Job& job = draft.job();
  const bool alone = job.cluster.devices == 1;
  job.engine = draft.name_or(KeyId::kEngine, alone ? Engine::kDdp : Engine::kFsdp2,
                             alone ? "one device: plain PyTorch, nothing to divide"
                                   : "PyTorch's own way of dividing a model over devices");
}

void choose_recipe(Draft& draft, bool config_states_dropout) {
  choose_implementation(draft);
  choose_precision(draft);
  choose_optimizer(draft);
  choose_attention(draft);
  choose_loss(draft);
  choose_kernels(draft);
  choose_types(draft);
  choose_compile(draft);
  choose_step(draft);
  choose_dropout(draft, config_states_dropout);
  choose_vocabulary_multiple(draft);
}

}  // namespace steelyard
