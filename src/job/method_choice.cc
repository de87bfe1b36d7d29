#include "job/method_choice.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "job/generation_choice.h"
#include "model/adapt.h"
#include "model/freeze.h"
#include "model/reward_model.h"

namespace steelyard {
namespace {

// What a method has beside a cross entropy, as TRL's trainer runs it.
struct MethodTerms {
  Method method;
  bool completions = false;  // learns from the part of a sequence behind its prompt
  bool refers = false;       // asks what a reference gives
  LossKernel usual = LossKernel::kPlain;
  LossKernel also = LossKernel::kPlain;
  std::string_view losses;  // what the two are
  // What would have to be known of a method that is not weighed yet.
  std::string_view needs = {};
};
constexpr std::string_view kTiles =
    "loss = \"chunked\" makes logarithms of probabilities in tiles as TRL 1.16 does";
constexpr std::string_view kKernel =
    "loss = \"fused\" is the kernel that TRL 1.16 makes logarithms of probabilities with, of whole "
    "logits; \"plain\" is a log-softmax of each sequence, as before";
constexpr std::array kTerms = {
    MethodTerms{Method::kDpo, true, true, LossKernel::kChunked, LossKernel::kPlain, kTiles},
    MethodTerms{Method::kKto, true, true, LossKernel::kChunked, LossKernel::kChunked, kTiles},
    MethodTerms{Method::kGrpo, true, true, LossKernel::kChunked, LossKernel::kFused,
                "loss = \"chunked\" makes logarithms of probabilities in tiles as TRL 1.16 does, "
                "\"fused\" is verl's, flash-attention's kernel of whole logits"},
    MethodTerms{Method::kOrpo, true, false, LossKernel::kFused, LossKernel::kPlain, kKernel},
    MethodTerms{Method::kCpo, true, false, LossKernel::kFused, LossKernel::kPlain, kKernel},
    MethodTerms{Method::kRewardModel, false, false, LossKernel::kPlain, LossKernel::kPlain,
                "a reward is one number of a sequence: loss = \"plain\""},
    MethodTerms{Method::kPpo, true, true, LossKernel::kPlain, LossKernel::kPlain, "",
                "a reference, a critic with states of its own and a reward model stand beside the "
                "policy, and a cache while it generates"},
};

const MethodTerms* terms_of(Method method) {
  for (const MethodTerms& row : kTerms)
    if (row.method == method) return &row;
  return nullptr;
}

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

void refuse_what_is_not_weighed(Draft& draft, const MethodTerms& terms) {
  const Job& job = draft.job();
  const std::string_view name = name_of(terms.method);
  if (!terms.needs.empty())
    return draft.refuse(
        KeyId::kMethod, "E320", fmt::format("not weighed yet: training.method = \"{}\"", name),
        std::string(terms.needs),
        "method = \"dpo\", \"kto\", \"orpo\", \"cpo\", \"rm\", \"grpo\" and \"sft\" "
        "are weighed; none stands for it");
  if (!is_weighed_here(job))
    draft.refuse(KeyId::kMethod, "E320",
                 fmt::format("not weighed yet: training.method = \"{}\" here", name),
                 "TRL's trainer is weighed, on the model code of transformers",
                 "decoders of transformers' code are weighed on data ranks (ddp, fsdp1, fsdp2, "
                 "deepspeed), without compile, offloaded parameters or activations and padded "
                 "lengths");
  // Two forwards of the trained model in a step: what ZeRO-3 fetches ahead follows another order in each.
  if (terms.method == Method::kKto && job.engine == Engine::kDeepSpeed &&
      job.parallel.zero_stage == 3)
    draft.refuse(KeyId::kMethod, "E320", "not weighed yet: kto with deepspeed and zero_stage 3",
                 "its mismatched pairs go through the trained model once more before each forward",
                 "zero_stage 0 to 2, ddp and fsdp2 are weighed");
  const LossKernel loss = job.training.loss;
  if (draft.has(KeyId::kLoss) && loss != terms.usual && loss != terms.also)
    draft.refuse(KeyId::kLoss, "E320",
                 fmt::format("not weighed: loss = \"{}\" of {}", name_of(loss), name),
                 "this method's loss is its trainer's own", std::string(terms.losses));
}

LogProbabilities probabilities_of(const Training& training) {
  if (training.method == Method::kRewardModel) return LogProbabilities::kNone;
  switch (training.loss) {
    case LossKernel::kChunked:
      return LogProbabilities::kTiles;
    case LossKernel::kFused:
      return training.method == Method::kGrpo ? LogProbabilities::kWhole
                                              : LogProbabilities::kKernel;
    default:
      return LogProbabilities::kWhole;
  }
}

void choose_loss_of_method(Draft& draft, const MethodTerms& terms) {
  Training& training = draft.job().training;
  if (!draft.has(KeyId::kLoss)) {
    training.loss = terms.usual;
    if (terms.completions)
      draft.assume(KeyId::kLoss, std::string(name_of(terms.usual)),
                   terms.usual == LossKernel::kChunked
                       ? "TRL 1.16 makes logarithms of probabilities in tiles"
                       : "TRL 1.16 makes logarithms of probabilities with a kernel of its own");
  }
  training.log_probabilities = probabilities_of(training);
  if (!terms.completions) return;
  if (terms.method == Method::kOrpo) training.likelihood_of_chosen = true;
  if (terms.method == Method::kCpo)
    training.likelihood_of_chosen =
        draft.truth_or(KeyId::kLikelihoodOfChosen, true, "TRL's cpo_alpha is 1");
  training.prompt_length = Tokens(draft.count_or(
      KeyId::kPromptLength, 0, "every token of a sequence counts as one of the completion"));
  if (training.prompt_length >= training.sequence_length)
    draft.refuse(KeyId::kPromptLength, "E231",
                 fmt::format("prompt_length {} of sequences of {}", training.prompt_length.value(),
                             training.sequence_length.value()),
                 "no token of a completion is left", "sequence_length counts both");
  // trl 1.16 trainer/kto_trainer.py: each completion is also put behind the next one's prompt of its batch.
  if (terms.method == Method::kKto && training.micro_batch < 2)
    draft.refuse(KeyId::kMicroBatch, "E231", "kto with a micro_batch of 1",
                 "TRL's KTO estimates a divergence from mismatched pairs of a batch, and dies of "
                 "one of 1",
                 "micro_batch = 2 or more");
}

// A forward without gradients of weights that are divided is recorded of a second model with each engine, and of the trained one
// without its adapters with fsdp2.
void refuse_unknown_gathers(Draft& draft) {
  const Job& job = draft.job();
  if (!divides_scorer(job)) return;
  const Reference reference = job.training.reference;
  if (job.engine == Engine::kFsdp2 || reference == Reference::kModel) return;
  draft.refuse(
      KeyId::kReference, "E320",
      fmt::format("not weighed yet: reference = \"{}\" with {}{}", name_of(reference),
                  name_of(job.engine), job.engine == Engine::kDeepSpeed ? " and zero_stage 3" : ""),
      "how this engine gathers for a forward without gradients is not known here",
      "ddp, deepspeed with zero_stage 0 to 2 and fsdp2 are weighed, and reference = \"model\" or "
      "\"precomputed\" with each");
}

void choose_reference(Draft& draft) {
  Job& job = draft.job();
  const bool adapts = job.adapter.has_value();
  const bool generates = job.training.method == Method::kGrpo;
  const Reference usual = generates ? Reference::kNone
                          : adapts  ? Reference::kAdapter
                                    : Reference::kModel;
  const auto reference =
      draft.name_or(KeyId::kReference, usual,
                    generates ? "TRL's beta is 0: nothing scores beside the policy"
                    : adapts  ? "the trained model without its adapters scores"
                              : "a copy of the model as it was scores, and is held beside it");
  job.training.reference = reference;
  if (reference == Reference::kNone && !generates)
    draft.refuse(KeyId::kReference, "E231",
                 fmt::format("method = \"{}\" without a reference", name_of(job.training.method)),
                 "its loss compares with what a reference gives",
                 "reference = \"precomputed\" holds no second model");
  if (reference == Reference::kPrecomputed && generates)
    draft.refuse(KeyId::kReference, "E231", "reference = \"precomputed\" of grpo",
                 "what it learns from is made while it trains",
                 "reference = \"model\" or \"none\"");
  if (reference == Reference::kAdapter && !adapts)
    draft.refuse(KeyId::kReference, "E231", "reference = \"adapter\" without an adapter",
                 "the trained model itself would score",
                 "reference = \"model\" holds a second one");
  if (job.model == nullptr || reference == Reference::kPrecomputed || reference == Reference::kNone)
    return;
  const std::vector<std::string> all = {"*"};
  job.scorer = freeze(without_adapters(*job.model), all).architecture;
  refuse_unknown_gathers(draft);
}

}  // namespace

void choose_training_method(Draft& draft) {
  Job& job = draft.job();
  const MethodTerms* terms = terms_of(job.training.method);
  if (terms != nullptr) refuse_what_is_not_weighed(draft, *terms);
  const auto refuse_if_said = [&](KeyId key, bool means_something, std::string_view what,
                                  std::string_view why, std::string_view help) {
    if (!means_something && draft.has(key))
      draft.refuse(key, "E231", std::string(what), std::string(why), std::string(help));
  };
  refuse_if_said(KeyId::kPromptLength, terms != nullptr && terms->completions,
                 "prompt_length of a method without completions", "nothing would change",
                 "method = \"dpo\" has completions");
  refuse_if_said(KeyId::kReference, terms != nullptr && terms->refers,
                 "a reference without a method that asks it", "nothing would score",
                 "method = \"dpo\", \"kto\" and \"grpo\" have one");
  refuse_if_said(KeyId::kLikelihoodOfChosen, job.training.method == Method::kCpo,
                 "likelihood_of_chosen without a method that may leave it out",
                 "nothing would change", "method = \"cpo\" has the choice");
  choose_generation(draft);
  if (terms == nullptr || !terms->needs.empty()) return;
  choose_loss_of_method(draft, *terms);
  // disable_dropout is the default of TRL's trainers, for the policy and for the reference.
  if (!draft.has(KeyId::kDropout) && !draft.has(KeyId::kHiddenDropout) &&
      !draft.has(KeyId::kAttentionDropout))
    job.training.hidden_dropout = job.training.attention_dropout = 0;
  if (terms->refers) choose_reference(draft);
}

void take_method(Draft& draft) {
  Job& job = draft.job();
  job.training.method = static_cast<Method>(draft.settings().name(KeyId::kMethod).value_or(0));
  if (job.training.method == Method::kRewardModel && job.model != nullptr)
    job.model = std::make_shared<const Architecture>(reward_model(*job.model));
}

bool has_two_groups(const Job& job) { return terms_of(job.training.method) != nullptr; }

bool gathers_scorer_at_once(const Job& job) {
  return job.scorer != nullptr && job.training.reference == Reference::kModel &&
         job.engine == Engine::kFsdp2 && !is_unsharded_fsdp2(job);
}

bool divides_scorer(const Job& job) {
  if (job.scorer == nullptr || job.parallel.data == 1) return false;
  return job.engine == Engine::kFsdp1 ||
         (job.engine == Engine::kDeepSpeed && job.parallel.zero_stage == 3) ||
         (job.engine == Engine::kFsdp2 && !is_unsharded_fsdp2(job) && !gathers_scorer_at_once(job));
}

Job job_of_divided_scorer(const Job& job) {
  Job scorer = job;
  Training& training = scorer.training;
  const bool shares = training.reference == Reference::kAdapter;
  scorer.model = job.scorer;
  scorer.scorer = nullptr;
  scorer.generation = {};
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
  if (divides_scorer(job)) return scorer;
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
