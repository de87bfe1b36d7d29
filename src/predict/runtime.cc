#include "predict/runtime.h"

#include <fmt/format.h>

#include <algorithm>

namespace steelyard {

namespace {

// Machines that a group touches whose members stand `stride` ranks apart.
std::int64_t nodes_of(std::int64_t members, std::int64_t stride, std::int64_t devices_per_node) {
  return std::clamp<std::int64_t>((members * stride + devices_per_node - 1) / devices_per_node, 1,
                                  members);
}

void add(RuntimeBytes& sum, const RuntimeBytes& part) {
  sum.low += part.low;
  sum.expected += part.expected;
  sum.high += part.high;
  if (part.expected == Bytes{}) return;
  if (!sum.derivation.empty()) sum.derivation += " + ";
  sum.derivation += part.derivation;
  if (sum.source.find(part.source) == std::string::npos) sum.source += "; " + part.source;
}

// Transformer Engine's buffers of exchanges in pieces, of one layer, for all: [tokens, hidden] for each product that gathers
// or scatters. What is gathered has 8 bits where a tensor has one scale.
RuntimeBytes piece_buffers(const Job& job) {
  constexpr std::int64_t kGather =
      6;  // qkv, fc1: forward, input's gradient; proj, fc2: input's gradient
  constexpr std::int64_t kScatter =
      4;  // proj, fc2: forward; qkv, fc1: beside the weight's gradient
  const Precision& precision = job.training.precision;
  const bool eight_bits =
      precision.float8_recipe == "delayed" || precision.float8_recipe == "tensorwise";
  const Checked elements = Checked(job.training.micro_batch) *
                           Checked(job.training.sequence_length.value()) /
                           Checked(job.parallel.context) * Checked(job.model->hidden);
  const Checked each = Checked(kGather * (eight_bits ? 1 : 2) + kScatter * 2);
  const Bytes bytes(elements * each);
  return {bytes, bytes, bytes,
          fmt::format("{} buffers of gathers and {} of scatters in pieces", kGather, kScatter),
          "NVIDIA/TransformerEngine transformer_engine/pytorch/module/base.py, initialize_ub"};
}

}  // namespace

// vLLM takes a share of the device's whole memory for weights, activations and cache (v1/worker/utils.py, request_memory), and
// fills what is left of it with cache (v1/worker/gpu_worker.py, determine_available_memory).
RuntimeBytes generator_bytes(const Job& job) {
  const Generation& generation = job.generation;
  if (!generation.on_this_device()) return {};
  const double capacity = static_cast<double>(job.cluster.device->capacity.value().value());
  const Bytes bytes(static_cast<std::int64_t>(capacity * generation.share));
  return {
      bytes, bytes, bytes,
      fmt::format("{:.0f} % of the device for {}", generation.share * 100, name_of(generation.by)),
      "vllm-project/vllm vllm/v1/worker/utils.py, request_memory (generation.memory_fraction)"};
}

RuntimeBytes runtime_bytes(const Job& job) {
  const Device& device = *job.cluster.device;
  const Parallel& parallel = job.parallel;
  const std::int64_t per_node = std::max<std::int64_t>(1, job.cluster.devices_per_node);
  RuntimeBytes sum = context_bytes(device);
  auto group = [&](std::int64_t members, std::int64_t stride, CommunicatorUse use) {
    if (members > 1)
      add(sum,
          communicator_bytes(device, members, per_node, nodes_of(members, stride, per_node), use));
  };
  const bool whole_gradients = job.engine == Engine::kDdp || parallel.zero_stage == 0;
  // tensor ranks are neighbours, then context, then data; pipeline stages stand furthest apart
  group(parallel.tensor, 1,
        parallel.sequence_parallel ? CommunicatorUse::kGatherScatter : CommunicatorUse::kAllReduce);
  if (parallel.context > 1) {
    // A ring has neighbours; one whose keys and values are gathered, and an all-to-all, talk to everybody.
    const ContextMethod method = parallel.context_method;
    const bool torch = job.engine == Engine::kFsdp2;
    const std::int64_t inner =
        method == ContextMethod::kRingAndUlysses ? parallel.context_inner.value() : 1;
    const CommunicatorUse use =
        method == ContextMethod::kAllGather          ? CommunicatorUse::kGatherScatter
        : method == ContextMethod::kUlysses || torch ? CommunicatorUse::kAllToAll
                                                     : CommunicatorUse::kNeighbours;
    group(inner, parallel.tensor, CommunicatorUse::kAllToAll);
    group(parallel.context / inner, parallel.tensor * inner, use);
    // torch's ring sends gradients by all-to-all, however keys and values come.
    if (torch && method == ContextMethod::kAllGather)
      group(parallel.context, parallel.tensor, CommunicatorUse::kAllToAll);
  }
  if (parallel.expert > 1) {
    // Ranks of one set of experts are neighbours, those of its parts nearest.
    const bool gathers = job.experts.dispatcher == ExpertDispatcher::kAllGather;
    group(parallel.expert, parallel.expert_tensor,
          gathers ? CommunicatorUse::kGatherScatter : CommunicatorUse::kAllToAll);
    group(expert_data_ranks(job), parallel.expert * parallel.expert_tensor,
          parallel.zero_stage == 0 ? CommunicatorUse::kAllReduce : CommunicatorUse::kGatherScatter);
  }
  const std::int64_t data = parallel.data * parallel.context;
  group(data, parallel.tensor,
        whole_gradients ? CommunicatorUse::kAllReduce : CommunicatorUse::kGatherScatter);
  group(parallel.pipeline, parallel.tensor * data, CommunicatorUse::kNeighbours);
  if (job.overlap_tensor) add(sum, piece_buffers(job));
  if (!job.generation.sleeps) add(sum, generator_bytes(job));
  return sum;
}

}  // namespace steelyard
