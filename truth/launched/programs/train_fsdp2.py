"""The `train.py` that a user brings to the lines of Python that `export fsdp2` writes."""

import torch

torch.distributed.init_process_group("nccl")
torch.cuda.set_device(0)
import setup_fsdp2 as setup  # noqa: E402

for _ in range(4):
    setup.step([torch.zeros((setup.MICRO_BATCH, setup.SEQUENCE_LENGTH), dtype=torch.long, device="cuda")
                for _ in range(setup.GRADIENT_ACCUMULATION)])
