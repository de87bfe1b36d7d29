"""Accelerate divides parameters (FSDP) on accelerators only; here its choice of device and backend is answered with the CPU
and gloo, as if the CPU were one. Everything behind that choice is its own."""

import torch
import transformers.training_args
from accelerate import state
from accelerate.utils import DistributedType

state.PartialState._prepare_backend = lambda self, *_, **__: ("gloo", DistributedType.MULTI_GPU)
state.PartialState.set_device = lambda self: setattr(self, "device", torch.device("cpu"))
state.PartialState.default_device = property(lambda self: torch.device("cpu"))
transformers.training_args.is_torch_bf16_gpu_available = lambda: True
torch.Tensor.pin_memory = lambda self, *_, **__: self  # pinned memory is a driver's
