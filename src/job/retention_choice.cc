#include "job/retention_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <variant>

#include "job/engine_rules.h"
#include "model/architecture.h"

namespace steelyard {
namespace {

RecomputeMode recompute_mode(Draft& draft) {
  constexpr int kKnown = static_cast<int>(RecomputeMode::kOperators);
  if (const auto given = draft.settings().name(KeyId::kRecomputeMode))
    return *given <= kKnown ? static_cast<RecomputeMode>(*given) : RecomputeMode::kNone;
  auto mode = RecomputeMode::kNone;
  std::string_view reason = "every activation is kept unless asked otherwise";
  if (draft.has(KeyId::kRecomputeEvery)) {
    mode = RecomputeMode::kEvery;
    reason = "recompute.every is given";
  } else if (draft.has(KeyId::kRecomputeLayers)) {
    mode = RecomputeMode::kBlock;
    reason = "recompute.layers is given";
  } else if (draft.has(KeyId::kRecomputeModules)) {
    mode = RecomputeMode::kModules;
    reason = "recompute.modules is given";
  }
  draft.assume(KeyId::kRecomputeMode,
               std::string(key_of(KeyId::kRecomputeMode).names[static_cast<std::size_t>(mode)]),
               reason);
  return mode;
}

// Why the model has no such module; empty when it has.
std::string_view missing(RecomputeModule module, const Architecture& model) {
  const auto any = [&](auto has) {
    return std::any_of(model.kinds.begin(), model.kinds.end(), has);
  };
  const bool experts = some_layer_has<ExpertMlp>(model);
  const bool dense = some_layer_has<DenseMlp>(model);
  const bool latent = any(
      [](const Layer& layer) { return std::holds_alternative<LatentAttention>(layer.attention); });
  const bool shared = any([](const Layer& layer) {
    const auto* mlp = std::get_if<ExpertMlp>(&layer.mlp);
    return mlp != nullptr && mlp->shared.has_value();
  });
  switch (module) {
    case RecomputeModule::kMlp:
      return dense ? "" : "every layer of the model has experts";
    case RecomputeModule::kExperts:
    case RecomputeModule::kExpertActivation:
      return experts ? "" : "the model has no experts";
    case RecomputeModule::kSharedExperts:
      return shared ? "" : "the model has no shared experts";
    case RecomputeModule::kLatentUpProjection:
      return latent ? "" : "the model has no latent attention";
    default:
      return "";
  }
}

void choose_modules(Draft& draft) {
  Recompute& recompute = draft.job().recompute;
  const Setting* given = draft.settings().find(KeyId::kRecomputeModules);
  if (given == nullptr || given->several.empty()) {
    recompute.modules = {RecomputeModule::kCoreAttention};
    draft.assume(KeyId::kRecomputeModules, "core_attention", "what selective recomputation means");
    return;
  }
  for (const int index : given->several) {
    const auto module = static_cast<RecomputeModule>(index);
    if (std::find(recompute.modules.begin(), recompute.modules.end(), module) ==
        recompute.modules.end())
      recompute.modules.push_back(module);
    const std::string_view reason =
        draft.job().model == nullptr ? "" : missing(module, *draft.job().model);
    if (!reason.empty())
      draft.refuse(KeyId::kRecomputeModules, "E219",
                   fmt::format("recompute of {}: there is none", name_of(module)),
                   std::string(reason));
  }
}

// A key of another mode changes nothing; whoever wrote it thinks that it does.
void warn_of_unused(Draft& draft, KeyId id, bool used) {
  if (used || !draft.has(id)) return;
  draft.warn(id, "E219",
             fmt::format("recompute.{} is not used by mode {}", key_of(id).name,
                         name_of(draft.job().recompute.mode)),
             "changes nothing");
}

// Megatron's words for full recomputation: uniform with one layer in a unit is all of them, block the first ones of a
// stage.
void choose_method(Draft& draft) {
  Recompute& recompute = draft.job().recompute;
  const auto method = draft.settings().name(KeyId::kRecomputeMethod);
  if (!method) return;
  if (recompute.mode != RecomputeMode::kFull && recompute.mode != RecomputeMode::kBlock) {
    draft.refuse(KeyId::kRecomputeMethod, "E219",
                 fmt::format("recompute.method with mode {}", name_of(recompute.mode)),
                 "a way of full recomputation", "mode = \"full\"");
  } else if (*method == 1) {
    recompute.mode = RecomputeMode::kBlock;
  } else if (draft.count_or(KeyId::kRecomputeLayers, 1) > 1) {
    draft.refuse(KeyId::kRecomputeMethod, "E320",
                 "not weighed yet: units of several layers that are computed again together",
                 "known with one layer in a unit", "recompute.layers = 1, or method = \"block\"");
  }
}

}  // namespace

void choose_recompute(Draft& draft) {
  Job& job = draft.job();
  Recompute& recompute = job.recompute;
  recompute.mode = recompute_mode(draft);
  recompute.reentrant = draft.truth_or(KeyId::kReentrant, false);
  const std::int64_t layers = job.model == nullptr ? 0 : job.model->layers;

  choose_method(draft);
  if (recompute.mode == RecomputeMode::kEvery) {
    if (!draft.has(KeyId::kRecomputeEvery))
      draft.refuse(KeyId::kRecomputeMode, "E108", "mode every without recompute.every",
                   "needs a number of layers", "every = 4 keeps the input of each fourth layer");
    recompute.every = Layers(draft.count_or(KeyId::kRecomputeEvery, 1));
    if (layers > 0 && recompute.every > layers)
      draft.refuse(KeyId::kRecomputeEvery, "E219",
                   fmt::format("every {} of {} layers", recompute.every, layers),
                   fmt::format("needs 1 to {}", layers));
  }
  if (recompute.mode == RecomputeMode::kBlock) {
    if (!draft.has(KeyId::kRecomputeLayers))
      draft.refuse(KeyId::kRecomputeMode, "E108", "mode block without recompute.layers",
                   "needs a number of layers",
                   "layers = 4 computes the first 4 layers of each stage again");
    recompute.layers = Layers(draft.count_or(KeyId::kRecomputeLayers, 1));
    const auto& stages = job.parallel.stage_layers;
    const std::int64_t most =
        stages.empty() ? 0 : std::max_element(stages.begin(), stages.end())->value();
    if (most > 0 && recompute.layers > most)
      draft.refuse(KeyId::kRecomputeLayers, "E219",
                   fmt::format("{} layers of a stage of {}", recompute.layers, most),
                   fmt::format("needs 1 to {}", most),
                   fmt::format("mode = \"full\" computes all {} again", most));
  }
  const bool by_module =
      recompute.mode == RecomputeMode::kSelective || recompute.mode == RecomputeMode::kModules;
  if (by_module) choose_modules(draft);
  warn_of_unused(draft, KeyId::kRecomputeEvery, recompute.mode == RecomputeMode::kEvery);
  warn_of_unused(draft, KeyId::kRecomputeLayers,
                 recompute.mode == RecomputeMode::kBlock || draft.has(KeyId::kRecomputeMethod));
  warn_of_unused(draft, KeyId::kRecomputeModules, by_module);
}

namespace {

// What runs beside computing, where a run can choose.
void choose_overlap(Draft& draft) {
  Job& job = draft.job();
  const bool megatron = job.engine == Engine::kMegatron;
  job.overlap_reduce = draft.settings().truth(KeyId::kOverlapReduce);
  job.overlap_gather = draft.settings().truth(KeyId::kOverlapGather).value_or(false);
  // Megatron-FSDP gathers what it divides beside computing, asked or not.
  const bool gathers = job.parallel.megatron_fsdp && job.parallel.zero_stage >= 1;
  if (job.overlap_gather && !gathers && (!megatron || job.parallel.zero_stage != 1))
    draft.refuse(KeyId::kOverlapGather, "E213",
                 fmt::format("overlap.gather of {} with zero_stage {}", name_of(job.engine),
                             job.parallel.zero_stage),
                 "a choice of megatron's distributed optimizer; others gather as they do",
                 "engine = \"megatron\" with zero_stage = 1 has it");
  job.overlap_tensor = draft.settings().truth(KeyId::kOverlapTensor).value_or(false);
  if (job.overlap_tensor &&
      (!megatron || job.parallel.tensor == 1 || !job.parallel.sequence_parallel))
    draft.refuse(KeyId::kOverlapTensor, "E213",
                 "overlap.tensor divides the gathers and scatters of sequence parallelism",
                 "of Transformer Engine alone: engine = \"megatron\", tensor above 1",
                 "sequence_parallel = true with it");
  // transformer_config.py: what --overlap-moe-expert-parallel-comm asserts.
  job.overlap_expert = draft.settings().truth(KeyId::kOverlapExpert).value_or(false);
  const bool whole = job.parallel.pipeline > 1 && job.parallel.virtual_pipeline == 1;
  const bool again = recomputes_layers(job.recompute);
  if (job.overlap_expert && (!megatron || job.parallel.expert == 1 || whole || again ||
                             job.experts.dispatcher != ExpertDispatcher::kAllToAll))
    draft.refuse(KeyId::kOverlapExpert, "E213",
                 "overlap.expert pairs the forward of a micro-batch with the backward of another",
                 "of megatron alone: experts on several ranks by all-to-all, stages of several "
                 "chunks, no layer computed again",
                 "leave it out: the exchanges are waited for");
}

}  // namespace

void choose_buffers(Draft& draft) {
  Job& job = draft.job();
  Buckets& buckets = job.buckets;
  const bool sizes_matter = job.engine == Engine::kDeepSpeed;
  const auto take = [&](KeyId id, std::int64_t& size, bool matters) {
    size =
        matters ? draft.count_or(id, size, "the engine's own default") : draft.count_or(id, size);
    if (!matters && draft.has(id))
      draft.warn(id, "E216",
                 fmt::format("buckets.{} is not used by {} with zero_stage {}", key_of(id).name,
                             name_of(job.engine), job.parallel.zero_stage),
                 "changes nothing");
  };
  const bool third = sizes_matter && job.parallel.zero_stage == 3;
  take(KeyId::kReduceBucket, buckets.reduce, sizes_matter && job.parallel.zero_stage > 0);
  take(KeyId::kGatherBucket, buckets.gather, sizes_matter && job.parallel.zero_stage > 0);
  take(KeyId::kPrefetchBucket, buckets.prefetch, third);
  take(KeyId::kPersistence, buckets.persistence, third);
  take(KeyId::kLiveParameters, buckets.live, third);
  take(KeyId::kReuseDistance, buckets.reuse, third);
  take(KeyId::kSubGroup, buckets.sub_group, third);
  take(KeyId::kDdpBucket, buckets.ddp_bytes, job.engine == Engine::kDdp && job.parallel.data > 1);
  buckets.contiguous_gradients = draft.truth_or(KeyId::kContiguousGradients, true);
  if (!buckets.contiguous_gradients &&
      (job.engine != Engine::kMegatron || job.parallel.zero_stage > 0))
    draft.refuse(KeyId::kContiguousGradients, "E213",
                 "gradients without a buffer are megatron's of 2021, without ZeRO",
                 "not a way of this engine", "contiguous_gradients = true");
  if (!buckets.contiguous_gradients && job.model != nullptr && !job.model->predictions.empty())
    draft.refuse(KeyId::kContiguousGradients, "E216",
                 "gradients without a buffer, and modules that predict further tokens",
                 "Megatron-LM had left the one years before it had the other",
                 "contiguous_gradients = true");
  buckets.double_buffer = draft.truth_or(KeyId::kDoubleBuffer, false);
  if (buckets.double_buffer && !(job.parallel.megatron_fsdp && job.parallel.zero_stage == 3))
    draft.refuse(KeyId::kDoubleBuffer, "E213", "double_buffer is of Megatron-FSDP",
                 "it gathers layers with zero_stage 3", "leave it out");
  choose_overlap(draft);
  job.checkpoint =
      draft.name_or(KeyId::kCheckpointSave, rules_of(job.engine).save, "the engine's usual form");
}

}  // namespace steelyard
