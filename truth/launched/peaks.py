"""What PyTorch's allocator says of each phase of each step, whatever the engine's loop looks like: max_memory_allocated, and the same
of what was asked for, without the ends of blocks that it does not split.

A step begins with the first call of a module after an optimizer has stepped; backward is autograd's; what follows it until the next
step, or the next micro-batch, is the optimizer's. NCCL's watchdog looks every 100 ms for finished work and only then drops its
tensors: a step takes longer than that, a step on paper does not, so each border waits for it.
"""

import json
import os
import time

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from recorder import paper

observer = paper.rehearsal("observer")


class Peaks:
    def __init__(self):
        self.steps = []       # of each: {phase: [max_memory_allocated, the same of what was asked for]}
        self.step = {}
        self.phase = "load"
        self.stepped = True   # an optimizer has stepped since the last forward
        self.within = 0       # autograd's engine calls itself for checkpoints
        self.history = os.environ.get("STEELYARD_HISTORY")  # a file for what was alive at the peak, and who had asked for it
        if self.history:
            torch.cuda.memory._record_memory_history(stacks="python", max_entries=10**7)
        self.hold()

    def hold(self):
        torch.nn.modules.module.register_module_forward_pre_hook(self.called)
        register_optimizer_step_post_hook(self.optimized)
        torch.autograd.Variable._execution_engine = observer.Engine(torch.autograd.Variable._execution_engine, self)

    def border(self, phase):
        """What ended here, and what begins."""
        if torch.cuda.is_initialized():
            if torch.distributed.is_initialized():
                time.sleep(observer.WATCHDOG_SECONDS)
            statistics = torch.cuda.memory_stats()
            now = [statistics[f"{kind}_bytes.all.peak"] for kind in ("allocated", "requested")]
            self.step[self.phase] = [max(pair) for pair in zip(now, self.step.get(self.phase, now))]
            torch.cuda.reset_peak_memory_stats()
        self.phase = phase

    def called(self, module, words):
        if self.within or not torch.is_grad_enabled() or self.phase == "forward":
            return
        self.border("forward")
        if self.stepped:
            self.steps.append(self.step)
            self.step, self.stepped = {}, False

    def backward(self, run):
        if self.within or self.phase == "load":
            return run()
        self.border("backward")
        self.within += 1
        try:
            return run()
        finally:
            self.within -= 1
            self.border("optimizer")

    def optimized(self, optimizer, words, named):
        if self.phase in ("optimizer", "backward"):
            self.stepped = True

    def write(self, path):
        self.border("after")
        if self.history:
            write_alive(self.history)
        whole = [step for step in [*self.steps[1:], self.step] if "backward" in step]
        with open(path, "w") as file:
            json.dump({"load": self.steps[0] if self.steps else self.step, "steps": whole}, file)


def write_alive(path):
    """The allocations at the moment of the largest sum, the large ones first: bytes, how often, the lines that asked."""
    alive, total, most, at_most = {}, 0, 0, {}
    for event in torch.cuda.memory._snapshot()["device_traces"][0]:
        if event["action"] == "alloc":
            where = " < ".join(f"{frame['filename'].rpartition('site-packages/')[2]}:{frame['line']} {frame['name']}"
                               for frame in event["frames"][:12])
            alive[event["addr"]] = (event["size"], where)
            total += event["size"]
            if total > most:
                most, at_most = total, dict(alive)
        elif event["action"] == "free_completed" and event["addr"] in alive:
            total -= alive.pop(event["addr"])[0]
    counted = {}
    for row in at_most.values():
        counted[row] = counted.get(row, 0) + 1
    with open(path, "w") as file:
        print(most, file=file)
        for (size, where), count in sorted(counted.items(), key=lambda row: -row[0][0] * row[1]):
            print(size * count, count, where, file=file)
