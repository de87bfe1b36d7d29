"""One run of a training script that may die of memory: it stands where training.py expects its recorder.

    life = Life(steps=3, log=Log(...))         a run as a user would start it
    life = Watched(steps=3, log=...)           the same on a device without end, and every allocation is followed to its end

A `Watched` life knows what the dying one cannot: who held each allocation at the end of each phase, and when it went. The two make
the same allocations in the same order, so the n-th allocation of the death is the n-th of the watched life, and what was alive at
the failure is known by construction. `classes.py` names them.
"""

import contextlib
import time

import torch

WATCHDOG_SECONDS = 0.13  # NCCL's watchdog looks every 100 ms for finished work and only then drops its tensors


class Life:
    def __init__(self, steps, log):
        self.count, self.log = steps, log
        self.models, self.optimizers, self.inputs = [], [], []
        self.more_states = lambda: {}
        self.kept = []             # of a script that keeps what it should not
        self.step, self.name = 0, "load"
        self.between = None        # what a script does between two steps: evaluation, saving
        self.death = None          # where it was when the allocator failed

    @contextlib.contextmanager
    def phase(self, name):
        self.name = name
        self.begins()
        self.log.before(self.step, name)
        yield self
        torch.cuda.synchronize()
        if torch.distributed.is_initialized():
            time.sleep(WATCHDOG_SECONDS)
        self.log.after(self.step, name)
        self.ended()

    def steps(self, models, optimizers):
        self.models = models if isinstance(models, (list, tuple)) else [models]
        self.optimizers = optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]
        self.log.loaded()
        for step in range(1, self.count + 1):
            self.step = step
            self.log.begins(step)
            yield step
            self.log.step(step)
            if self.between:
                self.between(step)
        self.step += 1

    def begins(self):
        pass

    def ended(self):
        pass


class Phase:
    def __init__(self, step, name, index):
        self.step, self.name, self.index = step, name, index
        self.span, self.states = None, {}


class Watched(Life):
    def __init__(self, steps, log):
        super().__init__(steps, log)
        from recorder.history import History
        torch.cuda.init()
        self.history = History(torch, frames=True)
        self.history.start()
        self.history.seed()
        self.phases, self.storages = [], []

    def border(self, states):
        phase = Phase(self.step, self.name, len(self.phases))
        phase.states = states
        phase.span = self.history.span(phase.index)
        self.phases.append(phase)
        self.storages += [storage for sign, storage in phase.span.events if sign > 0]
        return phase

    def begins(self):
        self.border({}).name = "between"  # what the script did since the last phase

    def ended(self):
        from deaths.classes import held
        self.border(held(self))

    def finish(self):
        """After the loop: cuBLAS's workspaces are what goes when they are cleared."""
        self.name = "after"
        self.border({})
        torch._C._cuda_clearCublasWorkspaces()
        for sign, storage in self.border({}).span.events:
            if sign < 0:
                storage.pile = "workspaces"
        self.history.stop()
