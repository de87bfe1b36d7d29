// In which types the run computes and keeps: the precision, and what Megatron can be told beside it.
#include <fmt/format.h>

#include <array>
#include <string>

#include "job/recipe_choice.h"
#include "job/stack.h"

namespace steelyard {
namespace {

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

// Without accumulation in fp32 nanotron keeps no fp32 weights: it steps the 16-bit ones.
void warn_of_missing_master(Draft& draft) {
  const Precision& precision = draft.job().training.precision;
  if (!precision.master || precision.accumulated_gradients) return;
  draft.warn(
      KeyId::kPrecision, "E246",
      fmt::format("nanotron keeps no fp32 weights with {}", precision.name),
      "weighed without them, and with fp32 moments",
      "its shipped configurations are \"bf16-mixed-fp32-gradients\"; \"bf16-pure\" is what it "
      "does without accumulate_grad_in_fp32");
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

// What TransformerEngine and torchao ask before the first product.
void check_device_of_precision(Draft& draft) {
  const Job& job = draft.job();
  const Precision& precision = job.training.precision;
  const Device* device = job.cluster.device.get();
  if (device == nullptr || has_products_of(*device, precision)) return;
  const Precision::RunsFrom& from = precision.runs_from;
  draft.warn_of_death(
      KeyId::kPrecision, "E260",
      fmt::format("{} has no products of {}", device->name, precision.name),
      fmt::format("dies at start: {}, this is {}", from.reason, device->architecture),
      fmt::format("precision = \"{}\" runs there; source: {}",
                  is_before_ampere(job) ? "fp16-mixed" : "bf16-mixed",
                  from.source.substr(0, from.source.find(';'))));
}

// What runs of a model with adapters and all of it on one device: Trainer, whose forward is under autocast. A bare loop in the
// types of the parameters has fp32 activations behind each fp32 norm.
bool trains_adapters_as_trainer(const Draft& draft) {
  const Job& job = draft.job();
  return draft.settings().has_section("adapter") && job.engine == Engine::kDdp &&
         job.implementation == Implementation::kTransformers &&
         !draft.truth_or(KeyId::kCompile, false);
}

}  // namespace

bool has_products_of(const Device& device, const Precision& precision) {
  const Precision::RunsFrom& from = precision.runs_from;
  if (from.sm == 0 || device.is_a_size()) return true;
  const int generation = device.generation();
  if (device.is_amd()) return from.gfx > 0 && generation >= from.gfx;
  return generation >= from.sm && (from.sm_below == 0 || generation < from.sm_below);
}

void choose_precision(Draft& draft) {
  Job& job = draft.job();
  const bool old = is_before_ampere(job);
  std::string name;
  if (const std::string* given = draft.settings().text(KeyId::kPrecision)) {
    name = *given;
    if (old && name.starts_with("bf16"))
      draft.warn(KeyId::kPrecision, "E220",
                 fmt::format("{} has no bf16 units", job.cluster.device->name),
                 "runs, many times slower",
                 fmt::format("precision = \"fp16-{}\" is what this device is used with",
                             name == "bf16-autocast" ? "autocast" : "mixed"));
  } else if (trains_adapters_as_trainer(draft)) {
    name = old ? "fp16-autocast" : "bf16-autocast";
    draft.assume(KeyId::kPrecision, name, "Trainer computes adapters under autocast");
  } else {
    const Stack* stack = stack_of(job.engine, job.implementation,
                                  static_cast<std::int64_t>(job.parallel.zero_stage));
    const bool settled = !old && stack != nullptr && stack->settles_precision;
    name = settled ? stack->bf16 : old ? "fp16-mixed" : "bf16-mixed";
    draft.assume(KeyId::kPrecision, name,
                 old       ? "the device has no bf16 units"
                 : settled ? "what its shipped configurations use"
                           : "what most training runs use");
  }
  if (const Precision* known = find_precision(name)) job.training.precision = *known;
  check_device_of_precision(draft);
  // Transformer Engine's recipes: what goes into a product has 8 bits, what comes out of it those of the parameters.
  if (multiplies_in_8_bits(job.training.precision))
    job.training.precision.compute = job.training.precision.parameters;
  leave_out_mixed_precision(draft);
  if (job.engine == Engine::kScaling) check_precision_of_scaling(draft);
  if (job.engine == Engine::kNanotron) warn_of_missing_master(draft);
}

void choose_types(Draft& draft) {
  Job& job = draft.job();
  const bool megatron = job.engine == Engine::kMegatron;
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

}  // namespace steelyard
