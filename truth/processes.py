"""Small real runs of several processes on CPUs: processes.py [--processes N]

PyTorch's DDP, FSDP2 and pipelining over gloo, with data, on a model of two layers. No device memory is counted here. It says what one
rank on paper cannot:

    loss          every engine computes the loss and the gradients of one process that sees the whole batch
    collectives   what a rank sends and how much: the same on every rank, and as counted by hand (tests/test_processes.py)
    shards        what each rank holds; together they are the model
"""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

MODEL = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 96, "vocab_size": 128, "max_position_embeddings": 64, "tie_word_embeddings": False}
SEQUENCE, SEQUENCES = 16, 4


def build():
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(7)
    return LlamaForCausalLM(LlamaConfig(**{k: v for k, v in MODEL.items() if k != "model_type"}, use_cache=False))


def tokens():
    return torch.randint(0, MODEL["vocab_size"], (SEQUENCES, SEQUENCE), generator=torch.Generator().manual_seed(11))


class Collectives(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts (operator, bytes of its largest tensor)."""

    def __init__(self):
        super().__init__()
        self.seen = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "c10d" and "barrier" not in str(func):
            tensors = [t for t in torch.utils._pytree.tree_leaves(args) if isinstance(t, torch.Tensor)]
            self.seen[func._schema.name.removeprefix("c10d::"), max((t.nbytes for t in tensors), default=0)] += 1
        return func(*args, **(kwargs or {}))


def step(model, ids):
    """One training step's loss; gradients stay."""
    with Collectives() as collectives:
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
    return loss.item(), [[*key, count] for key, count in sorted(collectives.seen.items())]


def norm_of_gradients(parameters):
    squares = [p.grad.full_tensor().square().sum() if hasattr(p.grad, "full_tensor") else p.grad.square().sum() for p in parameters]
    return torch.stack(squares).sum().sqrt().item()


def of_one_process():
    model = build()
    loss, _ = step(model, tokens())
    return {"loss": loss, "norm": norm_of_gradients(model.parameters())}


def of_ddp(rank, ranks):
    model = torch.nn.parallel.DistributedDataParallel(build())
    return finished(model, *step(model, tokens().chunk(ranks)[rank]))


def of_fsdp2(rank, ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh, model = init_device_mesh("cpu", (ranks,)), build()
    for unit in (*model.model.layers, model):
        fully_shard(unit, mesh=mesh)
    return finished(model, *step(model, tokens().chunk(ranks)[rank]))


def finished(model, loss, collectives):
    mean = torch.tensor(loss)
    torch.distributed.all_reduce(mean)
    local = [getattr(p, "_local_tensor", p) for p in model.parameters()]
    return {"loss": mean.item() / torch.distributed.get_world_size(), "norm": norm_of_gradients(list(model.parameters())),
            "collectives": collectives, "elements": sum(p.numel() for p in local)}


def of_pipeline(rank, ranks):
    from pipeline_parallel import Stage
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    whole = build()
    count = MODEL["num_hidden_layers"] // ranks
    model = Stage(whole, rank == 0, rank == ranks - 1, range(rank * count, (rank + 1) * count))
    stage = PipelineStage(model, rank, ranks, torch.device("cpu"))

    def loss(output, target):
        return torch.nn.functional.cross_entropy(output[:, :-1].flatten(0, 1).float(), target[:, 1:].flatten())

    losses, ids = [], tokens()
    Schedule1F1B(stage, SEQUENCES, loss_fn=loss).step(
        *([ids] if rank == 0 else []), **({"target": ids, "losses": losses} if rank == ranks - 1 else {}))
    squares = torch.stack([p.grad.square().sum() for p in model.parameters()]).sum()
    mean = torch.stack([x.detach() for x in losses]).mean() if losses else torch.zeros(())
    for tensor in (squares, mean):
        torch.distributed.all_reduce(tensor)
    return {"loss": mean.item(), "norm": squares.sqrt().item(), "elements": sum(p.numel() for p in model.parameters())}


ENGINES = {"ddp": of_ddp, "fsdp2": of_fsdp2, "pipeline": of_pipeline}


def of_rank(rank, ranks, engine, folder):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="localhost", RANK=str(rank), WORLD_SIZE=str(ranks))
    store = torch.distributed.FileStore(f"{folder}/store-{engine}", ranks)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    (Path(folder) / f"{engine}-{rank}.json").write_text(json.dumps(ENGINES[engine](rank, ranks)))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def run(engine, ranks):
    """What each rank reports."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(of_rank, (ranks, engine, folder), nprocs=ranks, start_method="fork")
        return [json.loads((Path(folder) / f"{engine}-{rank}.json").read_text()) for rank in range(ranks)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    ranks = parser.parse_args().processes
    torch.set_num_threads(1)  # and what follows is imported once, before the processes part
    import pipeline_parallel  # noqa: F401
    from torch.distributed import fsdp, pipelining  # noqa: F401
    print(json.dumps({"one process": of_one_process()}))
    for engine in ENGINES:
        if engine != "pipeline" or MODEL["num_hidden_layers"] % ranks == 0:
            for rank, report in enumerate(run(engine, ranks)):
                print(json.dumps({"engine": engine, "rank": rank, **report}))


if __name__ == "__main__":
    main()
