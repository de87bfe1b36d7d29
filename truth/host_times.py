#!/usr/bin/env python3
"""Time that a training loop's own Python takes, layer by layer: host_times.py [--out host_times.json]

On paper kernels take no time (README.md), so that what a step lasts is its host's: operators, autograd, hooks of engines, checkpoints.
Each row is a case with 4 and with 12 layers; what eight layers more take, divided by eight, is a layer's. The shortest of many steps
counts: everything else that runs on the machine only makes it longer. What the numbers say is how much an engine's hooks take beside
plain code on the same host; data/host_work.json has them so, and the host of a run scales both.
"""

import argparse
import contextlib
import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
LAYERS = (4, 12)
STEPS, WARM = 40, 6
MIXED = {"cluster.devices": 8, "training.precision": "bf16-mixed"}
FUSED = {**MIXED, "engine": "deepspeed", "training.optimizer_form": "fused"}
FULL = {"recompute.mode": "full"}
ENGINES = {
    "plain": {}, "plain, full": FULL, "plain, autocast": {"training.precision": "bf16-autocast"},
    "ddp": {"engine": "ddp", "cluster.devices": 8},
    "fsdp1": {**MIXED, "engine": "fsdp1"}, "fsdp1, full": {**MIXED, **FULL, "engine": "fsdp1"},
    "fsdp2": {**MIXED, "engine": "fsdp2"}, "fsdp2, full": {**MIXED, **FULL, "engine": "fsdp2"},
    **{f"deepspeed {stage}": {**FUSED, "parallel.zero_stage": stage} for stage in (1, 2, 3)},
    "deepspeed 3, full": {**FUSED, **FULL, "parallel.zero_stage": 3},
    "deepspeed 3, one rank": {**FUSED, "parallel.zero_stage": 3, "cluster.devices": 1},
    "lora": {"adapter.rank": 8, "adapter.type": "bf16"},
}
MODELS = {"llama": "num_hidden_layers", "family-gpt2": "n_layer", "family-qwen3-0.6b": "num_hidden_layers"}
ONE_BATCH = {"training.gradient_accumulation": 1}
MEGATRON = {
    "megatron": {**ONE_BATCH, "cluster.devices": 8}, "megatron, full": {**ONE_BATCH, **FULL, "cluster.devices": 8},
    "megatron, distributed": {**ONE_BATCH, "cluster.devices": 8, "parallel.zero_stage": 1},
    "megatron, tensor 2": {**ONE_BATCH, "cluster.devices": 8, "parallel.tensor": 2},
    **{f"megatron, fsdp {stage}": {**ONE_BATCH, "cluster.devices": 8, "parallel.strategy": "megatron-fsdp", "parallel.zero_stage": stage}
       for stage in (2, 3)},
}
# Needs NANOTRON_SOURCE (nanotron_engine.py); without it these rows stay as they are. Plain code is timed once more beside them, as
# theirs may be another host.
SHARDED = {"engine": "nanotron", "training.precision": "bf16-mixed-fp32-gradients", "cluster.devices": 8, "parallel.zero_stage": 1}
NANOTRON = {
    "plain, beside nanotron": {}, "nanotron": SHARDED, "nanotron, full": {**SHARDED, **FULL},
    **{f"nanotron, tensor {ranks}": {**SHARDED, "parallel.tensor": ranks} for ranks in (2, 4, 8)},
    "nanotron, tensor 2, full": {**SHARDED, **FULL, "parallel.tensor": 2},
    "nanotron, data 32": {**SHARDED, "cluster.devices": 32},
}
PHASES = ("forward", "backward", "accumulation", "gather")  # the last two are nanotron's
PROCESSES = 3  # of each: where two threads take turns, one process is not like the other


def runs():
    for case, layers_key in MODELS.items():
        for engine, changes in ENGINES.items():
            yield case, layers_key, engine, changes
    for engine, changes in MEGATRON.items():
        yield "megatron-1", "num_hidden_layers", engine, changes
    for engine, changes in NANOTRON.items():
        yield "llama", "num_hidden_layers", engine, changes


