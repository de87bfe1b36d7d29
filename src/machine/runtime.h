// What a training process holds on the device beside its tensors, outside PyTorch's allocator: the
// CUDA context with its modules, and the buffers of each NCCL communicator.
//
//   8 x H100, all-gather and reduce-scatter over one node:
//     24 channels x 12 MiB for each neighbour pair = 288 MiB         (192 to 768 MiB)
//   the same node, all-reduce: NVLS adds 16 x 2 x 1 MiB x 8 = 256 MiB
//   its first all-to-all: 32 channels x 7 peers x 12 MiB = 2,688 MiB
//
// Constants and their sources lie in data/runtime.json. NCCL connects an algorithm when it is first
// used, so each kind of use has its own amount; a communicator used in two ways holds both.
#pragma once

#include <cstdint>
#include <string>

#include "machine/device.h"

namespace steelyard {

struct RuntimeBytes {
  Bytes low{}, expected{}, high{};
  std::string derivation;  // "24 channels x 12 MiB"
  std::string source;
};

enum class CommunicatorUse : std::uint8_t {
  kGatherScatter,  // all-gather, reduce-scatter, broadcast: rings
  kAllReduce,      // rings, trees on older versions, NVLS where the switch adds
  kNeighbours,     // pipeline send and receive
  kAllToAll,       // experts, Ulysses
};

// The buffers of one communicator on one rank. `ranks`: members of the group; `devices_per_node`:
// of the machine; `nodes`: how many machines the group touches. A group of one rank communicates
// with nobody and holds nothing.
RuntimeBytes communicator_bytes(const Device& device, std::int64_t ranks,
                                std::int64_t devices_per_node, std::int64_t nodes,
                                CommunicatorUse use);

// Context and lazily loaded kernels of one process.
RuntimeBytes context_bytes(const Device& device);

}  // namespace steelyard
