"""What is answered in place of ranks that are never started and kernels that are not run. Engines are not changed otherwise."""

import os
import sys
import types

import torch


def answer(ranks):
    of_processes(ranks)
    of_weights()
    of_attention()
    if sys.version_info < (3, 12):  # Megatron-LM's code is for 3.12; this is all that it asks of it
        import typing
        import typing_extensions
        typing.override = typing_extensions.override
    when_imported("deepspeed", of_deepspeed)
    when_imported("megatron.core.transformer.torch_norm", of_megatron)
    when_imported("megatron.training.training", of_megatron_loop)


def of_processes(ranks):
    """A store that this process alone writes to (rank 0 waits for none of what the others write); objects that they would send are
    what this one sends; groups of the CPU (gloo) are of this process alone; DDP's comparison of shapes is skipped."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    class OnTheCpu(c10d.ProcessGroupGloo):
        """Gloo's own, alone."""

        def __init__(self, store, rank, size, *timeout, **_):
            super().__init__(dist.HashStore(), 0, 1, *timeout)

    c10d.ProcessGroupGloo = OnTheCpu
    begin = c10d.init_process_group

    def init_process_group(backend=None, *_, **named):
        kept = {name: named[name] for name in ("timeout", "group_name", "pg_options", "device_id") if name in named}
        return begin(backend=backend, store=dist.HashStore(), rank=int(os.environ["RANK"]), world_size=ranks, **kept)

    import torch.nn.parallel.distributed as of_ddp

    of_ddp._verify_param_shape_across_processes = lambda *_, **__: True

    def all_gather_object(found, mine, group=None, **_):
        found[:] = [mine] * len(found)

    def gather_object(mine, found=None, *_, **__):
        if found is not None:
            found[:] = [mine] * len(found)

    def scatter_object_list(into, given, *_, **__):
        into[0] = given[0]

    for name, function in {"init_process_group": init_process_group, "all_gather_object": all_gather_object,
                           "gather_object": gather_object, "scatter_object_list": scatter_object_list,
                           "broadcast_object_list": lambda *_, **__: None, "monitored_barrier": lambda *_, **__: None,
                           "barrier": lambda *_, **__: None}.items():
        setattr(c10d, name, function)
        setattr(dist, name, function)


def of_weights():
    """Values count for nothing on paper: weights are drawn nowhere, so that a large model's pages on the host are never touched."""
    for name in ("normal_", "uniform_", "trunc_normal_", "kaiming_uniform_", "xavier_uniform_", "xavier_normal_", "kaiming_normal_"):
        setattr(torch.nn.init, name, lambda tensor, *_, **__: tensor)


def of_attention():
    """cuDNN is not there on paper: whoever asks for its attention gets the next kernel of PyTorch's list, flash attention, which keeps
    the same tensors."""
    allow = torch._C._set_sdp_use_cudnn
    torch._C._set_sdp_use_cudnn = lambda wanted: allow(False)
    allow(False)


def when_imported(package, run):
    """Runs once the package has been imported."""
    if package in sys.modules:
        return run()
    import importlib.abc
    import importlib.machinery

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name != package:
                return None
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            if spec is None:
                return None
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                run()
            spec.loader.exec_module = exec_module  # others ask for the spec alone, to see whether it is there
            return spec

    sys.meta_path.insert(0, Finder())


def of_deepspeed():
    import zero
    zero.answer_on_paper()


def of_megatron():
    """PyTorch's norm, which Megatron-core takes where neither Apex nor Transformer Engine is there, refuses sequence parallelism: here
    it says whose gradients are summed, as Apex's does."""
    from megatron.core.transformer import torch_norm

    class WrappedTorchNorm:
        def __new__(cls, config, hidden_size, eps=1e-5, *_, **__):
            kind = torch.nn.RMSNorm if config.normalization == "RMSNorm" else torch.nn.LayerNorm
            norm = kind(hidden_size, eps=eps, dtype=config.params_dtype)
            for parameter in norm.parameters():
                parameter.sequence_parallel = config.sequence_parallel
            return norm

    torch_norm.WrappedTorchNorm = WrappedTorchNorm


def of_megatron_loop():
    """Megatron-LM's rank 0 tells the others over the device whether there is data, and reads its own word back from there."""
    from megatron.training import training

    build = training.build_train_valid_test_data_loaders

    def built(*words, **named):
        loaders = build(*words, **named)
        training.get_args().do_train = True
        return loaders

    training.build_train_valid_test_data_loaders = built
