#include "evidence/stack_origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace steelyard {
namespace {

// What one frame can say.
enum FrameSign : std::uint32_t {
  kPython = 1U << 0U,
  kSignEvaluation = 1U << 1U,
  kSignSave = 1U << 2U,
  kSignStep = 1U << 3U,  // an optimizer's step
  kSignMakesState = 1U << 4U,
  kSignBackward = 1U << 5U,
  kSignFunction = 1U << 6U,  // autograd's Function.apply of backward: outermost in its thread
  kSignLoss = 1U << 7U,
  kSignLoad = 1U << 8U,
  kSignGather = 1U << 9U,
  kSignMaster = 1U << 10U,
  kSignGradBuffer = 1U << 11U,
  kSignDequantise = 1U << 12U,
  kSignAttention = 1U << 13U,
  kSignSoftmax = 1U << 14U,
  kSignLinear = 1U << 15U,
  kSignExperts = 1U << 16U,
  kSignNorm = 1U << 17U,
  kSignGenerated = 1U << 18U,
  kSignReplicate = 1U << 19U,
  kSignCache = 1U << 20U,
  kSignWrapper = 1U << 21U,  // of PyTorch or an engine: never the owner's own line
  kSignForward = 1U << 22U,
  kSignReduce = 1U << 23U,  // gradients on their way from ranks to shards
  kSignFlatten = 1U << 24U,
};

struct FrameRule {
  std::string_view file;      // a part of the path; empty: any
  std::string_view function;  // a part of the name; empty: any; "=x": exactly x
  std::uint32_t signs;
};

// Facts of the frameworks' own files: PyTorch 2.0 to 2.11, transformers 4 and 5, DeepSpeed 0.14 to 0.18, Megatron-LM,
// bitsandbytes, PEFT, Apex.
constexpr std::array kFrameRules = {
    FrameRule{"", "=_flatten_dense_tensors", kSignFlatten},
    FrameRule{"torch/distributed/fsdp/", "foreach_reduce", kSignReduce},
    FrameRule{"torch/distributed/fsdp/", "_reduce_grad", kSignReduce},
    FrameRule{"torch/distributed/fsdp/", "post_backward", kSignReduce},
    FrameRule{"torch/optim/", "_init_group", kSignStep | kSignMakesState},
    FrameRule{"torch/optim/optimizer.py", "=wrapper", kSignStep | kSignWrapper},
    FrameRule{"torch/optim/optimizer.py", "=_use_grad", kSignStep | kSignWrapper},
    FrameRule{"torch/optim/", "=step", kSignStep},
    FrameRule{"torch/optim/", "_tensor_", kSignStep},
    FrameRule{"torch/optim/", "_fused_", kSignStep},
    FrameRule{"", "=init_state", kSignMakesState},
    FrameRule{"", "=_init_state", kSignMakesState},
    FrameRule{"", "=init_states", kSignMakesState},
    FrameRule{"", "_initialize_optimizer_states", kSignMakesState | kSignStep},
    FrameRule{"", "=initialize_optimizer_states", kSignMakesState | kSignStep},
    FrameRule{"bitsandbytes/optim/", "=get_state_buffer", kSignMakesState | kSignStep},
    FrameRule{"bitsandbytes/optim/", "=step", kSignStep},
    FrameRule{"apex/optimizers/", "=step", kSignStep},
    FrameRule{"deepspeed/ops/adam", "=step", kSignStep},
    FrameRule{"torchao/optim/", "", kSignStep},
    FrameRule{"torch/nn/utils/clip_grad.py", "", kSignStep},
    FrameRule{"torch/amp/grad_scaler.py", "=step", kSignStep | kSignWrapper},

    FrameRule{"torch/autograd/graph.py", "_engine_run_backward", kSignBackward | kSignWrapper},
    FrameRule{"torch/_tensor.py", "=backward", kSignBackward | kSignWrapper},
    FrameRule{"torch/autograd/__init__.py", "=backward", kSignBackward | kSignWrapper},
    FrameRule{"torch/autograd/function.py", "=apply", kSignFunction | kSignWrapper},
    FrameRule{"torch/utils/checkpoint.py", "unpack_hook", kSignBackward | kSignWrapper},
    FrameRule{"torch/utils/checkpoint.py", "recompute_fn", kSignBackward | kSignWrapper},
    FrameRule{"torch/utils/checkpoint.py", "=backward", kSignBackward | kSignWrapper},
    FrameRule{"torch/utils/checkpoint.py", "", kSignWrapper},
    FrameRule{"megatron/core/tensor_parallel/random.py", "=backward", kSignBackward},

    FrameRule{"torch/nn/functional.py", "cross_entropy", kSignLoss},
    FrameRule{"torch/nn/functional.py", "nll_loss", kSignLoss},
    FrameRule{"torch/nn/functional.py", "=log_softmax", kSignLoss},
    FrameRule{"torch/nn/functional.py", "_loss", kSignLoss},
    FrameRule{"torch/nn/modules/loss.py", "", kSignLoss},
    FrameRule{"transformers/loss/", "", kSignLoss},
    FrameRule{"tensor_parallel/cross_entropy.py", "", kSignLoss},
    FrameRule{"", "fixed_cross_entropy", kSignLoss},
    FrameRule{"", "ForCausalLMLoss", kSignLoss},
    FrameRule{"", "cross_entropy", kSignLoss},
    FrameRule{"", "=log_softmax", kSignLoss},
    FrameRule{"", "loss_fn", kSignLoss},
    FrameRule{"", "loss_function", kSignLoss},

    FrameRule{"torch/nn/modules/module.py", "=_apply", kSignLoad | kSignWrapper},
    FrameRule{"torch/nn/modules/module.py", "=convert", kSignLoad | kSignWrapper},
    FrameRule{"torch/nn/modules/module.py", "=to", kSignLoad | kSignWrapper},
    FrameRule{"torch/nn/modules/module.py", "=cuda", kSignLoad | kSignWrapper},
    FrameRule{"torch/nn/modules/module.py", "=load_state_dict", kSignLoad | kSignWrapper},
    FrameRule{"torch/nn/modules/module.py", "=_load_from_state_dict", kSignLoad | kSignWrapper},
    FrameRule{"torch/nn/modules/module.py", "=to_empty", kSignLoad | kSignWrapper},
    FrameRule{"torch/nn/modules/module.py", "", kSignWrapper},
    FrameRule{"torch/nn/modules/", "=__init__", kSignLoad},
    FrameRule{"torch/nn/modules/", "=reset_parameters", kSignLoad},
    FrameRule{"torch/nn/init.py", "", kSignLoad},
    FrameRule{"", "=from_pretrained", kSignLoad},
    FrameRule{"", "_load_state_dict", kSignLoad},
    FrameRule{"", "load_state_dict", kSignLoad},
    FrameRule{"", "=_init_weights", kSignLoad},
    FrameRule{"", "init_weights", kSignLoad},
    FrameRule{"", "load_weight", kSignLoad},
    FrameRule{"", "init_weight", kSignLoad},
    FrameRule{"", "load_model", kSignLoad},
    FrameRule{"transformers/core_model_loading.py", "", kSignLoad},
    FrameRule{"transformers/modeling_utils.py", "=to", kSignLoad},
    FrameRule{"safetensors/", "", kSignLoad},
    FrameRule{"torch/serialization.py", "load", kSignLoad},
    FrameRule{"", "materialize", kSignLoad},

    FrameRule{"torch/distributed/checkpoint/", "", kSignSave},
    FrameRule{"torch/distributed/fsdp/_state_dict_utils.py", "", kSignSave},
    FrameRule{"torch/distributed/fsdp/_optim_utils.py", "", kSignSave},
    FrameRule{"torch/distributed/_state_dict_utils.py", "", kSignSave},
    FrameRule{"torch/serialization.py", "save", kSignSave},
    FrameRule{"", "save_checkpoint", kSignSave},
    FrameRule{"", "save_pretrained", kSignSave},
    FrameRule{"", "=save_model", kSignSave},
    FrameRule{"", "full_state", kSignSave},
    FrameRule{"torch/distributed/fsdp/_unshard_param_utils.py", "", kSignSave},
    FrameRule{"", "_zero3_consolidated", kSignSave},
    FrameRule{"torch/nn/modules/module.py", "=state_dict", kSignSave},

    FrameRule{"transformers/generation/", "", kSignEvaluation},
    FrameRule{"", "=generate", kSignEvaluation},
    FrameRule{"", "evaluat", kSignEvaluation},
    FrameRule{"", "predictions", kSignEvaluation},
    FrameRule{"", "=evaluation_loop", kSignEvaluation},
    FrameRule{"", "=prediction_step", kSignEvaluation},
    FrameRule{"", "=validate", kSignEvaluation},
    FrameRule{"", "=validation_step", kSignEvaluation},
    FrameRule{"transformers/cache_utils.py", "", kSignCache},

    FrameRule{"torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py", "", kSignGather},
    FrameRule{"torch/distributed/_composable/fsdp/", "", kSignGather},
    FrameRule{"torch/distributed/fsdp/_fully_shard/_fsdp_param", "=alloc_all_gather_outputs",
              kSignGather},
    FrameRule{"torch/distributed/fsdp/_fully_shard/_fsdp_param", "=init_all_gather_outputs",
              kSignGather},
    FrameRule{"torch/distributed/fsdp/_fully_shard/_fsdp_param", "unshard", kSignGather},
    FrameRule{"torch/distributed/fsdp/_flat_param.py", "unshard", kSignGather},
    FrameRule{"torch/distributed/fsdp/_flat_param.py", "_all_gather", kSignGather},
    FrameRule{"torch/distributed/fsdp/_flat_param.py", "_alloc_padded", kSignGather},
    FrameRule{"torch/distributed/fsdp/_flat_param.py", "=_init_", kSignLoad},
    FrameRule{"torch/distributed/fsdp/_flat_param.py", "=flatten_tensors", kSignLoad},
    FrameRule{"torch/distributed/fsdp/_flat_param.py", "=shard", kSignLoad},
    FrameRule{"torch/distributed/fsdp/_init_utils.py", "", kSignLoad},
    FrameRule{"torch/distributed/fsdp/_fully_shard/_fsdp_param.py", "_init_sharded", kSignLoad},
    FrameRule{"torch/distributed/fsdp/_runtime_utils.py", "_reduce_grad", kSignGather},
    FrameRule{"torch/distributed/fsdp/_runtime_utils.py", "_post_backward", kSignGather},
    FrameRule{"torch/distributed/fsdp/", "", kSignWrapper},
    FrameRule{"torch/distributed/distributed_c10d.py", "", kSignGather | kSignWrapper},
    FrameRule{"torch/distributed/_functional_collectives.py", "", kSignGather | kSignWrapper},
    FrameRule{"torch/nn/parallel/distributed.py", "=__init__", kSignGather},
    FrameRule{"torch/nn/parallel/", "", kSignWrapper},
    FrameRule{"torch/nn/parallel/comm.py", "broadcast_coalesced", kSignReplicate},
    FrameRule{"deepspeed/runtime/zero/partition_parameters.py", "all_gather", kSignGather},
    FrameRule{"deepspeed/runtime/zero/partition_parameters.py", "_allgather", kSignGather},
    FrameRule{"deepspeed/runtime/zero/partition_parameters.py", "", kSignLoad},
    FrameRule{"deepspeed/runtime/zero/partitioned_param_coordinator.py", "", kSignGather},
    FrameRule{"deepspeed/runtime/zero/stage3.py", "_create_fp32_partitions", kSignMaster},
    FrameRule{"deepspeed/runtime/zero/stage3.py", "_create_fp16_partitions", kSignLoad},
    FrameRule{"deepspeed/runtime/zero/stage3.py", "__reduce", kSignGather},
    FrameRule{"deepspeed/runtime/zero/stage3.py", "ipg", kSignGather},
    FrameRule{"deepspeed/runtime/zero/stage3.py", "partition_grads", kSignGradBuffer},
    FrameRule{"deepspeed/runtime/zero/stage3.py", "grad_partition", kSignGradBuffer},
    FrameRule{"deepspeed/runtime/zero/stage_1_and_2.py", "=__init__", kSignMaster},
    FrameRule{"deepspeed/runtime/zero/stage_1_and_2.py", "ipg", kSignGather},
    FrameRule{"deepspeed/runtime/zero/stage_1_and_2.py", "average_tensor", kSignGather},
    FrameRule{"deepspeed/runtime/zero/stage_1_and_2.py", "allreduce", kSignGather},
    FrameRule{"deepspeed/runtime/zero/stage_1_and_2.py", "get_flat_partition", kSignGradBuffer},
    FrameRule{"deepspeed/runtime/zero/stage_1_and_2.py", "=step", kSignStep},
    FrameRule{"deepspeed/runtime/zero/stage3.py", "=step", kSignStep},
    FrameRule{"deepspeed/runtime/bf16_optimizer.py", "_setup_for_real_optimizer", kSignMaster},
    FrameRule{"deepspeed/runtime/bf16_optimizer.py", "=step", kSignStep},
    FrameRule{"deepspeed/runtime/fp16/", "=__init__", kSignMaster},
    FrameRule{"deepspeed/runtime/fp16/", "=step", kSignStep},
    FrameRule{"deepspeed/runtime/engine.py", "_broadcast_model", kSignLoad},
    FrameRule{"deepspeed/", "", kSignWrapper},
    FrameRule{"megatron/core/optimizer/", "_build_model_and_main_param_groups", kSignMaster},
    FrameRule{"megatron/core/optimizer/optimizer.py", "=__init__", kSignMaster},
    FrameRule{"megatron/core/optimizer/", "=step", kSignStep},
    FrameRule{"megatron/core/distributed/param_and_grad_buffer.py", "=__init__", kSignGradBuffer},
    FrameRule{"megatron/core/distributed/", "", kSignWrapper},

    FrameRule{"bitsandbytes/functional.py", "dequantize", kSignDequantise},
    FrameRule{"bitsandbytes/backends/", "dequantize", kSignDequantise},
    FrameRule{"", "dequantize", kSignDequantise},
    FrameRule{"torch/nn/functional.py", "=softmax", kSignSoftmax},
    FrameRule{"", "=softmax", kSignSoftmax},
    FrameRule{"torch/nn/modules/linear.py", "=forward", kSignLinear | kSignWrapper},
    FrameRule{"torch/nn/modules/sparse.py", "", kSignWrapper},
    FrameRule{"torch/nn/modules/normalization.py", "", kSignNorm | kSignWrapper},
    FrameRule{"", "attention", kSignAttention},
    FrameRule{"", "Attention", kSignAttention},
    FrameRule{"", "sdpa", kSignAttention},
    FrameRule{"", "experts", kSignExperts},
    FrameRule{"", "moe", kSignExperts},
    FrameRule{"/moe/", "", kSignExperts},
    FrameRule{"", "MoE", kSignExperts},
    FrameRule{"", "=forward", kSignForward},
    FrameRule{"", "=training_step", kSignForward},
    FrameRule{"torch/_", "", kSignWrapper},
    FrameRule{"torch/nn/", "", kSignWrapper},
    FrameRule{"torch/utils/", "", kSignWrapper},
    FrameRule{"torch/autograd/", "", kSignWrapper},
    FrameRule{"torch/functional.py", "", kSignWrapper},
    FrameRule{"torch/amp/", "", kSignWrapper},
    FrameRule{"torch/optim/", "", kSignWrapper},
    FrameRule{"accelerate/", "", kSignWrapper},
    FrameRule{"transformers/utils/", "", kSignWrapper},
    FrameRule{"transformers/modeling_layers.py", "", kSignWrapper},
    FrameRule{"contextlib.py", "", kSignWrapper},
};

bool ends_with_one_of(std::string_view text, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [text](std::string_view end) {
    return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
  });
}

