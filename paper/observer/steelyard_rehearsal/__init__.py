"""Watches a training script that runs on a device on paper, and writes down what its memory was.

    begin()      by sitecustomize, in every Python process of the command: waits for torch to be imported
    observer     steps and phases of any loop, the allocator's history, what was alive at the peak
    ranks        what is answered for ranks that are never started
    launchers    torchrun, accelerate, deepspeed, spawn: one rank at a time, in a process of its own
    values       what is answered for values that a kernel would have computed
    stand_ins    checkpoints, tokenizers and data that are not there

$STEELYARD_REHEARSAL is the folder that each process of a rank writes its observation to.
"""

import os

from .imports import when_imported


def begin():
    when_imported("torch.distributed.launcher.api", _launchers)
    when_imported("deepspeed.launcher.runner", _deepspeed_launcher)
    when_imported("torch", _torch)
    from . import stand_ins
    stand_ins.wait()


def _launchers(module):
    from . import launchers
    launchers.of_torchrun(module)


def _deepspeed_launcher(module):
    from . import launchers
    launchers.of_deepspeed(module)


def _torch(torch):
    from . import observer, report
    problem = report.unfit(torch)
    if problem:
        report.write_problem(problem)
        os._exit(3)
    from . import answers, launchers, ranks, values
    launchers.of_spawn(torch)
    ranks.answer(torch)
    values.answer(torch)
    answers.answer(torch)
    observer.watch(torch)
