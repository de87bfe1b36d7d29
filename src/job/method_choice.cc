#include "job/method_choice.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "model/adapt.h"
#include "model/freeze.h"

namespace steelyard {
namespace {

// Methods that are not weighed yet: what of them would have to be known.
struct UnweighedMethod {
  Method method;
  std::string_view needs;
};
constexpr std::array kUnweighedMethods = {
    UnweighedMethod{Method::kKto,
                    "a reference scores beside the policy, and a second forward of mismatched "
                    "pairs estimates a divergence: weights and activations of dpo at least"},
    UnweighedMethod{Method::kRewardModel,
                    "a head of one score, and pairs of sequences: activations of two sequences "
                    "for each pair"},
    UnweighedMethod{Method::kOrpo,
                    "pairs of sequences without a reference, whose odds are made of whole logits"},
    UnweighedMethod{Method::kCpo,
                    "pairs of sequences without a reference (CPO, SimPO): whole logits of both"},
    UnweighedMethod{Method::kPpo,
                    "a reference, a critic with states of its own and a reward model stand beside "
                    "the policy, and a cache while it generates"},
    UnweighedMethod{Method::kGrpo,
                    "a reference stands beside the policy unless beta is 0, and a cache of keys "
                    "and values, or an engine with weights of its own, generates"},
};

bool is_weighed_here(const Job& job) {
  const bool known = job.engine == Engine::kDdp || job.engine == Engine::kFsdp1 ||
                     job.engine == Engine::kFsdp2 || job.engine == Engine::kDeepSpeed;
  if (job.implementation != Implementation::kTransformers || !known || job.model == nullptr)
    return false;
  const Architecture& model = *job.model;
  const Parallel& parallel = job.parallel;
  return parallel.tensor == 1 && parallel.context == 1 && parallel.pipeline == 1 &&
         !model.encoder && !model.encoder_part && !model.image && model.predictions.empty() &&
         !model.project_out && !model.head.bias && !job.training.compile &&
         job.offload.activations == OffloadTarget::kNone &&
         job.offload.parameters == OffloadTarget::kNone && !job.training.lengths;
}

void refuse_what_is_not_weighed(Draft& draft) {
  const Job& job = draft.job();
  for (const UnweighedMethod& row : kUnweighedMethods)
    if (row.method == job.training.method)
      draft.refuse(KeyId::kMethod, "E320",
                   fmt::format("not weighed yet: training.method = \"{}\"", name_of(row.method)),
                   std::string(row.needs),
                   "method = \"dpo\" and \"sft\" are weighed; neither stands for it");
  if (job.training.method != Method::kDpo) return;
  if (!is_weighed_here(job))
    draft.refuse(KeyId::kMethod, "E320", "not weighed yet: training.method = \"dpo\" here",
                 "TRL's trainer is weighed: a reference stands beside the policy, or is shared "
                 "with it",
                 "decoders of transformers' code are weighed on data ranks (ddp, fsdp1, fsdp2, "
                 "deepspeed), without compile, offloaded parameters or activations and padded "
                 "lengths");
  if (job.training.loss != LossKernel::kPlain && job.training.loss != LossKernel::kChunked)
    draft.refuse(KeyId::kLoss, "E320",
                 fmt::format("not weighed: loss = \"{}\" of dpo", name_of(job.training.loss)),
                 "a preference's loss is made of logarithms of probabilities",
                 "loss = \"chunked\" makes them in tiles as TRL 1.16 does");
}

// loss = "chunked": TRL's tiles; "plain": logits are whole, as they were before.
void choose_loss_of_preference(Draft& draft) {
  Training& training = draft.job().training;
  if (!draft.has(KeyId::kLoss)) {
    training.loss = LossKernel::kChunked;
    draft.assume(KeyId::kLoss, "chunked", "TRL 1.16 makes logarithms of probabilities in tiles");
  }
  training.log_probabilities =
      training.loss == LossKernel::kChunked ? LogProbabilities::kTiles : LogProbabilities::kWhole;
  training.prompt_length = Tokens(draft.count_or(
      KeyId::kPromptLength, 0, "every token of a sequence counts as one of the completion"));
  if (training.prompt_length >= training.sequence_length)
    draft.refuse(KeyId::kPromptLength, "E231",
                 fmt::format("prompt_length {} of sequences of {}", training.prompt_length.value(),
                             training.sequence_length.value()),
                 "no token of a completion is left", "sequence_length counts both");
}

void choose_reference(Draft& draft) {
  Job& job = draft.job();
  const bool adapts = job.adapter.has_value();
  const auto reference =
      draft.name_or(KeyId::kReference, adapts ? Reference::kAdapter : Reference::kModel,
                    adapts ? "the trained model without its adapters scores"
                           : "a copy of the model as it was scores, and is held beside it");
  job.training.reference = reference;
  if (reference == Reference::kNone)
    draft.refuse(KeyId::kReference, "E231", "method = \"dpo\" without a reference",
                 "its loss compares with what a reference gives",
                 "reference = \"precomputed\" holds no second model");
  if (reference == Reference::kAdapter && !adapts)
    draft.refuse(KeyId::kReference, "E231", "reference = \"adapter\" without an adapter",
                 "the trained model itself would score",
                 "reference = \"model\" holds a second one");
  if (job.model == nullptr || reference == Reference::kPrecomputed || reference == Reference::kNone)
    return;
  const bool divides = job.engine == Engine::kFsdp1 ||
                       (job.engine == Engine::kDeepSpeed && job.parallel.zero_stage == 3) ||
                       (job.engine == Engine::kFsdp2 && reference == Reference::kAdapter);
  if (divides && job.parallel.data > 1)
    draft.refuse(
        KeyId::kReference, "E320",
        fmt::format("not weighed yet: reference = \"{}\" with {}{}", name_of(reference),
                    name_of(job.engine),
                    job.engine == Engine::kDeepSpeed ? " and zero_stage 3" : ""),
        "how this engine gathers for a forward without gradients is not known here",
        "ddp, deepspeed with zero_stage 0 to 2, and fsdp2 with reference = \"model\" are weighed; "
        "reference = \"precomputed\" with each");
  const std::vector<std::string> all = {"*"};
  job.scorer = freeze(without_adapters(*job.model), all).architecture;
}

}  // namespace

void choose_training_method(Draft& draft) {
  Job& job = draft.job();
  job.training.method = static_cast<Method>(draft.settings().name(KeyId::kMethod).value_or(0));
  refuse_what_is_not_weighed(draft);
  if (job.training.method != Method::kDpo) {
    if (draft.has(KeyId::kPromptLength))
      draft.refuse(KeyId::kPromptLength, "E231", "prompt_length of a method without completions",
                   "nothing would change", "method = \"dpo\" has completions");
    if (draft.has(KeyId::kReference))
      draft.refuse(KeyId::kReference, "E231", "a reference without a method that asks it",
                   "nothing would score", "method = \"dpo\" has one");
    return;
  }
  choose_loss_of_preference(draft);
  // disable_dropout is TRL's default, for the policy and for the reference.
  if (!draft.has(KeyId::kDropout) && !draft.has(KeyId::kHiddenDropout) &&
      !draft.has(KeyId::kAttentionDropout))
    job.training.hidden_dropout = job.training.attention_dropout = 0;
  choose_reference(draft);
}

bool gathers_scorer_at_once(const Job& job) {
  return job.scorer != nullptr && job.training.reference == Reference::kModel &&
         job.engine == Engine::kFsdp2 && !is_unsharded_fsdp2(job);
}

Job job_of_divided_scorer(const Job& job) {
  Job scorer = job;
  Training& training = scorer.training;
  const bool shares = training.reference == Reference::kAdapter;
  scorer.model = job.scorer;
  scorer.scorer = nullptr;
  training.reference = Reference::kNone;
  training.frozen = {"*"};
  training.gradient_accumulation = 1;
  training.gradient_clip = training.optimizer_in_backward = false;
  scorer.recompute = {};
  scorer.offload = {};
  if (!shares) scorer.adapter.reset();
  return scorer;
}

Job job_of_scorer(const Job& job) {
  Job scorer = job_of_divided_scorer(job);
  const bool divides =
      job.engine == Engine::kFsdp1 ||
      (job.engine == Engine::kFsdp2 && !is_unsharded_fsdp2(job) && !gathers_scorer_at_once(job)) ||
      (job.engine == Engine::kDeepSpeed && job.parallel.zero_stage == 3);
  if (divides) return scorer;
  // accelerate prepares it for evaluation, without an engine around it; DeepSpeed and FSDP2 hand on their 16 bits.
  scorer.engine = Engine::kDdp;
  scorer.parallel.data = scorer.parallel.replicate = Ranks(1);
  scorer.parallel.zero_stage = 0;
  Precision& precision = scorer.training.precision;
  if (!precision.autocast) {
    precision.parameters = precision.gradients = precision.reduction = precision.compute;
    precision.master.reset();
    precision.accumulated_gradients.reset();
  }
  return scorer;
}

}  // namespace steelyard