std::string_view file_of_path(std::string_view path) {
  const std::size_t slash = path.find_last_of("/\\");
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// torch.compile names its files by 50 and more letters and digits.
bool is_generated(std::string_view path) {
  const std::string_view file = file_of_path(path);
  return file.size() >= 50 && file.substr(file.size() - 3) == ".py" &&
         file.find('_') == std::string_view::npos;
}

// An optimizer of the user's own: step() of a file named for it.
bool is_own_optimizer(std::string_view path, std::string_view function) {
  if (function != "step" && function != "update") return false;
  const std::string_view file = file_of_path(path);
  for (const std::string_view word :
       {"optim", "adam", "sgd", "lion", "muon", "shampoo", "lamb", "adafactor"})
    if (file.find(word) != std::string_view::npos) return true;
  return false;
}

std::uint32_t signs_of(const RecordedFrame& frame) {
  if (!is_python_frame(frame)) {
    // C++ names of operators tell what was computed.
    std::uint32_t signs = 0;
    if (frame.name.find("softmax") != std::string::npos) signs |= kSignSoftmax;
    return signs;
  }
  std::string path = frame.file;
  std::replace(path.begin(), path.end(), '\\', '/');
  std::uint32_t signs = kPython;
  for (const FrameRule& rule : kFrameRules) {
    if (!rule.file.empty() && path.find(rule.file) == std::string::npos) continue;
    if (!rule.function.empty()) {
      const bool exact = rule.function.front() == '=';
      if (exact ? frame.name != rule.function.substr(1)
                : frame.name.find(rule.function) == std::string::npos)
        continue;
    }
    signs |= rule.signs;
  }
  if (is_generated(path)) signs |= kSignGenerated | kSignWrapper;
  if (is_own_optimizer(path, frame.name)) signs |= kSignStep;
  return signs;
}

StackRole role_of(std::uint32_t all, std::uint32_t inner, std::uint32_t outermost) {
  if ((all & kPython) == 0) return StackRole::kThread;
  if ((all & kSignMakesState) != 0) return StackRole::kOptimizerState;
  if ((all & kSignSave) != 0) return StackRole::kSave;
  if ((all & kSignEvaluation) != 0) return StackRole::kEvaluation;
  if ((all & kSignFlatten) != 0 && (inner & kSignMaster) != 0) return StackRole::kLoad;
  if ((inner & kSignMaster) != 0) return StackRole::kMaster;
  if ((inner & kSignGradBuffer) != 0) return StackRole::kGradientBuffer;
  if ((inner & kSignReplicate) != 0) return StackRole::kLoad;
  if ((all & kSignGather) != 0) return StackRole::kGather;
  if ((all & kSignStep) != 0) return StackRole::kOptimizer;
  const bool backward = (all & kSignBackward) != 0 || (outermost & kSignFunction) != 0;
  if (backward) return StackRole::kBackward;
  if ((inner & kSignLoad) != 0) return StackRole::kLoad;
  if ((inner & kSignLoss) != 0) return StackRole::kLoss;
  if ((all & kSignLoad) != 0 && (all & kSignForward) == 0) return StackRole::kLoad;
  if ((all & (kSignForward | kSignGenerated | kSignDequantise)) != 0) return StackRole::kForward;
  return StackRole::kOther;
}

}  // namespace

