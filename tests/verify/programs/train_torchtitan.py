"""torchtitan's own trainer on the CPU: `python -m torchtitan.train` with the words that were exported.

Its device is asked of PyTorch, which answers with the CPU here; torch.cpu lacks the figures of memory that it logs. gloo has no
product before the sum: PyTorch's own switch for such backends divides afterwards.
"""

import types

import torch
import torch._utils

torch._utils._get_available_device_type = lambda: "cpu"
torch.cpu.get_device_name = lambda *_: "CPU"
torch.cpu.get_device_properties = lambda *_: types.SimpleNamespace(total_memory=1 << 40)
torch.cpu.memory_stats = lambda *_: {}
torch.cpu.reset_peak_memory_stats = torch.cpu.empty_cache = lambda *_: None

from torch.distributed.fsdp import FSDPModule  # noqa: E402

set_factor = FSDPModule.set_gradient_divide_factor
barrier = torch.distributed.barrier


def divide_afterwards(self, factor):
    set_factor(self, factor)
    self.set_force_sum_reduction_for_comms(True)


FSDPModule.set_gradient_divide_factor = divide_afterwards
torch.distributed.barrier = lambda group=None, async_op=False, device_ids=None: barrier(group, async_op)

from torchtitan.config import ConfigManager  # noqa: E402
from torchtitan.tools.logging import init_logger  # noqa: E402
from torchtitan.train import Trainer  # noqa: E402


def shards(trainer):
    return [(p.to_local() if hasattr(p, "to_local") else p).detach().clone()
            for part in trainer.model_parts for p in part.parameters()]


init_logger()
trainer = Trainer(ConfigManager().parse_args())
before = shards(trainer)
trainer.train()
moved = any((old != new).any() for old, new in zip(before, shards(trainer)))
if torch.distributed.get_rank() == 0:
    kinds = [kind.__name__ for kind in type(trainer.model_parts[0]).__mro__]
    print(f"TRAINED steps={trainer.step} moved={moved} processes={torch.distributed.get_world_size()} "
          f"kinds={','.join(kinds)}", flush=True)
trainer.close()
torch.distributed.destroy_process_group()
