"""Megatron-core says "cuda" itself; here its calls are answered with the CPU. Nothing of what it computes is replaced."""

import contextlib
import types
import typing
import unittest.mock

import torch
import typing_extensions
from torch.overrides import TorchFunctionMode

typing.override = typing_extensions.override  # before Python 3.12
CPU = torch.device("cpu")


class OnTheCpu(TorchFunctionMode):
    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "cuda" in str(kwargs.get("device", "")):
            kwargs["device"] = CPU
        args = tuple(CPU if isinstance(word, str) and word.startswith("cuda") else word for word in args)
        return function(*args, **kwargs)


OnTheCpu().__enter__()
nothing = unittest.mock.MagicMock
type_of = torch.Tensor.type
cuda = torch.cuda
cuda.current_device = lambda: CPU
cuda.set_device = cuda.synchronize = lambda *_: None
cuda.get_device_capability = lambda *_: (9, 0)
cuda.get_device_properties = lambda *_: types.SimpleNamespace(major=9, minor=0, total_memory=80 << 30, name="CPU",
                                                              multi_processor_count=132)
cuda.get_rng_state = lambda *_, **__: torch.get_rng_state()
cuda.set_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
cuda.manual_seed = torch.manual_seed
cuda.current_stream = cuda.default_stream = cuda.Stream = cuda.Event = lambda *_, **__: nothing()
cuda.stream = lambda *_: contextlib.nullcontext()
cuda.memory_allocated = cuda.max_memory_allocated = lambda *_: 0
cuda.nvtx = nothing()
for name in ("FloatTensor", "HalfTensor", "BFloat16Tensor", "IntTensor", "LongTensor"):
    setattr(cuda, name, getattr(torch, name))
torch.Tensor.type = lambda self, *a, **k: type_of(self, *a, **k) if a or k else "torch.cuda." + type_of(self).rpartition(".")[2]
torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *_, **__: self

from megatron.core.tensor_parallel import random  # noqa: E402

random._get_cuda_rng_state = lambda *_, **__: torch.get_rng_state()
random._set_cuda_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
