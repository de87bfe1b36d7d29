#include "allocator/slot_streams.h"

#include <array>
#include <string_view>

namespace steelyard {
namespace {

struct RuleStream {
  std::string_view rule;
  StreamId stream;
  std::string_view source;
};

constexpr std::string_view kFsdp2 =
    "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: foreach_all_gather allocates under "
    "all_gather_copy_in_stream, foreach_reduce its output and the shards under "
    "reduce_scatter_stream "
    "and its input on the current one";
constexpr std::string_view kFsdp1 =
    "torch/distributed/fsdp/_runtime_utils.py: _unshard (pre_unshard_stream, unshard_stream), "
    "_post_backward_hook (post_backward_stream)";
constexpr std::string_view kFsdp1Views =
    "torch/distributed/fsdp/_flat_param.py: unshard makes the parameters' views under "
    "unshard_stream, and autograd "
    "runs what joins their gradients on the stream of the views";
constexpr std::string_view kZero12 =
    "DeepSpeed runtime/zero/stage_1_and_2.py, reduce_ipg_grads and average_tensor with "
    "overlap_comm "
    "(reduction_stream)";
constexpr std::string_view kZero3 =
    "DeepSpeed runtime/zero/partitioned_param_coordinator.py (__allgather_stream), stage3.py "
    "(reduce_and_partition_stream)";

constexpr std::string_view kMegatronFsdp =
    "megatron/core/distributed/fsdp/src/megatron_fsdp: AllGatherPipeline (ag_stream), "
    "GradReducePipeline (rs_stream); whole gradients are made by the hook, on the current stream";

constexpr std::array<RuleStream, 19> kStreams = {{
    {"deepspeed.reduced-beside", kReduceStream, kZero12},
    {"fsdp2.cast-shard", kGatherStream, kFsdp2},
    {"fsdp2.all-gather-output", kGatherStream, kFsdp2},
    {"fsdp2.reduce-scatter-output", kReduceStream, kFsdp2},
    {"fsdp2.gradient-shard", kReduceStream, kFsdp2},
    {"fsdp1.cast-gradient", kReduceStream, kFsdp1},
    {"fsdp1.cast-shard", kCastStream, kFsdp1},
    {"fsdp1.whole-parameter", kGatherStream, kFsdp1},
    {"fsdp1.flat-gradient", kGatherStream, kFsdp1Views},
    {"fsdp1.tied-gradient", kGatherStream, kFsdp1Views},
    {"fsdp1.gradient-shard", kReduceStream, kFsdp1},
    {"fsdp1.reduce-scatter-output", kReduceStream, kFsdp1},
    {"deepspeed.zero3-fetch", kGatherStream, kZero3},
    {"deepspeed.zero3-gathered", kGatherStream, kZero3},
    {"deepspeed.quantised-gather", kGatherStream, kZero3},
    {"deepspeed.zero3-scatter", kReduceStream, kZero3},
    {"deepspeed.quantised-reduce", kReduceStream, kZero3},
    {"megatron-fsdp.gathered", kGatherStream, kMegatronFsdp},
    {"megatron-fsdp.reduced", kReduceStream, kMegatronFsdp},
}};

}  // namespace

bool empties_cache(const Slot& slot) {
  return slot.rule == std::string_view("allocator.emptied-cache");
}

StreamId stream_of(const Slot& slot) {
  for (const RuleStream& row : kStreams)
    if (row.rule == slot.rule) return row.stream;
  return kComputeStream;
}

}  // namespace steelyard
