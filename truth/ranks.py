"""One process as one rank of many: the others are never started, on paper collectives return at once."""

import torch
from training import value


def join(ranks, rank=0):
    """A process group of any size with the real NCCL backend; on paper over a NCCL that sends nothing."""
    import os
    import torch.distributed as dist
    os.environ.setdefault("TORCH_NCCL_ENABLE_MONITORING", "0")
    os.environ.update(LOCAL_RANK="0", RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", store=answering_store() if rank else dist.HashStore(), rank=rank, world_size=ranks)
    return dist


def answering_store():
    """A store in which the other ranks have already written what this one waits for."""
    import torch.distributed as dist
    from recorder import paper
    return paper.rehearsal("ranks").answering_store(dist, dist.distributed_c10d)


def fsdp_policy(run, policy):
    return {
        "fp8-tensorwise": policy(torch.bfloat16, torch.bfloat16),
        "fp8-rowwise": policy(torch.bfloat16, torch.bfloat16),
        "bf16-mixed": policy(torch.bfloat16, torch.bfloat16),
        "bf16-mixed-fp32-gradients": policy(torch.bfloat16, torch.float32),
        "fp32": policy(),
        "bf16-pure": policy(),
    }[value(run, "training.precision")]


def shard(run, model, layers, how, embedding, norm, head):
    """fully_shard on every layer, then on the model; or with the ends as groups of their own, as Accelerate (1.14) and torchtitan
    (0.2) have it: the embedding, and the last norm with the head, which stays gathered after forward."""
    from torch.distributed.fsdp import fully_shard
    for layer in layers:
        fully_shard(layer, **how)
    if value(run, "wrap.ends", "root") == "root":
        return fully_shard(model, **how)
    always = value(run, "parallel.reshard_after_forward") == "always"
    tied = embedding is not None and head is not None and embedding.weight is head.weight
    if embedding is not None and not tied:
        fully_shard(embedding, **how)
    if head is not None:
        fully_shard([norm, embedding, head] if tied else [norm, head], **{**how, "reshard_after_forward": always})
    fully_shard(model, **{name: given for name, given in how.items() if name != "reshard_after_forward"})
