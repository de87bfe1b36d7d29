"""Steps and phases of any loop, and when the rehearsal is over.

    load       until the first module is called with gradients
    forward    from there to autograd's engine
    backward   autograd's engine, each of its runs
    optimizer  what follows it, until the next step or the next micro-batch

A step ends where the next one begins; after the last one that was asked for the process ends: at its next forward, before it would save
or evaluate, or where the script itself ends. Of each phase PyTorch's own peaks are taken, and how many allocations it has made by then:
that is the place in the allocator's history, which is read once at the end.
"""

import atexit
import gc
import os
import sys
import threading
import time
import weakref

from . import history, report

# NCCL's watchdog looks every 100 ms for finished work and only then drops its tensors. A step takes longer than that, a step on
# paper does not: borders wait for it.
WATCHDOG_SECONDS = 0.25
MOST_EVENTS = 10 ** 7

watching = None


class Border:
    """The end of a phase: what PyTorch says of it, and what the model and the optimizers hold."""

    def __init__(self, step, phase):
        self.step, self.phase = step, phase
        self.stats, self.allocations, self.held = {}, 0, {}


class Engine:
    """Autograd's engine; each of its runs is a phase."""

    def __init__(self, engine, observer):
        self.engine, self.observer = engine, observer

    def run_backward(self, *words, **named):
        return self.observer.backward(lambda: self.engine.run_backward(*words, **named))

    def __getattr__(self, name):
        return getattr(self.engine, name)


class Observer:
    def __init__(self, torch):
        self.torch = torch
        self.wanted = int(os.environ.get("STEELYARD_STEPS", "3"))
        self.borders = []
        self.step, self.phase = 0, "load"  # the step that runs: 0 before the first
        self.stepped = True                # an optimizer has stepped since the last forward
        self.within = 0                    # autograd's engine calls itself for checkpoints
        self.depth = 0
        self.models, self.optimizers = [], weakref.WeakSet()
        self.names = {}                    # id of a module -> its class
        self.recording = False
        self.done = False
        self.owner = threading.get_ident()
        self.began = time.time()
        self.failure = None                # what the allocator refused
        self.error = None                  # what ended the script
        self.hold()

    def hold(self):
        torch = self.torch
        torch.nn.modules.module.register_module_forward_pre_hook(self.called)
        torch.nn.modules.module.register_module_forward_hook(self.returned, always_call=True)
        from torch.optim.optimizer import register_optimizer_step_post_hook
        register_optimizer_step_post_hook(self.optimized)
        torch.autograd.Variable._execution_engine = Engine(torch.autograd.Variable._execution_engine, self)
        start = torch.cuda._lazy_init

        def lazy_init():
            started = torch.cuda.is_initialized()
            start()
            if not started and not self.recording:
                self.record()

        torch.cuda._lazy_init = lazy_init
        hook, self.before_hook = sys.excepthook, sys.excepthook

        def failed(kind, error, trace):
            self.error = report.error_of(kind, error, trace)
            hook(kind, error, trace)

        sys.excepthook = failed
        atexit.register(self.finish, "the script ended")

    def record(self):
        """From the first use of the device on, with the lines of Python that ask."""
        self.recording = True
        torch = self.torch
        torch.cuda.memory._record_memory_history("all", context="alloc", stacks="python", max_entries=MOST_EVENTS)
        observe = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
        if observe is not None:
            observe(self.refused)

    def refused(self, device, asked, total, free):
        """The allocator found no room; whoever asked may catch that."""
        self.failure = {"tried_bytes": asked, "capacity_bytes": total, "free_bytes": free, "step": self.step, "phase": self.phase,
                        "reserved_bytes": self.torch.cuda.memory_reserved(), "allocated_bytes": self.torch.cuda.memory_allocated()}

    # ---- while it runs ----

    def border(self, phase):
        """What ended here, and what begins."""
        torch = self.torch
        if torch.cuda.is_initialized():
            if torch.distributed.is_available() and torch.distributed.is_initialized():
                time.sleep(WATCHDOG_SECONDS)
            ended = Border(self.step, self.phase)
            ended.stats = torch.cuda.memory_stats()
            ended.allocations = ended.stats.get("allocation.all.allocated", 0)
            ended.held = history.held(self)
            self.borders.append(ended)
            torch.cuda.reset_peak_memory_stats()
        self.phase = phase

    def called(self, module, words):
        if self.torch.compiler.is_compiling() or threading.get_ident() != self.owner:
            return
        self.depth += 1
        if self.depth == 1 and self.done_with_steps():
            self.finish("the steps that were asked for are done")
        if self.within or not self.torch.is_grad_enabled() or self.phase == "forward":
            return
        self.meet(module)
        self.border("forward")
        if self.stepped:
            self.step, self.stepped = self.step + 1, False

    def returned(self, module, words, result):
        if not self.torch.compiler.is_compiling() and threading.get_ident() == self.owner:
            self.depth = max(0, self.depth - 1)

    def meet(self, module):
        """A root: what it holds is parameters."""
        if not any(known() is module for known in self.models):
            self.models.append(weakref.ref(module))

    def done_with_steps(self):
        return self.stepped and self.step >= self.wanted

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
        self.optimizers.add(optimizer)
        if self.phase in ("optimizer", "backward"):
            self.stepped = True

    def saves(self):
        """Whoever would write a checkpoint is told that it is written."""
        if self.done_with_steps():
            self.finish("the steps that were asked for are done")
        from . import values
        values.substituted("a file that the script would write: not written", 3)

    # ---- at the end ----

    def finish(self, why):
        if self.done:
            return
        self.done = True
        try:
            if self.torch.cuda.is_initialized():
                self.border("after")
            report.write(self, why)
        except BaseException:  # the script's end is its own: ours says what went wrong with it
            import traceback
            report.write_problem("the observation was not written: " + traceback.format_exc())
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        # Communicators and watchdogs have nothing more to say, and data loaders are not waited for.
        os._exit(1 if self.error else 0)


def watch(torch):
    global watching
    if watching is None and not _is_a_helper():
        watching = Observer(torch)


def _is_a_helper():
    """A worker of a data loader or of a compiler, which the script forks: the parent is observed."""
    import multiprocessing
    return multiprocessing.parent_process() is not None or "compile_worker" in " ".join(sys.argv)
