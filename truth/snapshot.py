#!/usr/bin/env python3
"""A memory snapshot of two training steps, as a user would dump one: what readers of snapshots are tested with.

    snapshot.py llama truth/snapshots/llama.pickle              on paper: no GPU needed
    snapshot.py llama llama.pickle --layers 1 --frames --device gpu
"""

import argparse
import contextlib
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


class TwoSteps:
    """Stands where training.py expects its recorder, and only lets it run."""
    models, inputs = (), ()

    @contextlib.contextmanager
    def phase(self, name):
        import torch
        from recorder.record import WATCHDOG_SECONDS
        yield
        torch.cuda.synchronize()
        if torch.distributed.is_initialized():  # its watchdog lets go of what collectives held, as in a record
            time.sleep(WATCHDOG_SECONDS)

    def steps(self, model, optimizer):
        yield from range(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", help="a name of cases.py")
    parser.add_argument("file", type=Path)
    parser.add_argument("--device", choices=("paper", "gpu"), default="paper")
    parser.add_argument("--layers", type=int, help="so many layers instead of the case's own")
    parser.add_argument("--frames", action="store_true", help="with Python stacks")
    arguments = parser.parse_args()
    sys.path.insert(0, str(HERE))
    from cases import cases, stage_of
    run = cases()[arguments.case]
    if arguments.layers:
        run["model"]["num_hidden_layers"] = arguments.layers
    if arguments.device == "paper":
        from recorder import paper
        paper.load(device_bytes=2 * 10**12)
    import torch
    import training
    torch.cuda.memory._record_memory_history("all", context="alloc" if arguments.frames else None, stacks="python")
    training.train_one(TwoSteps(), run, stage_of(arguments.case))
    torch.cuda.memory._dump_snapshot(str(arguments.file))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
