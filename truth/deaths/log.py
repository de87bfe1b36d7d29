"""The lines that a run prints while it lives, in the manner of the framework it stands for. Sizes are PyTorch's own; the clock is a
made one, so that a death is the same each time."""

import datetime

import torch

GIB, MIB = 2**30, 2**20
BEGUN = datetime.datetime(2026, 1, 15, 9, 30, 0)
SECONDS = 1.37  # of a step


class Log:
    """A plain script's line. Printed: the script's output is the log."""
    total = 1000

    def __init__(self, run, rank=0):
        self.run, self.rank = run, rank
        self.tokens = None

    def now(self, step):
        return BEGUN + datetime.timedelta(seconds=SECONDS * step)

    def say(self, text):
        print(text, flush=True)

    def before(self, step, phase):
        pass

    def after(self, step, phase):
        pass

    def loaded(self):
        self.say(f"model loaded, {torch.cuda.memory_allocated() / GIB:.2f} GiB allocated")

    def begins(self, step):
        pass

    def length(self):
        """Tokens of the batch, where the script says it."""
        return f" | tokens {self.tokens}" if self.tokens else ""

    def step(self, step):
        self.say(f"{self.now(step):%Y-%m-%d %H:%M:%S} step {step}/{self.total} | loss 0.0000 | lr 1.0e-04{self.length()} | "
                 f"allocated {torch.cuda.memory_allocated() / GIB:.2f} GiB, peak {torch.cuda.max_memory_allocated() / GIB:.2f} GiB")
        torch.cuda.reset_peak_memory_stats()


class Trainer(Log):
    """Hugging Face's Trainer: no word of memory."""

    def loaded(self):
        self.say("***** Running training *****")
        self.say(f"  Total optimization steps = {self.total:,}")

    def step(self, step):
        self.say(str({"loss": 0.0, "grad_norm": 0.0, "learning_rate": 0.0001, "epoch": round(step / self.total, 2)}))


class Torchtitan(Log):
    def loaded(self):
        capacity = torch.cuda.get_device_properties(0).total_memory
        used = torch.cuda.memory_reserved()
        self.say(self.head(0) + f"CUDA capacity: NVIDIA H200 with {capacity / GIB:.2f}GiB memory")
        self.say(self.head(0) + f"CUDA memory usage for model: {used / GIB:.2f}GiB({100 * used / capacity:.2f}%)")

    def head(self, step):
        return f"[rank{self.rank}]:[titan] {self.now(step):%Y-%m-%d %H:%M:%S},000 - root - INFO - "

    def step(self, step):
        most, capacity = torch.cuda.max_memory_reserved(), torch.cuda.get_device_properties(0).total_memory
        self.say(self.head(step) + f"step: {step:2}  loss: {0:8.5f}  grad_norm: {0:7.4f}  memory: {most / GIB:5.2f}GiB"
                 f"({100 * most / capacity:.2f}%)  tps: 5,980  tflops: 88.10  mfu: 8.91%")
        torch.cuda.reset_peak_memory_stats()


class Megatron(Log):
    """Megatron-LM's iteration line, and its report of memory after the first two."""

    def loaded(self):
        pass

    def step(self, step):
        self.say(f" [{self.now(step):%Y-%m-%d %H:%M:%S}.000000] iteration {step:8d}/{self.total:8d} | consumed samples: {8 * step:12d} | "
                 f"elapsed time per iteration (ms): {1000 * SECONDS:.1f} | learning rate: 1.000000E-04 | global batch size: {8:5d} | "
                 f"lm loss: 0.000000E+00 | loss scale: 1.0 | grad norm: 0.000 | number of skipped iterations:   0 | "
                 f"number of nan iterations:   0 |")
        if step <= 2:
            self.say(report_of(self.rank, step))


def report_of(rank, step):
    """`report_memory`: MB are 2^20 bytes."""
    sizes = (torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved())
    names = ("allocated", "max allocated", "reserved", "max reserved")
    return f"[Rank {rank}] (after {step} iterations) memory (MB) | " + " | ".join(f"{n}: {s / MIB:.2f}" for n, s in zip(names, sizes))


class Engine(Log):
    """The engine has lines of its own (DeepSpeed); the script adds none of memory."""

    def loaded(self):
        pass

    def step(self, step):
        self.say(f"step {step} loss 0.0")


LOGS = {"plain": Log, "trainer": Trainer, "torchtitan": Torchtitan, "megatron": Megatron, "engine": Engine}
