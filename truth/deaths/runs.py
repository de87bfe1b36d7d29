"""One run in a process of its own: on a device without end, watched or measured, or on the one it dies on.

    forked(lambda: needed(kind, run, False, seed), words)      what it returned; None where it did not

Every run is forked from a process that has imported PyTorch and has not touched the device: `prepare`.
"""

import ctypes
import gc
import os
import pickle
import random
import signal
import sys
import tempfile
import time
import traceback
import types
from pathlib import Path

MIB = 2**20
ENDLESS = 4 * 10**12
CONTEXT, COMMUNICATOR = 500 * MIB, 64 * MIB


def prepare():
    from recorder import paper
    paper.load(processes=True)
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", DS_ACCELERATOR="cuda", TORCHDYNAMO_DISABLE="1",
                      TRANSFORMERS_VERBOSITY="error")
    import torch
    from campaign import no_device_in_sight
    with no_device_in_sight():
        import torch.distributed.fsdp
        import torch.distributed.pipelining
        import torch.distributed.tensor.parallel
        import training  # noqa: F401
        import transformers.models.llama.modeling_llama
        import transformers.models.gpt2.modeling_gpt2
        import transformers.models.qwen3.modeling_qwen3  # noqa: F401
        import deepspeed
        import deaths.kinds
    assert not torch.cuda.is_initialized()
    gc.collect()
    gc.freeze()  # DeepSpeed collects at each of its lines: what was imported is not looked at again
    return deaths.kinds.KINDS


def forked(work, words, limit=120):
    """What `work` returned in a process of its own, whose words are in the file `words`; None where it did not return."""
    answer = tempfile.NamedTemporaryFile(delete=False)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        file = os.open(words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        failed = 1
        try:
            found = work()
            with open(answer.name, "wb") as out:
                pickle.dump(found, out)
            failed = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(failed)
    begun = time.time()
    while time.time() - begun < limit:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.02)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        status = 1
    try:
        return pickle.loads(Path(answer.name).read_bytes()) if status == 0 else None
    finally:
        os.unlink(answer.name)


def started(kind, run, capacity, seed):
    """The device and the generators of a run."""
    import torch
    single = run["cluster"]["devices"] == 1
    os.environ.update(PAPER_DEVICE_BYTES=str(capacity), PAPER_CONTEXT_BYTES=str(CONTEXT),
                      PAPER_COMMUNICATOR_BYTES=str(0 if single else COMMUNICATOR))
    os.environ.update({name: str(value) for name, value in kind.environment.items()})
    torch.manual_seed(seed)
    random.seed(seed)
    import deepspeed
    deepspeed.logger.setLevel("INFO" if kind.log == "engine" else "ERROR")
    deepspeed.logger.setLevel = lambda level: None
    import zero
    config = zero.config_of_engine
    zero.config_of_engine = lambda run: {**config(run), "memory_breakdown": True, "steps_per_print": 1}
    import deepspeed.runtime.utils
    deepspeed.runtime.utils.gc = types.SimpleNamespace(collect=lambda *words: 0)  # at each line; what is followed would be walked, too
    if "_allocator" in run:
        torch.cuda.memory._set_allocator_settings(run["_allocator"])


def watched(kind, run, wrong, seed):
    """Every allocation of the run on a device without end."""
    import torch
    from deaths.classes import name_all, sizes_of
    from deaths.life import Watched
    from deaths.log import LOGS
    started(kind, run, ENDLESS, seed)
    life = Watched(kind.steps, LOGS[kind.log](run))
    kind.live(life, run, wrong)
    life.finish()
    name_all(life, sizes_of(life))
    if kind.marked:
        kind.marked(life)
    return {"phases": [(p.step, p.name, p.span.peak) for p in life.phases],
            "storages": [(s.requested, s.pile) for s in life.storages], "unknown": life.history.unknown_frees,
            "outside": outside()}


def needed(kind, run, wrong, seed, capacity=ENDLESS):
    """What the run makes the allocator reserve, and what the process takes beside it."""
    import torch
    from deaths.life import Life
    from deaths.log import LOGS, report_of
    started(kind, run, capacity, seed)
    kind.live(Life(kind.steps, LOGS[kind.log](run)), run, wrong)
    return {"reserved": torch.cuda.memory_stats()["reserved_bytes.all.peak"], "outside": outside(),
            "allocated": torch.cuda.memory_stats()["allocated_bytes.all.peak"], "report": report_of(run.get("_stage", 0), 2)}


def outside():
    from recorder import paper
    import torch
    own, other = paper.load().paper_own_process_bytes, paper.load().paper_other_process_bytes
    own.restype = other.restype = ctypes.c_size_t
    return own() + other() - torch.cuda.memory_reserved()


def died(kind, run, capacity, seed, folder):
    """The death: its text, its snapshot, and where it was."""
    import torch
    from deaths.life import Life
    from deaths.log import LOGS
    started(kind, run, capacity, seed)
    torch.cuda.init()
    torch.cuda.memory._record_memory_history("all", context="all", stacks="python")
    life = Life(kind.steps, LOGS[kind.log](run))
    snapshot = folder / "snapshot.pickle"

    def observe(device, size, total, free):
        if life.death is None:
            life.death = {"step": life.step, "phase": life.name, "tried": size, "free": free,
                          "allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved()}
            if kind.observer:
                torch.cuda.memory._dump_snapshot(str(snapshot))

    torch._C._cuda_attach_out_of_memory_observer(observe)
    failure = ""
    try:
        kind.live(life, run, True)
    except BaseException as error:
        failure = printed(error, run)
        if not snapshot.exists():
            torch.cuda.memory._dump_snapshot(str(snapshot))
    if not failure:
        torch.cuda.memory._dump_snapshot(str(snapshot))
    sys.stdout.flush()
    print(failure, end="", file=sys.stderr, flush=True)
    return {"death": life.death, "failure": failure, "outside": outside()}


def printed(error, run):
    """As Python prints it, or PyTorch for one of several ranks."""
    text = "".join(traceback.format_exception(error))
    if run["cluster"]["devices"] == 1:
        return text
    return "".join(f"[rank0]: {line}\n" for line in text.splitlines())


def lived(kind, run, seed, folder):
    """A run that ends without a failure of memory: its words, and a snapshot of its end."""
    import torch
    from deaths.life import Life
    from deaths.log import LOGS
    started(kind, run, ENDLESS if run.get("_capacity") is None else run["_capacity"], seed)
    torch.cuda.init()
    torch.cuda.memory._record_memory_history("all", context="all", stacks="python")
    failure = ""
    try:
        kind.live(Life(kind.steps, LOGS[kind.log](run)), run, True)
    except BaseException as error:
        failure = printed(error, run)
    torch.cuda.memory._dump_snapshot(str(folder / "snapshot.pickle"))
    sys.stdout.flush()
    print(failure, end="", file=sys.stderr, flush=True)
    return {"failure": failure, "reserved": torch.cuda.memory_stats()["reserved_bytes.all.peak"], "outside": outside()}
