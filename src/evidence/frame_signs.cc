#include "evidence/frame_signs.h"

#include <algorithm>
#include <array>
#include <string>

#include "evidence/stack_origin.h"

namespace steelyard {
namespace {

struct FrameRule {
  std::string_view file;      // a part of the path; empty: any
  std::string_view function;  // a part of the name; empty: any; "=x": exactly x
  std::uint32_t signs;
};

constexpr std::array kFrameRules = {
    FrameRule{"", "=_flatten_dense_tensors", kSignFlatten},
    FrameRule{"torch/distributed/fsdp/", "foreach_reduce", kSignReduce},
    FrameRule{"torch/distributed/fsdp/", "_reduce_grad", kSignReduce},
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
    FrameRule{"torch/utils/checkpoint.py", "", kSignWrapper | kSignRecompute},
    FrameRule{"/activation_checkpointing/", "", kSignWrapper | kSignRecompute},
    FrameRule{"checkpoint_wrapper.py", "", kSignWrapper | kSignRecompute},
    FrameRule{"", "_checkpointed_forward", kSignRecompute},
    FrameRule{"megatron/core/tensor_parallel/random.py", "", kSignRecompute},
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
    FrameRule{"", "load_checkpoint", kSignLoad},
    FrameRule{"", "=build_model", kSignLoad},
    FrameRule{"", "=create_model", kSignLoad},
    FrameRule{"", "=get_model", kSignLoad},
    FrameRule{"", "=setup_model", kSignLoad},
    FrameRule{"", "=init_model", kSignLoad},
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
    FrameRule{"", "=state_dict", kSignSave},
    FrameRule{"", "=full_tensor", kSignSave},
    FrameRule{"torch/distributed/fsdp/", "summon_full_params", kSignSave},
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
    FrameRule{"", "=validation", kSignEvaluation},
    FrameRule{"", "validation_loop", kSignEvaluation},
    FrameRule{"", "=eval_step", kSignEvaluation},
    FrameRule{"", "=eval_epoch", kSignEvaluation},
    FrameRule{"", "=val_step", kSignEvaluation},
    FrameRule{"", "perplexity", kSignEvaluation},
    FrameRule{"", "=predict", kSignEvaluation},
    FrameRule{"torch/utils/_contextlib.py", "=decorate_context", kSignNoGraph},
    FrameRule{"", "closure", kSignClosure},
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
    FrameRule{"torch/nn/parallel/distributed.py", "=__init__", kSignGather | kSignBucket},
    // DDP makes its buckets anew before the second forward.
    FrameRule{"torch/nn/parallel/distributed.py", "=_pre_forward", kSignGather},
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
    FrameRule{"", "sdpa", kSignAttention | kSignFused},
    FrameRule{"", "scaled_dot_product_attention", kSignFused},
    FrameRule{"flash_attn", "", kSignFused},
    FrameRule{"", "flash_attention", kSignFused},
    FrameRule{"", "eager_attention", kSignEager},
    FrameRule{"", "=_attn", kSignEager},
    FrameRule{"megatron/core/transformer/dot_product_attention.py", "", kSignEager},
    FrameRule{"peft/tuners/", "", kSignAdapter},
    FrameRule{"", "lora", kSignAdapter},
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

}  // namespace

std::string_view file_of_path(std::string_view path) {
  const std::size_t slash = path.find_last_of("/\\");
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
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

}  // namespace steelyard
