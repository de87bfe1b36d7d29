"""Two steps with the lines of Python that `export fsdp2` writes (setup_fsdp2.py beside this program's folder)."""

import os
import sys

import torch

torch.Tensor.pin_memory = lambda self, *_, **__: self  # pinned memory is a driver's
torch.distributed.init_process_group("gloo")
sys.path.insert(0, os.getcwd())
import setup_fsdp2 as setup  # noqa: E402

for parameter in setup.model.parameters():
    torch.nn.init.normal_(parameter.to_local(), std=0.02)
with torch.no_grad():
    for name, buffer in setup.model.named_buffers():
        # to_empty leaves them unwritten; a real run loads or computes them.
        buffer.copy_(torch.ones_like(buffer) if "inv_freq" in name else torch.zeros_like(buffer))
before = [parameter.to_local().detach().clone() for parameter in setup.model.parameters()]
for _ in range(2):
    setup.step([torch.randint(0, setup.config.vocab_size, (setup.MICRO_BATCH, setup.SEQUENCE_LENGTH))
                for _ in range(setup.GRADIENT_ACCUMULATION)])
moved = any((old != new.to_local()).any() for old, new in zip(before, setup.model.parameters()))
if torch.distributed.get_rank() == 0:
    kinds = [kind.__name__ for kind in type(setup.model).__mro__]
    print(f"TRAINED steps=2 moved={moved} processes={torch.distributed.get_world_size()} kinds={','.join(kinds)}", flush=True)
torch.distributed.destroy_process_group()
