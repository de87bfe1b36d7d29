// What the engine makes of a layout: its stage of ZeRO, its schedule, the forms of parallelism that it has.
#include <fmt/format.h>

#include <string>

#include "job/engine_rules.h"
#include "job/group_choice.h"
#include "job/layout_choice.h"
#include "job/pipeline_shape.h"
#include "schedule/orders.h"

namespace steelyard {
namespace {

// reshard_after_forward is how FSDP itself says zero_stage 3 and 2.
constexpr int kReshardAlways = 1;
constexpr int kReshardNever = 2;

void choose_zero_stage(Draft& draft) {
  Job& job = draft.job();
  const EngineRules& rules = rules_of(job.engine);
  const auto given = draft.settings().count(KeyId::kZeroStage);
  int reshard = draft.settings().name(KeyId::kReshard).value_or(0);
  if (reshard != 0 && !is_fsdp(job.engine)) {
    draft.refuse(KeyId::kReshard, "E216",
                 fmt::format("{} has no reshard_after_forward", name_of(job.engine)),
                 "a choice of fsdp1 and fsdp2", "zero_stage says it for this engine");
    reshard = 0;
  }
  job.wrapping.reshards_last = reshard == kReshardAlways;
  if (given) {
    job.parallel.zero_stage = static_cast<int>(*given);
    const std::string engine(name_of(job.engine));
    if (!rules.stages[*given])
      draft.refuse(
          KeyId::kZeroStage, "E216", fmt::format("{} has no zero_stage {}", engine, *given),
          fmt::format("{} takes {}", engine, rules.stage_words),
          *given >= 2 ? "engine = \"fsdp2\" or \"deepspeed\" divides gradients and parameters"
          : is_fsdp(job.engine) ? "engine = \"ddp\" keeps everything whole"
                                : "");
    const int meant = reshard == kReshardAlways  ? 3
                      : reshard == kReshardNever ? 2
                                                 : job.parallel.zero_stage;
    if (meant != job.parallel.zero_stage)
      draft.refuse(
          KeyId::kReshard, "E216",
          fmt::format("reshard_after_forward says zero_stage {}, zero_stage is {}", meant, *given),
          "one of the two", fmt::format("zero_stage = {} says the same as this", meant));
    return;
  }
  if (reshard != 0) {
    job.parallel.zero_stage = reshard == kReshardAlways ? 3 : 2;
    draft.assume(KeyId::kZeroStage, fmt::format("{}", job.parallel.zero_stage),
                 "reshard_after_forward says so");
    return;
  }
  job.parallel.zero_stage = rules.usual_stage;
  std::string_view reason = "the engine's own default";
  if (job.engine == Engine::kFsdp2 && job.parallel.pipeline > 1) {
    job.parallel.zero_stage = 2;
    reason = "torchtitan keeps parameters gathered between micro-batches of a pipeline";
  }
  draft.assume(KeyId::kZeroStage, fmt::format("{}", job.parallel.zero_stage), reason);
}

void choose_replicas(Draft& draft) {
  Job& job = draft.job();
  job.parallel.replicate = Ranks(draft.count_or(KeyId::kReplicate, 1));
  const std::int64_t replicate = job.parallel.replicate;
  if (replicate == 1) return;
  const bool shards =
      is_fsdp(job.engine) || (job.engine == Engine::kMegatron && job.parallel.zero_stage >= 1);
  if (!shards) {
    draft.refuse(KeyId::kReplicate, "E216",
                 fmt::format("{} has no replicas of shards", name_of(job.engine)),
                 "HSDP is for fsdp1, fsdp2 and Megatron-FSDP", "replicate = 1");
  } else if (job.parallel.data % replicate != 0) {
    draft.refuse(KeyId::kReplicate, "E216",
                 fmt::format("replicate {} does not divide data {}", replicate, job.parallel.data),
                 "data = replicas x shards");
  }
}

// set_requires_gradient_sync and no_sync.
void choose_sync(Draft& draft) {
  Job& job = draft.job();
  const bool pipelined = job.parallel.pipeline > 1;
  if (job.engine == Engine::kFsdp2 && pipelined) sync_as_stages(job.parallel);
  if (!draft.has(KeyId::kSyncEachMicroBatch)) return;
  const bool each = draft.truth_or(KeyId::kSyncEachMicroBatch, true);
  if (!is_fsdp(job.engine))
    return draft.refuse(KeyId::kSyncEachMicroBatch, "E216",
                        fmt::format("{} has no sync_each_micro_batch", name_of(job.engine)),
                        "a choice of fsdp1 and fsdp2", "leave it out");
  if (job.engine == Engine::kFsdp1 && pipelined && !each)
    return draft.refuse(KeyId::kSyncEachMicroBatch, "E320",
                        "not weighed yet: fsdp1's waiting gradients in a pipeline",
                        "known without a pipeline", "sync_each_micro_batch = true");
  job.parallel.sync_each_micro_batch = each;
}

// Megatron's: stages 2 and 3 are Megatron-FSDP's alone, stage 1 is the distributed optimizer unless the strategy says otherwise.
void choose_strategy(Draft& draft) {
  Job& job = draft.job();
  constexpr int kDdpStrategy = 0, kDistributedOptimizer = 1, kMegatronFsdp = 2;
  const bool megatron = job.engine == Engine::kMegatron;
  const int stage = job.parallel.zero_stage;
  const auto said = draft.settings().name(KeyId::kStrategy);
  job.parallel.megatron_fsdp = megatron && (said ? *said == kMegatronFsdp : stage >= 2);
  job.parallel.meta_device = draft.truth_or(KeyId::kMetaDevice, false);
  if (job.parallel.meta_device && !job.parallel.megatron_fsdp)
    draft.warn(KeyId::kMetaDevice, "E216", "meta_device is Megatron-FSDP's", "changes nothing");
  if (!said) return;
  const bool fits = *said == kDdpStrategy            ? stage == 0
                    : *said == kDistributedOptimizer ? stage == 1
                    : *said == kMegatronFsdp         ? stage > 0
                                                     : false;
  if (!megatron || !fits)
    draft.refuse(KeyId::kStrategy, *said <= kMegatronFsdp ? "E216" : "E320",
                 fmt::format("strategy {} of {} with zero_stage {}",
                             key_of(KeyId::kStrategy).names[static_cast<std::size_t>(*said)],
                             name_of(job.engine), stage),
                 "megatron's: ddp is zero_stage 0, distributed-optimizer 1, megatron-fsdp 1 to 3",
                 "leave it out: zero_stage says it");
}

// ZeRO++'s transport in fewer bits: parameters at any size, gradients between machines.
void choose_transport(Draft& draft) {
  Job& job = draft.job();
  Parallel& parallel = job.parallel;
  const auto choose = [&](KeyId id) {
    if (!draft.truth_or(id, false)) return false;
    if (job.engine != Engine::kDeepSpeed || parallel.zero_stage != 3)
      draft.refuse(id, "E216", fmt::format("{} = true", key_of(id).name),
                   "needs deepspeed and zero_stage 3", "leave it out: 16 bits travel");
    else if (draft.has(KeyId::kShardGroup))
      draft.refuse(id, "E213", fmt::format("{} beside shard_group", key_of(id).name),
                   "MiCS and ZeRO++ are two ways", "one of them");
    return true;
  };
  parallel.quantized_gather = choose(KeyId::kQuantizedGather);
  const bool several = job.cluster.devices > job.cluster.devices_per_node;
  if (choose(KeyId::kQuantizedReduce) && !several)
    draft.warn(KeyId::kQuantizedReduce, "E216", "quantized_reduce on one machine",
               "DeepSpeed sends gradients in 4 bits between machines only: here in their own type");
  parallel.quantized_reduce = draft.truth_or(KeyId::kQuantizedReduce, false) && several;
}

// ZeRO++'s second copy and MiCS's groups: both divide data, and both are of ZeRO-3.
void choose_shard_groups(Draft& draft) {
  Job& job = draft.job();
  Parallel& parallel = job.parallel;
  const auto choose = [&](KeyId id, std::int64_t ranks) {
    if (job.engine != Engine::kDeepSpeed || parallel.zero_stage != 3 || parallel.data % ranks != 0)
      draft.refuse(
          id, "E216", fmt::format("{} {}", key_of(id).name, ranks),
          fmt::format("needs deepspeed, zero_stage 3 and a divisor of data ({})", parallel.data),
          "leave it out: all data ranks share one copy");
    return Ranks(ranks);
  };
  const std::int64_t second = draft.count_or(KeyId::kSecondaryShard, 1);
  if (second > 1) parallel.secondary_shard = choose(KeyId::kSecondaryShard, second);
  if (!draft.has(KeyId::kShardGroup)) return;
  parallel.shard_group = choose(KeyId::kShardGroup, draft.count_or(KeyId::kShardGroup, 1));
  if (second > 1)
    draft.refuse(KeyId::kShardGroup, "E213", "shard_group beside secondary_shard",
                 "MiCS and ZeRO++ are two ways", "one of them");
  if (parallel.context > 1)
    draft.refuse(KeyId::kShardGroup, "E320", "not weighed yet: shard_group with context",
                 "known without sequence parallelism", "context = 1");
}

void check_engine_has(Draft& draft) {
  Job& job = draft.job();
  const EngineRules& rules = rules_of(job.engine);
  const std::string engine(name_of(job.engine));
  if (job.parallel.tensor > 1 && !rules.tensor)
    draft.refuse(KeyId::kTensor, "E217", fmt::format("{} has no tensor parallelism", engine),
                 std::string(rules.whole), engines_with_tensor() + " have it");
  if (job.parallel.pipeline > 1 && !rules.pipeline)
    draft.refuse(KeyId::kPipeline, "E217", fmt::format("{} has no pipeline", engine),
                 std::string(rules.whole), engines_with_pipeline() + " have it");
  if (job.engine == Engine::kDeepSpeed && job.parallel.pipeline > 1 && job.parallel.zero_stage > 1)
    draft.refuse(
        draft.has(KeyId::kZeroStage) ? KeyId::kZeroStage : KeyId::kPipeline, "E216",
        fmt::format("deepspeed has no zero_stage {} with a pipeline", job.parallel.zero_stage),
        "its pipeline keeps whole gradients over the micro-batches", "zero_stage = 1");
}

void choose_sequence_parallel(Draft& draft) {
  Parallel& parallel = draft.job().parallel;
  if (parallel.tensor == 1) {
    parallel.sequence_parallel =
        false;  // with one rank there is nothing to divide, whatever was written
    return;
  }
  parallel.sequence_parallel =
      draft.truth_or(KeyId::kSequenceParallel, true, "usual with tensor parallelism");
}

// Whether the engine runs the order at all.
void check_engine_runs(Draft& draft, const PipelineOrder& order) {
  const Engine engine = draft.job().engine;
  const EngineRules& rules = rules_of(engine);
  if (!rules.pipeline || (rules.orders & bit_of(order.schedule)) != 0) return;
  if ((rules.borrowed & bit_of(order.schedule)) == 0)
    draft.refuse(KeyId::kSchedule, "E213",
                 fmt::format("{} has no {} schedule", name_of(engine), order.name),
                 fmt::format("{} runs {}", name_of(engine), orders_of(rules)));
  else
    draft.warn(KeyId::kSchedule, "E213",
               fmt::format("{} runs no {} schedule", name_of(engine), order.name),
               "weighed as if it did", fmt::format("it runs {}", orders_of(rules)));
}

// sail-sg/VocabularyParallelism divides it under 1F1B, the branch v-half-vocab of sail-sg/zero-bubble-pipeline-parallelism under
// V-Half; both are forks of Megatron-LM.
void choose_vocabulary(Draft& draft) {
  const auto given = draft.settings().name(KeyId::kVocabulary);
  if (!given || *given == static_cast<int>(VocabularyLayers::kAtTheEnds)) return;
  Parallel& parallel = draft.job().parallel;
  parallel.vocabulary = static_cast<VocabularyLayers>(*given);
  const std::string name(name_of(parallel.vocabulary));
  const auto refuse = [&](const std::string& what, const char* why, const char* instead) {
    draft.refuse(KeyId::kVocabulary, "E213", what, why, instead);
    parallel.vocabulary = VocabularyLayers::kAtTheEnds;
  };
  const bool half = parallel.schedule == PipelineSchedule::kVHalf;
  if (parallel.pipeline == 1)
    return refuse(fmt::format("vocabulary {} with pipeline 1", name),
                  "it is divided over the stages of a pipeline", "pipeline = 2");
  if (draft.job().engine != Engine::kMegatron)
    return refuse(
        fmt::format("{} does not divide the vocabulary over stages", name_of(draft.job().engine)),
        "forks of Megatron-LM do", "engine = \"megatron\"");
  if (!half && parallel.schedule != PipelineSchedule::kOneForwardOneBackward)
    return refuse(fmt::format("{} has no vocabulary {}", name_of(parallel.schedule), name),
                  "the order of the output layer's parts is known for 1f1b and v-half",
                  "schedule = \"1f1b\"");
  if (half && parallel.vocabulary == VocabularyLayers::kInterlaced)
    return refuse("v-half has no vocabulary interlaced", "it is an order of 1f1b's forwards",
                  "vocabulary = \"vocabulary-1\"");
  draft.warn(KeyId::kVocabulary, "E213",
             "megatron keeps the vocabulary on the first and last stage",
             "weighed as its fork sail-sg/VocabularyParallelism divides it");
}

void choose_schedule(Draft& draft) {
  Job& job = draft.job();
  Parallel& parallel = job.parallel;
  const auto chunks = draft.settings().count(KeyId::kVirtualPipeline);
  parallel.virtual_pipeline = chunks.value_or(1);
  const bool several = parallel.virtual_pipeline > 1;
  if (several && parallel.pipeline == 1)
    draft.refuse(KeyId::kVirtualPipeline, "E213",
                 fmt::format("virtual_pipeline {} with pipeline 1", parallel.virtual_pipeline),
                 "chunks belong to a pipeline's stages", "virtual_pipeline = 1");
  if (parallel.pipeline == 1 && !draft.has(KeyId::kSchedule) && !several) {
    draft.count_or(KeyId::kVirtualPipeline, 1);
    return;
  }
  const auto usual =
      several ? PipelineSchedule::kInterleaved : PipelineSchedule::kOneForwardOneBackward;
  const auto given = draft.settings().name(KeyId::kSchedule);
  parallel.schedule = parallel.pipeline > 1
                          ? draft.name_or(KeyId::kSchedule, usual,
                                          several ? "virtual_pipeline needs it" : "the usual order")
                          : static_cast<PipelineSchedule>(given.value_or(static_cast<int>(usual)));
  if (parallel.pipeline == 1) return;
  const PipelineOrder& order = order_of(parallel.schedule);
  if (!chunks && order.fewest_chunks == order.most_chunks && order.most_chunks > 1)
    parallel.virtual_pipeline =
        draft.count_or(KeyId::kVirtualPipeline, order.fewest_chunks, "chunks of this order");
  else
    draft.count_or(KeyId::kVirtualPipeline, 1);
  if (order.most_chunks == 1 && several)
    draft.refuse(KeyId::kVirtualPipeline, "E213",
                 fmt::format("{} has no virtual_pipeline {}", order.name, *chunks),
                 "every stage is one chunk of layers",
                 "schedule = \"interleaved\" has chunks; virtual_pipeline = 1 keeps this one");
  else if (order.most_chunks > 1 && parallel.virtual_pipeline != order.most_chunks)
    draft.refuse(KeyId::kVirtualPipeline, "E213",
                 fmt::format("{} has no virtual_pipeline {}", order.name, *chunks),
                 "every stage is two chunks of layers", "virtual_pipeline = 2");
  else if (parallel.virtual_pipeline < order.fewest_chunks)
    draft.refuse(KeyId::kSchedule, "E213", fmt::format("{} with virtual_pipeline 1", order.name),
                 "interleaving needs two chunks or more", "virtual_pipeline = 2");
  check_engine_runs(draft, order);
  // pipe_partitioned and grad_partitioned of DeepSpeed's "pipeline" are true unless a configuration says otherwise
  // (deepspeed/runtime/config.py, get_pipeline_config).
  const bool of_deepspeed = job.engine == Engine::kDeepSpeed && parallel.tensor > 1;
  parallel.scattered_transfers = draft.truth_or(KeyId::kScatteredTransfers, of_deepspeed);
  if (parallel.scattered_transfers && job.engine != Engine::kMegatron &&
      job.engine != Engine::kDeepSpeed)
    draft.refuse(KeyId::kScatteredTransfers, "E213",
                 fmt::format("scattered_transfers is megatron's and deepspeed's, the engine is {}",
                             name_of(job.engine)),
                 "not a choice of this engine");
  if (const auto group = draft.settings().count(KeyId::kPipelineGroup)) {
    parallel.pipeline_group = *group;
    if (job.engine != Engine::kMegatron)
      draft.refuse(
          KeyId::kPipelineGroup, "E213",
          fmt::format("pipeline_group is megatron's, the engine is {}", name_of(job.engine)),
          "not a choice of this engine");
    else if (*group < parallel.pipeline)
      draft.refuse(
          KeyId::kPipelineGroup, "E213",
          fmt::format("pipeline_group {} is less than pipeline {}", *group, parallel.pipeline),
          "a chunk's next micro-batch would not be there yet",
          fmt::format("pipeline_group = {} is the least", parallel.pipeline));
  }
}

}  // namespace

void choose_parallel(Draft& draft) {
  choose_zero_stage(draft);
  choose_replicas(draft);
  choose_sync(draft);
  choose_shard_groups(draft);
  choose_transport(draft);
  choose_strategy(draft);
  check_engine_has(draft);
  choose_sequence_parallel(draft);
  choose_schedule(draft);
  choose_vocabulary(draft);
  choose_context(draft);
}

}  // namespace steelyard