bool is_python_frame(const RecordedFrame& frame) {
  if (frame.file.empty() || frame.file == "??" || frame.line == 0) return false;
  return !ends_with_one_of(frame.file,
                           {".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".cuh", ".so", ".o", ".S"}) &&
         frame.name.find("::") == std::string::npos;
}

std::vector<StackOrigin> stack_origins(const MemoryHistory& history) {
  std::vector<std::uint32_t> signs;
  signs.reserve(history.frames.size());
  for (const RecordedFrame& frame : history.frames) signs.push_back(signs_of(frame));
  std::vector<StackOrigin> origins(history.stacks());
  for (std::size_t id = 1; id < origins.size(); ++id) {
    StackOrigin& origin = origins[id];
    std::uint32_t all = 0;
    std::uint32_t inner = 0;  // up to the first frame that is the owner's own
    std::uint32_t outermost = 0;
    for (const std::int32_t number : history.stack(static_cast<std::int32_t>(id))) {
      const auto index = static_cast<std::size_t>(number);
      const std::uint32_t said = signs[index];
      all |= said;
      if ((said & kPython) != 0) outermost = said;
      if (!origin.site.empty()) continue;
      inner |= said;
      if ((said & kPython) == 0 || (said & kSignWrapper) != 0) continue;
      const RecordedFrame& frame = history.frames[index];
      origin.site = fmt::format("{}:{} {}", file_of_path(frame.file), frame.line, frame.name);
    }
    origin.role = role_of(all, inner, outermost);
    origin.dequantises = (all & kSignDequantise) != 0;
    origin.softmax = (inner & kSignSoftmax) != 0;
    origin.linear = (inner & kSignLinear) != 0;
    origin.norm = (inner & kSignNorm) != 0;
    origin.attention = (all & kSignAttention) != 0;
    origin.experts = (all & kSignExperts) != 0;
    origin.generated = (all & kSignGenerated) != 0;
    origin.replicates = (inner & kSignReplicate) != 0;
    origin.reduces = (all & kSignReduce) != 0;
    origin.cache = (all & kSignCache) != 0;
  }
  return origins;
}

}  // namespace steelyard
