#include "job/adapter_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "document/edit_distance.h"
#include "model/adapt.h"
#include "model/expert_targets.h"
#include "model/sequence.h"

namespace steelyard {
namespace {

bool is_sharded_by_fsdp(const Job& job) {
  return job.engine == Engine::kFsdp1 || (job.engine == Engine::kFsdp2 && !is_unsharded_fsdp2(job));
}

// The adapter's own type where nobody says, and why.
ElementType usual_type(const Job& job, std::string_view& reason) {
  const Precision& precision = job.training.precision;
  if (job.engine == Engine::kDeepSpeed) {
    reason = "deepspeed casts what is trained, and steps on fp32 copies";
    return precision.parameters;
  }
  if (is_sharded_by_fsdp(job)) {
    reason = "as fsdp keeps what is trained";
    return precision.master.value_or(precision.parameters);
  }
  if (!job.adapter->by_peft) {
    reason = "as the model: the framework's own adapters are not widened";
    return precision.parameters;
  }
  reason = "PEFT's default, autocast_adapter_dtype";
  return ElementType::kFloat32;
}

void choose_type(Draft& draft) {
  Job& job = draft.job();
  Adapter& adapter = *job.adapter;
  std::string_view reason;
  const ElementType usual = usual_type(job, reason);
  const auto given = draft.settings().name(KeyId::kAdapterType);
  if (!given) {
    adapter.type = usual;
    draft.assume(KeyId::kAdapterType, std::string(name_of(usual)), reason);
    return;
  }
  const std::string_view name = key_of(KeyId::kAdapterType).names[static_cast<std::size_t>(*given)];
  adapter.type = *element_type_named(name);
  const bool fixed = job.engine == Engine::kDeepSpeed || is_sharded_by_fsdp(job);
  if (fixed && adapter.type != usual)
    draft.refuse(KeyId::kAdapterType, "E225",
                 fmt::format("adapters in {} with {} and {}", name, name_of(job.engine),
                             job.training.precision.name),
                 std::string(reason), fmt::format("type = \"{}\"", name_of(usual)));
}

// prepare_model_for_kbit_training leaves norms, embedding and head in fp32. `one_type`: the engine gives what is frozen
// a type of its own choice, as FSDP must and DeepSpeed does.
void choose_upcast(Draft& draft, bool quantised, bool one_type) {
  Job& job = draft.job();
  Adapter& adapter = *job.adapter;
  const bool asked = draft.settings().truth(KeyId::kAdapterUpcast).value_or(false);
  if (asked && (!quantised || one_type)) {
    draft.refuse(KeyId::kAdapterUpcast, "E225",
                 quantised ? fmt::format("upcast with {}", name_of(job.engine))
                           : "upcast without a quantised base",
                 quantised ? "the engine gives what is frozen one type"
                           : "prepare_model_for_kbit_training is for bases of 4 and 8 bits",
                 quantised ? "upcast = false" : "base = \"nf4\"");
    return;
  }
  adapter.rest = quantised ? job.training.precision.compute : adapter.linear;
  if (!quantised) return;
  const std::string_view reason = one_type ? "the engine gives what is frozen one type"
                                  : adapter.by_peft
                                      ? "prepare_model_for_kbit_training, PEFT's recipe"
                                      : "the framework has no such step";
  if (draft.truth_or(KeyId::kAdapterUpcast, adapter.by_peft && !one_type, reason))
    adapter.rest = ElementType::kFloat32;
}

// A checkpoint of few bits is loaded as it is: an adapter trains beside it, and nothing trains it.
void choose_stored_base(Draft& draft, const StoredQuantisation& stored) {
  Job& job = draft.job();
  if (job.implementation != Implementation::kTransformers) return;  // they load 16 bits of it
  if (stored.comes_back) {
    draft.assume(KeyId::kModel, stored.method,
                 "its weights come back to 16 bits before they train");
    return;
  }
  // All of it is trained from 16 bits that somebody makes of it, as of DeepSeek-V3's fp8.
  if (!stored.type && !job.adapter) {
    draft.warn(KeyId::kModel, "E265",
               fmt::format("the checkpoint's weights are stored in {}", stored.method),
               "weighed in 16 bits: transformers trains none of these as they are stored");
    return;
  }
  if (!stored.type) {
    draft.refuse(KeyId::kModel, "E265",
                 fmt::format("a checkpoint whose weights are stored in {}", stored.method),
                 "transformers loads them as they are, and their bytes are not weighed",
                 "a checkpoint of 16 bits is weighed, and bitsandbytes' of 4 and 8 bits");
    return;
  }
  if (!job.adapter) {
    draft.refuse(KeyId::kModel, "E265",
                 fmt::format("a checkpoint in {}, and all of it is trained", name_of(*stored.type)),
                 "transformers' Trainer refuses purely quantised models",
                 "an adapter trains beside it: [adapter] rank = 16; or the checkpoint of 16 bits");
    return;
  }
  const bool said = draft.has(KeyId::kAdapterBase);
  if (said && *element_type_named(job.adapter->base) != *stored.type) {
    draft.refuse(
        KeyId::kAdapterBase, "E265",
        fmt::format("a base in {} of a checkpoint in {}", job.adapter->base, name_of(*stored.type)),
        "transformers loads the checkpoint as it is stored",
        fmt::format("base = \"{}\"", name_of(*stored.type)));
    return;
  }
  if (said) return;
  job.adapter->linear = *stored.type;
  job.adapter->base = name_of(*stored.type);
  job.adapter->double_quantization = stored.twice;
  draft.assume(KeyId::kAdapterBase, job.adapter->base, "as the checkpoint is stored");
}

// How the frozen part is kept.
void choose_base(Draft& draft, const std::optional<StoredQuantisation>& stored) {
  Job& job = draft.job();
  Adapter& adapter = *job.adapter;
  const Precision& precision = job.training.precision;
  const bool sharded = is_sharded_by_fsdp(job), deepspeed = job.engine == Engine::kDeepSpeed;
  const bool casts = precision.autocast && !sharded && !deepspeed;
  const ElementType as_it_is = casts || sharded ? precision.compute : precision.parameters;
  const bool of_checkpoint =
      stored && stored->type && job.implementation == Implementation::kTransformers;
  if (const auto given = draft.settings().name(KeyId::kAdapterBase)) {
    adapter.base = key_of(KeyId::kAdapterBase).names[static_cast<std::size_t>(*given)];
    adapter.linear = *element_type_named(adapter.base);
  } else if (!of_checkpoint) {
    adapter.base = name_of(as_it_is);
    adapter.linear = as_it_is;
    draft.assume(KeyId::kAdapterBase, adapter.base,
                 casts ? "the checkpoint's own type, as transformers loads it" : "not quantised");
  }
  if (stored) choose_stored_base(draft, *stored);
  const bool quantised = is_quantised(adapter.linear);
  // Without autocast everything computes in the type it has; what is divided together has one.
  if (!quantised && !casts && adapter.linear != as_it_is)
    draft.refuse(KeyId::kAdapterBase, "E225",
                 fmt::format("a base in {} and a run of {}", adapter.base, precision.name),
                 fmt::format("here the frozen part is kept in {}", name_of(as_it_is)),
                 fmt::format("base = \"{}\"", name_of(as_it_is)));
  if (sharded && precision.autocast)
    draft.refuse(KeyId::kPrecision, "E320", "not weighed yet: adapters under autocast with fsdp",
                 "known, not in this version",
                 "precision = \"bf16-mixed\" is fsdp's own mixed precision");
  if (adapter.linear == ElementType::kInt8 &&
      (sharded || (deepspeed && job.parallel.zero_stage == 3)))
    draft.refuse(KeyId::kAdapterBase, "E225", "a base in int8 that is divided over ranks",
                 "the scales of 8-bit weights do not travel with them",
                 "base = \"nf4\" can be divided");
  if (quantised && bits_of(precision.compute) != 16)
    draft.refuse(KeyId::kAdapterBase, "E225",
                 fmt::format("a base in {} and a run of {}", adapter.base, precision.name),
                 "bitsandbytes is weighed with products in 16 bits",
                 "precision = \"bf16-mixed\", \"bf16-autocast\" or \"fp16-autocast\"");
  const bool torchtune = job.implementation == Implementation::kTorchtune;
  adapter.double_quantization =
      torchtune && adapter.linear == ElementType::kNormalFloat4
          ? draft.truth_or(KeyId::kDoubleQuantization, true, "torchao's NF4Tensor")
          : draft.truth_or(KeyId::kDoubleQuantization, of_checkpoint && stored->twice);
  if (torchtune && quantised &&
      (!adapter.double_quantization || adapter.linear != ElementType::kNormalFloat4))
    draft.refuse(KeyId::kAdapterBase, "E225",
                 fmt::format("a base in {}{}", adapter.base,
                             adapter.double_quantization ? "" : " without double quantisation"),
                 "torchtune's base is torchao's NF4Tensor, whose scales are quantised",
                 "base = \"nf4\"");
  if (adapter.double_quantization && adapter.linear != ElementType::kNormalFloat4)
    draft.refuse(KeyId::kDoubleQuantization, "E225",
                 fmt::format("double quantisation of a base in {}", adapter.base),
                 "only nf4 has constants that are quantised", "base = \"nf4\"");
  choose_upcast(draft, quantised, sharded || deepspeed);
}

std::string in_billions(std::int64_t parameters) {
  return fmt::format("{:.1f} B", static_cast<double>(parameters) * 1e-9);
}

// Elements of tensors that are kept as `type`, and of all that are frozen.
struct Reach {
  std::int64_t quantised = 0, all = 0, experts = 0;
};
Reach reach_of(const Architecture& model, ElementType type) {
  Reach reach;
  const auto count = [&](const std::vector<ParameterTensor>& tensors, std::int64_t times) {
    for (const ParameterTensor& tensor : tensors) {
      if (tensor.buffer || !tensor.frozen) continue;
      std::int64_t elements = tensor.copies * times;
      for (const std::int64_t extent : tensor.shape) elements *= extent;
      reach.all += elements;
      if (tensor.stored == type)
        reach.quantised += elements;
      else if (tensor.routed_expert)
        reach.experts += elements;
    }
  };
  count(model.embedding_parameters, 1);
  count(model.head_parameters, 1);
  for (const int kind : kind_of_each_layer(model))
    count(model.kinds[static_cast<std::size_t>(kind)].parameters, 1);
  return reach;
}

// bitsandbytes quantises torch.nn.Linear alone (transformers integrations/bitsandbytes.py, replace_with_bnb_linear).
void warn_of_experts_beside(Draft& draft) {
  const Job& job = draft.job();
  const Adapter& adapter = *job.adapter;
  if (!adapter.by_peft || !is_quantised(adapter.linear)) return;
  const Reach reach = reach_of(*job.model, adapter.linear);
  if (reach.experts == 0) return;
  const double share =
      100.0 * static_cast<double>(reach.quantised) / static_cast<double>(reach.all);
  draft.warn(
      KeyId::kAdapterBase, "E264",
      fmt::format("{} reaches {:.0f} % of the weights, {} of {}", adapter.base, share,
                  in_billions(reach.quantised), in_billions(reach.all)),
      fmt::format("the experts, {}, stay in {}: since transformers 5 they are one tensor, which "
                  "bitsandbytes leaves as it is",
                  in_billions(reach.experts), name_of(adapter.rest)),
      "quantize_experts = true is Axolotl's quantize_moe_experts; environment.transformers = "
      "\"4.57\" has experts that are quantised; upcast = false leaves them in 16 bits");
}

// What PEFT refuses, of adapters beside stacked experts (tuners/lora/layer.py, ParamWrapper), and what is not weighed of them.
void check_adapters_of_experts(Draft& draft, const Adapted& adapted) {
  const Job& job = draft.job();
  const Adapter& adapter = *job.adapter;
  const std::string without =
      "target_modules = [\"q_proj\", \"k_proj\", \"v_proj\", \"o_proj\"] leaves the experts out";
  const auto refuse = [&](KeyId key, std::string what, std::string why) {
    draft.refuse(key, "E266", std::move(what), std::move(why), without);
  };
  if (!adapted.half_of_experts.empty())
    refuse(KeyId::kAdapterTargets,
           fmt::format("\"{}\" alone, of the experts' gate and up", adapted.half_of_experts),
           "PEFT stops: since transformers 5 both are one tensor, and both need to be named");
  if (adapter.method == "dora")
    refuse(KeyId::kAdapterMethod, "dora beside experts",
           "PEFT stops: it has no DoRA of tensors that are no linear module");
  if (adapter.dropout > 0)
    refuse(KeyId::kAdapterDropout, fmt::format("dropout = {} beside experts", adapter.dropout),
           "PEFT stops: it has no dropout before tensors that are no linear module");
  if (adapter.stacked_experts)
    draft.refuse(KeyId::kQuantizeExperts, "E320",
                 "not weighed yet: adapters beside quantised experts", "known, not in this version",
                 without);
  if (job.expert_adapters == ExpertAdapters::kApart)
    draft.warn(KeyId::kAdapterTargets, "E641",
               "what PEFT before 0.21 adds to the experts' weights is not counted",
               "before its sum with the weights it is a tensor as large as they are, in fp32: more "
               "is needed than this says",
               "environment.peft = \"0.21\" adds both in one product, which is weighed");
}

void choose_expert_quantisation(Draft& draft) {
  Job& job = draft.job();
  Adapter& adapter = *job.adapter;
  if (!draft.settings().truth(KeyId::kQuantizeExperts).value_or(false)) return;
  adapter.stacked_experts = true;
  if (!is_quantised(adapter.linear) || !adapter.by_peft)
    draft.refuse(KeyId::kQuantizeExperts, "E225", "quantize_experts without a quantised base",
                 "experts are quantised as the linear modules are", "base = \"nf4\"");
  else if (job.model != nullptr && !some_layer_has<ExpertMlp>(*job.model))
    draft.refuse(KeyId::kQuantizeExperts, "E225",
                 fmt::format("quantize_experts, and {} has no experts", job.model->name),
                 "its matrices are quantised without it", "leave it out");
  else if (job.separate_experts)
    draft.refuse(KeyId::kQuantizeExperts, "E225", "quantize_experts before transformers 5",
                 "each expert is a linear module, and quantised without it",
                 "leave it out, or environment.transformers = \"5.0\"");
  else if (is_sharded_by_fsdp(job) || job.engine == Engine::kDeepSpeed)
    draft.refuse(KeyId::kQuantizeExperts, "E320",
                 fmt::format("not weighed yet: quantised experts with {}", name_of(job.engine)),
                 "known, not in this version", "engine = \"ddp\" is weighed");
}

void choose_targets(Draft& draft) {
  Adapter& adapter = *draft.job().adapter;
  if (const Setting* targets = draft.settings().find(KeyId::kAdapterTargets)) {
    adapter.target_modules = targets->texts;
  } else {
    adapter.target_modules = {"all-linear"};
    draft.assume(KeyId::kAdapterTargets, "all-linear", "every linear layer but the head");
  }
}

void refuse_unknown_target(Draft& draft, const Architecture& model, const std::string& target) {
  // Names as PEFT's users write them, without what stands before the last dot.
  std::vector<std::string> names;
  for (const std::string& name : adaptable_modules(model)) {
    const std::string last = name.substr(name.rfind('.') + 1);
    if (std::find(names.begin(), names.end(), last) == names.end()) names.push_back(last);
  }
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string meant = did_you_mean("target_modules", nearest_names(target, views));
  draft.refuse(KeyId::kAdapterTargets, "E226",
               fmt::format("no linear module of {} is called \"{}\"", model.name, target),
               "needs the ends of module names, patterns with `*`, or \"all-linear\"",
               fmt::format("{}{}the layers have {}", meant, meant.empty() ? "" : "; ", all));
}

// Queries, keys and values of fp32 norms are fp32: scaled_dot_product_attention then has no flash kernel.
void choose_attention_of_wide_norms(Draft& draft) {
  Job& job = draft.job();
  const bool wide = job.adapter->rest == ElementType::kFloat32 && !job.training.precision.autocast;
  if (!wide || !takes_16_bits_alone(job.training.attention)) return;
  if (draft.has(KeyId::kAttention)) {
    draft.refuse(
        KeyId::kAttention, "E220", "flash attention does not compute in fp32",
        "queries and keys are fp32 behind fp32 norms",
        "precision = \"bf16-autocast\" casts them; upcast = false leaves norms as they are");
    return;
  }
  job.training.attention = AttentionKernel::kEfficient;
  std::erase_if(job.assumptions, [](const Assumption& assumption) {
    return assumption.key == key_of(KeyId::kAttention).path;
  });
  draft.assume(KeyId::kAttention, "efficient", "queries and keys are fp32 behind fp32 norms");
}

// What is trained has one type; the recipe's masters and wide gradients are for models that train in 16 bits.
void make_recipe_of_the_adapter(Job& job) {
  if (job.engine == Engine::kDeepSpeed || is_sharded_by_fsdp(job)) return;
  Precision& precision = job.training.precision;
  const ElementType type = job.adapter->type;
  precision.parameters = precision.gradients = precision.reduction = type;
  precision.master.reset();
  precision.accumulated_gradients.reset();
  precision.moments.reset();
}

}  // namespace

void choose_adapter(Draft& draft, const std::optional<StoredQuantisation>& stored) {
  Job& job = draft.job();
  if (!draft.settings().has_section("adapter")) {
    if (stored) choose_stored_base(draft, *stored);
    return;
  }
  job.adapter.emplace();
  Adapter& adapter = *job.adapter;
  adapter.by_peft = job.implementation == Implementation::kTransformers;
  adapter.method = draft.settings().name(KeyId::kAdapterMethod).value_or(0) == 1 ? "dora" : "lora";
  if (!draft.has(KeyId::kAdapterMethod))
    draft.assume(KeyId::kAdapterMethod, adapter.method, "the plain form");
  adapter.rank = draft.count_or(KeyId::kAdapterRank, 8, "PEFT's default");
  adapter.dropout = draft.settings().number(KeyId::kAdapterDropout).value_or(0);
  choose_targets(draft);
  choose_base(draft, stored);
  choose_type(draft);
  choose_expert_quantisation(draft);
  if (job.model == nullptr) return;

  AdapterTerms terms;
  terms.rank = adapter.rank;
  terms.magnitude = adapter.method == "dora";
  terms.targets = adapter.target_modules;
  terms.linear = adapter.linear;
  terms.rest = adapter.rest;
  // transformers leaves the head out; Lightning Fabric puts its 4-bit class in every linear module's place.
  terms.separate_experts = job.separate_experts;
  if (adapter.by_peft && !job.separate_experts && job.expert_adapters != ExpertAdapters::kNone)
    terms.expert_targets = expert_targets_of(job.model->family);
  terms.stacked_experts = adapter.stacked_experts;
  terms.with_head = job.implementation == Implementation::kLitgpt;
  Adapted adapted = adapt(*job.model, terms);
  for (const std::string& target : adapted.unmatched)
    refuse_unknown_target(draft, *job.model, target);
  if (!adapted.unmatched.empty() || adapter.target_modules.empty()) return;
  if (!adapted.expert.empty()) {
    draft.refuse(KeyId::kAdapterTargets, "E266",
                 fmt::format("an adapter beside each expert's {}", adapted.expert),
                 "before transformers 5 experts are linear modules, and these are not weighed",
                 "target_modules = [\"q_proj\", \"k_proj\", \"v_proj\", \"o_proj\"] is weighed");
    return;
  }
  if (adapted.adapts_experts) check_adapters_of_experts(draft, adapted);
  job.model = std::move(adapted.architecture);
  warn_of_experts_beside(draft);
  make_recipe_of_the_adapter(job);
  choose_attention_of_wide_norms(draft);
}

}  // namespace steelyard