def is_asked(only, engine):
    return (not only or only in engine) and (engine not in NANOTRON or "NANOTRON_SOURCE" in os.environ)


class Timed:
    """Stands where training.py expects its recorder."""
    models, inputs = (), ()

    def __init__(self):
        self.best, self.now = {}, {}

    @contextlib.contextmanager
    def phase(self, name):
        start = time.perf_counter()
        yield
        self.now[name] = self.now.get(name, 0.0) + time.perf_counter() - start

    def steps(self, model, optimizer):
        for step in range(STEPS):
            self.now = {}
            yield step
            if "whole" in self.now:  # a schedule's forward and backward
                self.now["backward"] = self.now.pop("whole") - self.now["forward"]
            if "accumulated backward" in self.now:
                self.now["accumulation"] = self.now.pop("accumulated backward") - self.now["backward"]
            if step >= WARM:
                for name, seconds in self.now.items():
                    self.best[name] = min(seconds, self.best.get(name, seconds))


def time_one(case, changes):
    sys.path.insert(0, str(HERE))
    from cases import cases, changed
    from recorder import paper
    run = changed(cases()[case], changes)
    paper.load(device_bytes=2 * 10**12)
    import training
    timed = Timed()
    if run["engine"] == "megatron":
        time_forward(timed)
    gc.disable()
    # nanotron's in the middle of its tensor ranks: its own rows of a gathered product stand between those of others
    rank = training.value(run, "parallel.tensor", 1) // 2 if run["engine"] == "nanotron" else 0
    training.train_one(timed, run, rank)
    print(json.dumps(timed.best))
    sys.stdout.flush()
    os._exit(0)


def time_forward(timed):
    """Megatron's schedules run forward and backward, which training.py has as one phase: the model's forward is timed in it."""
    from megatron.core.models.gpt import GPTModel
    inner, phase = GPTModel.forward, timed.phase

    def forward(self, *args, **kwargs):
        with phase("forward"):
            return inner(self, *args, **kwargs)
    GPTModel.forward = forward
    timed.phase = lambda name: phase("whole" if name == "backward" else name)


def least(case, asked):
    """The least time of each phase; None: it did not run."""
    best = {}
    for _ in range(PROCESSES):
        done = subprocess.run([sys.executable, __file__, "--one", case, asked], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return None
        for phase, seconds in json.loads(done.stdout.splitlines()[-1]).items():
            best[phase] = min(seconds, best.get(phase, seconds))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "host_times.json")
    parser.add_argument("--only", help="rows whose engine has this in its name; the others stay as they are in the file")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        time_one(arguments.one[0], json.loads(arguments.one[1]))
    known = {}
    if arguments.out.exists():
        known = {(row["case"], row["engine"]): row for row in json.loads(arguments.out.read_text(encoding="utf-8"))["rows"]}
    rows = []
    for case, layers_key, engine, changes in runs():
        if not is_asked(arguments.only, engine):
            rows += [known[case, engine]] if (case, engine) in known else []
            continue
        few, many = (least(case, json.dumps({**changes, f"model.{layers_key}": layers})) for layers in LAYERS)
        if few is None or many is None:
            print(f"{case:20} {engine:22} did not run")
            continue
        row = {"case": case, "engine": engine, "changes": changes}
        for phase in (phase for phase in PHASES if phase in few):
            row[f"{phase}_us_per_layer"] = round(1e6 * (many[phase] - few[phase]) / (LAYERS[1] - LAYERS[0]), 1)
            row[f"{phase}_us_of_ends"] = round(1e6 * few[phase] - LAYERS[0] * row[f"{phase}_us_per_layer"], 1)
        rows.append(row)
        print(f"{case:20} {engine:22} forward {row['forward_us_per_layer']:8.1f}  backward {row['backward_us_per_layer']:8.1f} us a layer",
              flush=True)
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    arguments.out.write_text('{\n "schema": "steelyard.host-times/1",\n "rows": [\n' + lines + "\n ]\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
