"""Deaths of what is outside PyTorch's allocator, of the host, and runs that do not die of memory."""

import os

import torch
import training
from deaths.kind import gpt2, kind, llama, qwen3, run_of, train
from training import value

MIB = 2**20
GIB = 2**30


def usual(shape, **run):
    def draw(random):
        length = random.choice((512, 1024))
        made = run_of(shape(random, vocabulary=(8000, 16000), layers=(4, 8)), length, random.choice((1, 2, 4)), **run)
        return {**made, "_outside": random.randint(1500, 5000) * MIB, "_groups": random.randint(24, 48)}
    return draw


# ---- outside the allocator ---------------------------------------------------------------------------------------------------

def many_groups(life, run, wrong):
    """A communicator for every small group: each takes its buffers of the device when it is first used."""
    if wrong:
        import ranks
        join = ranks.join

        def joined(*words):
            dist = join(*words)
            x = torch.zeros(1, device="cuda")
            for _ in range(run["_groups"]):
                dist.all_reduce(x, group=dist.new_group(list(range(dist.get_world_size()))))
            return dist
        import data_parallel
        data_parallel.join = joined
        import zero
        zero.join = joined
    train(life, run, wrong)


def another_library(life, run, wrong):
    """Another library of the process (an inference engine, a renderer) takes memory of the device with cudaMalloc."""
    if wrong:
        import ctypes
        from recorder import paper
        address = ctypes.c_void_p()
        paper.load().cudaMalloc(ctypes.byref(address), ctypes.c_size_t(run["_outside"]))
    train(life, run, wrong)


def another_process(life, run, wrong):
    if wrong:
        os.environ.update(PAPER_OTHER_PROCESS_BYTES=str(run["_outside"]), PAPER_OTHER_PROCESS=str(3000 + run["_groups"]))
    train(life, run, wrong)


OUTSIDE = dict(share=(0.2, 0.9))
kind("outside-groups-ddp", "nccl_or_context", usual(llama, devices=8), live=many_groups, **OUTSIDE)
kind("outside-groups-fsdp2", "nccl_or_context", usual(llama, devices=64, engine="fsdp2"), live=many_groups, **OUTSIDE, log="torchtitan")
kind("outside-library", "nccl_or_context", usual(gpt2), live=another_library, **OUTSIDE)
kind("outside-library-zero", "nccl_or_context", usual(qwen3, devices=8, engine="deepspeed", parallel__zero_stage=1, buckets__reduce=50_000_000,
                                                      buckets__gather=50_000_000), live=another_library, **OUTSIDE, log="engine")
kind("other-process-llama", "other_process", usual(llama), live=another_process, **OUTSIDE)
kind("other-process-ddp", "other_process", usual(gpt2, devices=8), live=another_process, **OUTSIDE)
kind("other-process-fsdp2", "other_process", usual(qwen3, devices=8, engine="fsdp2"), live=another_process, **OUTSIDE, log="torchtitan")
kind("other-process-fsdp1", "other_process", usual(llama, devices=2, engine="fsdp1"), live=another_process, **OUTSIDE, observer=False)


# ---- the host ----------------------------------------------------------------------------------------------------------------

def killed_worker(life, run, wrong):
    """The kernel kills a worker of the DataLoader."""
    import signal
    from torch.utils.data import DataLoader, Dataset

    class Tokens(Dataset):
        def __len__(self):
            return 1000

        def __getitem__(self, index):
            if index >= 6:
                os.kill(os.getpid(), signal.SIGKILL)
            return torch.zeros(value(run, "training.sequence_length"), dtype=torch.int64)
    batches = iter(DataLoader(Tokens(), batch_size=2, num_workers=1, multiprocessing_context="fork"))
    make = training.batch

    def batch(run, config):
        ids = next(batches).to("cuda")
        return ids, ids.clone()
    del make
    training.batch = batch
    train(life, run, wrong)


def host_is_full(life, run, wrong):
    """The host's memory is bounded, and a table of the data set does not fit."""
    import resource
    make = training.batch

    def batch(run, config):
        if life.step == 2:
            used = int(open("/proc/self/statm").read().split()[0]) * 4096
            resource.setrlimit(resource.RLIMIT_AS, (used + GIB, used + GIB))
            torch.empty(run["_outside"], dtype=torch.float32)
        return make(run, config)
    training.batch = batch
    train(life, run, wrong)


kind("host-worker", "host_memory", usual(llama), live=killed_worker, ends="other", steps=8)
kind("host-table", "host_memory", usual(gpt2), live=host_is_full, ends="other", steps=4)


# ---- no death of memory ------------------------------------------------------------------------------------------------------

def of_another_shape(life, run, wrong):
    make = training.batch

    def batch(run, config):
        ids, labels = make(run, config)
        return (ids, labels) if life.step < 3 else (ids, labels[:, :-1])
    training.batch = batch
    train(life, run, wrong)


def not_a_number(life, run, wrong):
    from training import loss_of

    def step(model, ids, labels):
        loss = loss_of(model, ids, labels)
        if life.step == 4:
            raise FloatingPointError(f"loss is nan at step {life.step}")
        return loss
    training.loss_of = step
    train(life, run, wrong)


for name, shape, run in (("llama", llama, {}), ("gpt2-ddp", gpt2, {"devices": 8}), ("qwen3-fsdp2", qwen3, {"devices": 8, "engine": "fsdp2"}),
                         ("llama-zero2", llama, {"devices": 8, "engine": "deepspeed", "parallel__zero_stage": 2, "buckets__reduce": 50_000_000,
                                                 "buckets__gather": 50_000_000})):
    kind(f"healthy-{name}", "healthy", usual(shape, **run), ends="lives", steps=5, log="engine" if "zero" in name else "plain")
kind("other-shape", "not_memory", usual(gpt2), live=of_another_shape, ends="other", steps=5)
kind("other-nan", "not_memory", usual(llama), live=not_a_number, ends="other", steps=6, log="trainer")
