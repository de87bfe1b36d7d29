#include "job/recipe_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <variant>

#include "job/engine_rules.h"
#include "job/pipeline_shape.h"
#include "model/architecture.h"

namespace steelyard {
namespace {

// NVIDIA generations before Ampere have neither bf16 units nor FlashAttention 2.
bool before_ampere(const Device* device) {
  return device != nullptr && (device->architecture == "sm_70" || device->architecture == "sm_75");
}

bool has_eager_only_attention(const Architecture& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(), [](const Layer& layer) {
    const auto* grouped = std::get_if<GroupedAttention>(&layer.attention);
    return grouped != nullptr && grouped->eager_only;
  });
}

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

// Mixed precision is fully_shard's. Without it torchtitan uses autocast on one device, and nothing at all beside tensor
// or pipeline parallelism.
void leave_out_mixed_precision(Draft& draft) {
  Job& job = draft.job();
  Precision& precision = job.training.precision;
  const bool mixed = precision.master && !precision.autocast && precision.float8_recipe.empty() &&
                     bits_of(precision.compute) == 16;
  if (!is_unsharded_fsdp2(job) || !mixed) return;
  const bool divided = job.parallel.tensor > 1 || job.parallel.pipeline > 1;
  const ElementType compute = precision.compute;
  const std::string asked = precision.name;
  precision = *find_precision(divided ? "fp32" : "bf16-autocast");
  if (!divided) precision.compute = compute;
  const std::string_view used = divided ? "fp32" : "autocast, with parameters in fp32";
  const std::string message = fmt::format(
      "one data rank: torchtitan applies no fully_shard, and no mixed precision with it; weighed "
      "as {}",
      used);
  if (draft.settings().text(KeyId::kPrecision))
    draft.warn(KeyId::kPrecision, "E224", fmt::format("{} is fully_shard's mixed precision", asked),
               message, "precision = \"bf16-pure\" needs no fully_shard; data of 2 or more has it");
  else
    draft.assume(KeyId::kPrecision, precision.name, message);
}

// scaling's parameters, gradients and products have one type, and what is narrower than fp32 is stepped as fp32.
void check_precision_of_scaling(Draft& draft) {
  const Precision& precision = draft.job().training.precision;
  const bool one_type =
      precision.gradients == precision.parameters && precision.compute == precision.parameters &&
      !precision.accumulated_gradients && !precision.autocast && precision.float8_recipe.empty();
  const bool stepped_as_float32 =
      precision.parameters == ElementType::kFloat32 || precision.master == ElementType::kFloat32;
  if (one_type && stepped_as_float32) return;
  draft.refuse(KeyId::kPrecision, "E213",
               fmt::format("{} is no precision of scaling's", precision.name),
               "one type for parameters, gradients and products, fp32 in the step",
               "\"bf16-mixed\", \"fp16-mixed\" or \"fp32\"");
}

void choose_precision(Draft& draft) {
  Job& job = draft.job();
  const bool old = before_ampere(job.cluster.device.get());
  std::string name;
  if (const std::string* given = draft.settings().text(KeyId::kPrecision)) {
    name = *given;
    if (old && name.starts_with("bf16"))
      draft.warn(
          KeyId::kPrecision, "E220", fmt::format("{} has no bf16 units", job.cluster.device->name),
          "runs, many times slower", "precision = \"fp16-mixed\" is what this device is used with");
  } else {
    name = old ? "fp16-mixed" : "bf16-mixed";
    draft.assume(KeyId::kPrecision, name,
                 old ? "the device has no bf16 units" : "what most training runs use");
  }
  if (const Precision* known = find_precision(name)) job.training.precision = *known;
  // Transformer Engine's recipes: what goes into a product has 8 bits, what comes out of it those of the parameters.
  if (multiplies_in_8_bits(job.training.precision))
    job.training.precision.compute = job.training.precision.parameters;
  leave_out_mixed_precision(draft);
  if (job.engine == Engine::kScaling) check_precision_of_scaling(draft);
}

void choose_optimizer(Draft& draft) {
  Training& training = draft.job().training;
  const EngineRules& rules = rules_of(draft.job().engine);
  std::string name = "adamw";
  if (const std::string* given = draft.settings().text(KeyId::kOptimizer))
    name = *given;
  else
    draft.assume(KeyId::kOptimizer, name, "what most training runs use");
  if (const Optimizer* known = find_optimizer(name)) training.optimizer = *known;
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

void choose_attention(Draft& draft) {
  Job& job = draft.job();
  const bool single = job.training.precision.compute == ElementType::kFloat32;
  const bool old = before_ampere(job.cluster.device.get());
  const bool eager_only = job.model != nullptr &&
                          job.implementation == Implementation::kTransformers &&
                          has_eager_only_attention(*job.model);
  const bool takes_no_flash = job.model != nullptr && follows_encoder(*job.model);
  auto usual = AttentionKernel::kFlash;
  std::string_view reason = "the kernel with the smallest memory";
  if (eager_only) {
    usual = AttentionKernel::kEager;
    reason = "transformers has no other kernel for this model";
  } else if (takes_no_flash) {
    usual = AttentionKernel::kEfficient;
    reason = "flash attention takes no relative positions";
  } else if (single) {
    usual = AttentionKernel::kEfficient;
    reason = "flash attention has no fp32 form";
  } else if (old) {
    usual = AttentionKernel::kEfficient;
    reason = "flash attention needs an Ampere device or a newer one";
  }
  job.training.attention = draft.name_or(KeyId::kAttention, usual, reason);
  if (job.training.attention == AttentionKernel::kEager) return;
  if (eager_only) {
    draft.refuse(KeyId::kAttention, "E220",
                 fmt::format("{} has eager attention only", job.model->name),
                 "transformers has no other kernel for it", "attention = \"eager\"");
  } else if (job.training.attention == AttentionKernel::kFlash && takes_no_flash) {
    draft.refuse(
        KeyId::kAttention, "E220",
        fmt::format("{} has relative positions, which flash attention does not take",
                    job.model->name),
        "they are added to the scores",
        "attention = \"efficient\" is what transformers runs (sdpa); \"eager\" is weighed too");
  } else if (job.training.attention == AttentionKernel::kFlash && single) {
    draft.refuse(
        KeyId::kAttention, "E220",
        fmt::format("flash attention does not compute in {}", job.training.precision.name),
        "needs bf16 or fp16",
        "attention = \"efficient\" computes in fp32; precision = \"bf16-mixed\" keeps flash");
  } else if (job.training.attention == AttentionKernel::kFlash && old) {
    draft.warn(KeyId::kAttention, "E220",
               fmt::format("{} runs no flash attention 2", job.cluster.device->name),
               "weighed as if it did", "attention = \"efficient\" is what it runs");
  }
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

void choose_sample_lengths(Draft& draft) {
  constexpr int kPadded = 1;
  const auto mean = draft.settings().number(KeyId::kMeanLength);
  const auto deviation = draft.settings().number(KeyId::kLengthDeviation);
  if (draft.settings().name(KeyId::kPacking).value_or(0) != kPadded) {
    for (const KeyId key :
         {KeyId::kMeanLength, KeyId::kLengthDeviation, KeyId::kLongSamples, KeyId::kSamples})
      if (draft.has(key))
        draft.refuse(key, "E227", "lengths of samples where they are not padded",
                     "packing is not padded", "training.packing = \"padded\"");
    return;
  }
  if (!mean || !deviation) {
    draft.refuse(KeyId::kPacking, "E227",
                 "padded micro-batches are as long as their samples, and how long these are is not "
                 "said",
                 "needs training.mean_length and training.length_deviation",
                 "packing = \"fixed\" weighs micro-batches of sequence_length");
    return;
  }
  draft.job().training.lengths =
      SampleLengths{*mean, *deviation, draft.settings().name(KeyId::kLongSamples).value_or(0) == 1,
                    draft.settings().count(KeyId::kSamples).value_or(0)};
  draft.assume(KeyId::kMeanLength, "log-normal",
               "how samples spread around their mean: tokens of documents do so");
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

// --use-precision-aware-optimizer: types of moments and of what completes the bf16 weights to fp32.
void choose_precision_aware(Draft& draft) {
  Job& job = draft.job();
  Training& training = job.training;
  constexpr std::array kTypes = {ElementType::kFloat32, ElementType::kBFloat16,
                                 ElementType::kFloat16, ElementType::kFloat8E4M3};
  constexpr std::array kKeys = {KeyId::kTypeMaster, KeyId::kTypeFirstMoment,
                                KeyId::kTypeSecondMoment};
  for (const KeyId id : kKeys) {
    if (!draft.has(id)) continue;
    const int index = draft.settings().name(id).value_or(0);
    if (job.engine != Engine::kMegatron || job.parallel.zero_stage != 1 ||
        training.optimizer.name != "adamw" || !training.precision.master ||
        training.precision.parameters != ElementType::kBFloat16 ||
        job.offload.optimizer != OffloadTarget::kNone || draft.has(KeyId::kOffloadOptimizer)) {
      draft.refuse(id, "E320",
                   fmt::format("not weighed yet: {} with {}", key_of(id).path, name_of(job.engine)),
                   "known for megatron with zero_stage 1, adamw on the device and bf16 parameters "
                   "(--use-precision-aware-optimizer)",
                   "leave it out: the precision says it");
      continue;
    }
    if (id == KeyId::kTypeMaster && index != 0) {
      draft.refuse(id, "E320", "not weighed yet: types.master other than fp32",
                   "fp32 is kept as what bf16 parameters lack of it", "types.master = \"fp32\"");
      continue;
    }
    training.precision_aware = true;
    const std::size_t slot = id == KeyId::kTypeSecondMoment ? 1 : 0;
    if (id != KeyId::kTypeMaster && slot < training.optimizer.slots.size())
      training.optimizer.slots[slot].type = kTypes[static_cast<std::size_t>(index)];
  }
}

// --fp8-param-gather: Transformer Engine's modules have no weight but the one in 8 bits; the distributed optimizer writes it
// from its fp32 shard, and gathers it.
void choose_eight_bit_parameters(Draft& draft) {
  Job& job = draft.job();
  const bool eight_bits =
      job.engine == Engine::kMegatron && multiplies_in_8_bits(job.training.precision);
  job.training.transposed_weights = draft.truth_or(KeyId::kTransposedWeights, true);
  if (!job.training.transposed_weights && !eight_bits)
    draft.refuse(KeyId::kTransposedWeights, "E213", "transposed_weights without 8-bit weights",
                 "they are Transformer Engine's", "precision = \"fp8-tensorwise\" has them");
  const auto type = draft.settings().name(KeyId::kTypeParameters);
  if (!type) return;
  constexpr int kEightBits = 3;  // of the key's names
  if (*type == kEightBits && eight_bits && job.parallel.zero_stage == 1 && !job.adapter) {
    job.training.eight_bit_parameters = true;
    return;
  }
  draft.refuse(KeyId::kTypeParameters, "E320",
               fmt::format("not weighed yet: types.parameters = {} here",
                           key_of(KeyId::kTypeParameters).names[static_cast<std::size_t>(*type)]),
               "known for megatron with zero_stage 1 and 8-bit products: fp8",
               "leave it out: the precision says it");
}

// What Megatron's code can be told beside the precision; other engines know one way.
void choose_megatron_types(Draft& draft) {
  Job& job = draft.job();
  const bool megatron = job.engine == Engine::kMegatron;
  const bool scaling = job.implementation == Implementation::kScaling;
  job.training.loss_parallel = draft.truth_or(KeyId::kLossParallel, !scaling);
  if (scaling && job.training.loss_parallel)
    draft.refuse(KeyId::kLossParallel, "E213", "scaling gathers the logits of the tensor ranks",
                 "its head's output is never divided", "loss_parallel = false");
  if (!job.training.loss_parallel && !scaling && job.implementation != Implementation::kMegatron)
    draft.refuse(KeyId::kLossParallel, "E320", "not weighed yet: training.loss_parallel = false",
                 "known for megatron's model code", "leave it out: true with tensor is weighed");
  choose_precision_aware(draft);
  choose_eight_bit_parameters(draft);
  const Setting* gradients = draft.settings().find(KeyId::kTypeGradients);
  if (gradients == nullptr) return;
  constexpr std::array kTypes = {ElementType::kFloat32, ElementType::kBFloat16,
                                 ElementType::kFloat16};
  const int index = draft.settings().name(KeyId::kTypeGradients).value_or(0);
  if (!megatron || index >= static_cast<int>(kTypes.size())) {
    draft.refuse(KeyId::kTypeGradients, "E320",
                 fmt::format("not weighed yet: types.gradients with {}", name_of(job.engine)),
                 "known for megatron: fp32, bf16, fp16", "leave it out: the precision says it");
    return;
  }
  job.training.gradients = kTypes[static_cast<std::size_t>(index)];
}

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
    refuse("E213", "optimizer_in_backward with gradient_accumulation",
           "a gradient that is applied at once is not added to", "gradient_accumulation = 1");
  if (training.gradient_clip)
    refuse("E213", "optimizer_in_backward with gradient_clip",
           "the norm of all gradients is known when the last one is there",
           "gradient_clip = false");
  if (training.precision.master && training.optimizer.keeps_master)
    refuse("E213", "optimizer_in_backward with master weights",
           "hooks step the parameters themselves", "precision = \"bf16-pure\"");
}

// megatron-core's transformer_impl = local: DotProductAttention is written out.
void check_local_layers(Draft& draft) {
  const Job& job = draft.job();
  if (job.implementation != Implementation::kMegatron)
    draft.refuse(KeyId::kKernels, "E213",
                 fmt::format("Megatron's local layers, and this is {}'s model code",
                             name_of(job.implementation)),
                 "kernels = \"own\" here", "implementation = \"megatron\" takes them");
  else if (job.training.attention != AttentionKernel::kEager)
    draft.refuse(KeyId::kKernels, "E213", "Megatron's local layers write attention out",
                 "no kernel computes it in one", "attention = \"eager\"");
  else if (job.parallel.context > 1 || multiplies_in_8_bits(job.training.precision))
    draft.refuse(KeyId::kKernels, "E213",
                 "Megatron's local layers know neither context parallelism nor 8 bits",
                 "Transformer Engine brings both", "kernels = \"own\"");
}

// Each library stands in for the kernels of one model code.
void check_kernels(Draft& draft) {
  const Job& job = draft.job();
  if (job.training.kernels == KernelLibrary::kOwn) return;
  if (job.training.kernels == KernelLibrary::kLocal) return check_local_layers(draft);
  const Implementation taker = job.training.kernels == KernelLibrary::kLiger
                                   ? Implementation::kTransformers
                                   : Implementation::kScaling;
  if (job.implementation != taker)
    draft.refuse(
        KeyId::kKernels, "E213",
        fmt::format("{}'s kernels stand in for those of {}, this is {}'s model code",
                    name_of(job.training.kernels), name_of(taker), name_of(job.implementation)),
        "kernels = \"own\" here",
        fmt::format("implementation = \"{}\" takes them", name_of(taker)));
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
  Job& job = draft.job();
  choose_implementation(draft);
  choose_precision(draft);
  choose_optimizer(draft);
  choose_attention(draft);
  job.training.loss =
      draft.name_or(KeyId::kLoss, LossKernel::kPlain, "what the engine computes by itself");
  job.training.loss_chunks = draft.count_or(KeyId::kLossChunks, job.training.loss_chunks);
  if (draft.has(KeyId::kLossChunks) && job.training.loss != LossKernel::kChunked &&
      job.training.loss_chunks > 1)
    draft.refuse(KeyId::kLossChunks, "E213",
                 fmt::format("loss_chunks with loss = \"{}\"", name_of(job.training.loss)),
                 "a number of pieces for the chunked loss", "loss = \"chunked\"");
  job.training.kernels = static_cast<KernelLibrary>(
      draft.settings().name(KeyId::kKernels).value_or(static_cast<int>(KernelLibrary::kOwn)));
  check_kernels(draft);
  choose_megatron_types(draft);
  if (job.training.loss == LossKernel::kFused && (job.implementation == Implementation::kMegatron ||
                                                  job.implementation == Implementation::kNanotron ||
                                                  job.implementation == Implementation::kLitgpt ||
                                                  job.implementation == Implementation::kTorchtune))
    draft.refuse(KeyId::kLoss, "E213",
                 fmt::format("{} brings its own cross entropy", name_of(job.implementation)),
                 "loss = \"plain\" is that one", "");
  job.training.compile = draft.truth_or(KeyId::kCompile, false);
  if (job.training.compile && job.implementation != Implementation::kTransformers &&
      job.implementation != Implementation::kTorchtitan &&
      job.implementation != Implementation::kTorchtune)
    draft.refuse(KeyId::kCompile, "E320",
                 fmt::format("not weighed yet: training.compile with {}'s code",
                             name_of(job.implementation)),
                 "known for transformers, torchtitan and torchtune", "compile = false is weighed");
  if (job.training.compile && job.training.precision.autocast)
    draft.refuse(KeyId::kCompile, "E320", "not weighed yet: training.compile under autocast",
                 "casts become part of the fused kernels", "compile = false is weighed");
  if (job.training.compile)
    draft.assume(
        KeyId::kCompile, "true",
        "what pointwise kernels made is computed again; a graph's own choice may keep more");
  const std::string_view clips = rules_of(job.engine).clip_reason;
  job.training.gradient_clip =
      draft.truth_or(KeyId::kGradientClip, !clips.empty(), clips.empty() ? "not given" : clips);
  choose_step_in_backward(draft);
  choose_dropout(draft, config_states_dropout);
  choose_vocabulary_multiple(draft);
}

void choose_sequence(Draft& draft) {
  Job& job = draft.job();
  constexpr std::int64_t kUsual = 2048;
  const std::int64_t positions = job.model == nullptr ? 0 : job.model->maximum_positions;
  const bool sees = job.model != nullptr && job.model->image.has_value();
  const std::int64_t fallback = sees            ? positions
                                : positions > 0 ? std::min(positions, kUsual)
                                                : kUsual;
  job.training.sequence_length =
      Tokens(draft.count_or(KeyId::kSequenceLength, fallback,
                            sees                 ? "the patches of one image, and the class token"
                            : fallback == kUsual ? "a usual length; activations grow with it"
                                                 : "the model's positions"));
  if (job.model != nullptr && reads_patches(*job.model))
    job.training.images_per_sequence =
        draft.count_or(KeyId::kImages, 1, "each sequence shows one image");
  else if (draft.settings().find(KeyId::kImages) != nullptr)
    draft.refuse(KeyId::kImages, "E213", "this model sees no image beside its text",
                 "a tower of vision and a decoder do", "micro_batch counts the images of a tower");
  if (job.model != nullptr && follows_encoder(*job.model))
    job.training.target_sequence_length =
        Tokens(draft.count_or(KeyId::kTargetLength, job.training.sequence_length.value(),
                              "the decoder's sequences are as long as the encoder's"));
  else if (draft.settings().find(KeyId::kTargetLength) != nullptr)
    draft.refuse(KeyId::kTargetLength, "E213", "this model has one length",
                 "an encoder and a decoder have two", "sequence_length is its length");
  choose_sample_lengths(draft);
}

}  // namespace steelyard
