#include "job/environment_keys.h"

namespace steelyard {

const std::vector<EnvironmentKey>& environment_keys() {
  // clang-format off
  static const std::vector<EnvironmentKey> kKeys = {
      // Versions of packages.
      {"torch", "a version, as 2.8", "2.11", "whose blocks collectives hold back (2.2, 2.8), what torch.nn.RMSNorm is made of (2.7, 2.9), the lists of foreach Adam (2.1), expandable segments on ROCm (2.12)", "pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, aten/src/ATen/native/layer_norm.cpp; pull requests 111431, 150398, 177974"},
      {"transformers", "a version, as 4.57", "5.17", "experts are linear modules, each of its own, before 5; frequencies of each layer before 4.48; how labels and logits are moved and widened (4.31, 4.46, 4.49)", "huggingface/transformers models/*/modeling_*.py, loss/loss_utils.py, integrations/bitsandbytes.py; pull request 41580"},
      {"peft", "a version, as 0.18", "0.21", "adapters beside stacked experts since 0.19; before 0.21 what they add to the weights is a tensor of its own, which is not weighed", "huggingface/peft tuners/lora/layer.py, ParamWrapper; utils/transformers_weight_conversion.py"},
      {"bitsandbytes", "a version, as 0.42", "0.50", "4-bit products keep their input, and come back as fp16, before 0.43; none multiplies without a dequantised weight before 0.50", "bitsandbytes autograd/_functions.py, backends/cuda/ops.py"},
      {"liger-kernel", "a version, as 0.8.0", "0.8.5", "what the loss with the head makes of each chunk (0.6.2, 0.8.1 to 0.8.3)", "linkedin/Liger-Kernel ops/fused_linear_cross_entropy.py"},
      {"flash-linear-attention", "a version, as 0.6", "taken for installed, and told, where layers have the gated delta rule", "whose kernel runs the gated delta rule of qwen3_next and qwen3_5", "huggingface/transformers models/qwen3_5/modeling_qwen3_5.py, torch_chunk_gated_delta_rule"},
      {"flash-attn", "a version, as 1.0", "2", "what attention's kernel needs beside its gradients before 2", "Dao-AILab/flash-attention csrc/flash_attn"},
      {"megatron-core", "a version, as 0.5", "0.16", "since 0.6 the distributed optimizer has a buffer of parameters, into which those of the modules move", "NVIDIA/Megatron-LM megatron/core/distributed/param_and_grad_buffer.py (0.6.0), grad_buffer.py (0.5.0)"},
      {"torchtitan", "a version, as 0.2", "0.3", "the loss is compiled since 0.1; ends are wrapped apart since 0.2", "pytorch/torchtitan pull requests 1033, 1094"},
      {"torchtune", "a version, as 0.4", "0.6", "attention and the loss in chunks before 0.5", "pytorch/torchtune torchtune/modules"},
      // Variables that are read.
      {"PYTORCH_ALLOC_CONF", "option:value, separated by commas", "nothing; expandable_segments:True with torchtitan", "how the caching allocator rounds, splits and expands its segments", "pytorch c10/core/AllocatorConfig.cpp"},
      {"PYTORCH_CUDA_ALLOC_CONF", "the same, by its older name", "nothing", "the same", "pytorch c10/core/AllocatorConfig.cpp"},
      {"TORCH_NCCL_AVOID_RECORD_STREAMS", "0 or 1", "0", "with 1, collectives hold no blocks back", "pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"},
      {"TORCH_DISTRIBUTED_DEBUG", "OFF, INFO or DETAIL", "OFF", "with DETAIL the hosts of a group check each collective with each other before it starts", "pytorch torch/csrc/distributed/c10d/debug.cpp"},
      // Variables that change memory and are not weighed.
      {"PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "the caching allocator", "no block is kept for the next request: reserved memory is what is allocated, and every request waits for the driver", "pytorch c10/cuda/CUDACachingAllocator.cpp", false},
      {"CUBLAS_WORKSPACE_CONFIG", ":SIZE:COUNT", "cuBLAS's default", "another workspace for each handle and stream: :4096:8 is 32 MiB", "pytorch aten/src/ATen/cuda/CublasHandlePool.cpp", false},
      {"CUDA_MODULE_LOADING", "LAZY or EAGER", "LAZY", "EAGER loads every kernel at start: the context of an H100 takes 1,867 MiB, not 767", "CUDA programming guide, lazy loading; docs/on-a-gpu.md", false},
      {"NCCL_BUFFSIZE", "bytes", "4 MiB", "the buffer of each channel and peer", "NVIDIA/nccl src/include/device.h", false},
      {"NCCL_MIN_NCHANNELS", "a count", "as the topology says", "channels of a communicator, each with its buffers", "NVIDIA/nccl src/graph/connect.cc", false},
      {"NCCL_MAX_NCHANNELS", "a count", "as the topology says", "channels of a communicator, each with its buffers", "NVIDIA/nccl src/graph/connect.cc", false},
      {"NCCL_NVLS_ENABLE", "0, 1 or 2", "where the fabric has it", "buffers of in-switch all-reduces on every rank", "NVIDIA/nccl src/transport/nvls.cc", false},
  };
  // clang-format on
  return kKeys;
}

const EnvironmentKey* find_environment_key(std::string_view name) {
  for (const EnvironmentKey& key : environment_keys())
    if (key.name == name) return &key;
  return nullptr;
}

}  // namespace steelyard
