"""Engines whose own kernels are compiled on a device, and what they read back from there."""

import types


def of_deepspeed(_=None):
    """A byte that is read back says true, also `overflow`: a step would be skipped. The check itself runs. DeepSpeed's Adam is a
    kernel compiled on the spot (csrc/adam/multi_tensor_adam.cu) that allocates nothing; on paper it need not run either."""
    from deepspeed.ops.adam import fused_adam
    fused_adam.FusedAdamBuilder.load = lambda self, *a: types.SimpleNamespace(multi_tensor_adam=lambda *a: None)
    from deepspeed.runtime import bf16_optimizer, utils
    from deepspeed.runtime.fp16 import fused_optimizer, unfused_optimizer
    from deepspeed.runtime.zero import stage3, stage_1_and_2

    def looked_at(run):
        def looked(*args, **named):
            run(*args, **named)
            return False
        return looked

    for kind in (stage_1_and_2.DeepSpeedZeroOptimizer, stage3.DeepSpeedZeroOptimizer_Stage3, utils.CheckOverflow):
        kind.has_overflow = looked_at(kind.has_overflow)
    invalid = looked_at(utils.is_invalid_grad_norm)
    for module in (bf16_optimizer, utils, fused_optimizer, unfused_optimizer, stage3, stage_1_and_2):
        if hasattr(module, "is_invalid_grad_norm"):
            module.is_invalid_grad_norm = invalid


def of_megatron(torch_norm):
    """PyTorch's norm, which Megatron-core takes where neither Apex nor Transformer Engine is there, refuses sequence parallelism: here
    it says whose gradients are summed, as Apex's does."""
    import torch

    class WrappedTorchNorm:
        def __new__(cls, config, hidden_size, eps=1e-5, *_, **__):
            kind = torch.nn.RMSNorm if config.normalization == "RMSNorm" else torch.nn.LayerNorm
            norm = kind(hidden_size, eps=eps, dtype=config.params_dtype)
            for parameter in norm.parameters():
                parameter.sequence_parallel = config.sequence_parallel
            return norm

    torch_norm.WrappedTorchNorm = WrappedTorchNorm


def of_megatron_loop(training):
    """Megatron-LM's rank 0 tells the others over the device whether there is data, and reads its own word back from there."""
    build = training.build_train_valid_test_data_loaders

    def built(*words, **named):
        loaders = build(*words, **named)
        training.get_args().do_train = True
        return loaders

    training.build_train_valid_test_data_loaders = built
