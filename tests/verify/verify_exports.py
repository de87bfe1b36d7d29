#!/usr/bin/env python3
"""Has the engines themselves take what `steelyard export` writes; prints a table, one line an engine.

verify_exports.py --binary build/release/steelyard [--nanotron FOLDER] [--engine NAME ...] [--parsers | --launches]    (make verify)

Two proofs an engine: its own parser loads files for eight H100 (parsers.py), and two steps of a tiny model are launched with an
exported file on gloo processes of the CPU (launches.py). What an engine refuses is shown in its own words, and the script fails.
Run by a Python that has tests/verify/requirements.txt.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from launches import LAUNCHES, launch

# What is exported for the parsers, and of which target of `steelyard export`.
RUNS = {
    "deepspeed": ["llama-3.1-8b --zero-stage 2", "llama-3.1-8b --zero-stage 3 --recompute-mode full",
                  "llama-2-7b --zero-stage 1 --precision fp16-mixed", "llama-3.2-1b --zero-stage 3 --micro-batch 4",
                  "qwen2.5-7b --zero-stage 1 --precision bf16-mixed-fp32-gradients",
                  "llama-3.1-8b --zero-stage 3 --offload-optimizer cpu --offload-parameters cpu"],
    "accelerate": ["llama-3.1-8b --engine fsdp2", "llama-3.1-8b --engine fsdp1 --zero-stage 2",
                   "llama-3.2-1b --engine ddp --precision bf16-autocast", "llama-3.1-8b --engine deepspeed --zero-stage 3",
                   "llama-3.1-8b --engine fsdp2 --zero-stage 2 --recompute-mode full"],
    "trainer": ["llama-3.1-8b --engine fsdp2", "llama-3.2-1b --engine ddp --precision bf16-autocast --optimizer adamw-8bit",
                "llama-3.2-1b --engine ddp --precision fp32 --recompute-mode full"],
    "trl": ["llama-3.1-8b --engine fsdp2",
            "llama-3.2-1b --engine ddp --precision bf16-autocast --adapter-method lora --adapter-rank 16 --adapter-base nf4",
            "llama-3.2-1b --engine ddp --precision bf16-autocast --adapter-method dora --adapter-rank 8"],
    "torchtitan": ["llama-3.1-8b --recompute-mode full", "llama-3.1-70b --tensor 8 --recompute-mode full",
                   "llama-3.1-8b --recompute-mode every --recompute-every 2", "llama-3.1-8b --zero-stage 2 --compile",
                   "llama-3.1-8b --precision bf16-pure", "llama-3.1-8b --recompute-mode operators"],
    "axolotl": ["llama-3.1-8b --engine fsdp2", "llama-3.2-1b --engine ddp --precision bf16-autocast",
                "llama-3.1-8b --engine deepspeed --zero-stage 3 --recompute-mode full",
                "llama-3.2-1b --engine ddp --precision bf16-autocast --adapter-method lora --adapter-rank 16 --adapter-base nf4",
                "llama-3.2-1b --engine ddp --precision bf16-autocast --adapter-method dora --adapter-rank 8"],
    "llama-factory": ["llama-3.1-8b --engine deepspeed --zero-stage 3 --recompute-mode full",
                      "llama-3.2-1b --engine ddp --precision bf16-autocast",
                      "llama-3.2-1b --engine ddp --precision bf16-autocast --adapter-method lora --adapter-rank 16",
                      "llama-3.2-1b --engine ddp --precision bf16-autocast --adapter-method dora --adapter-rank 8"],
    "nanotron": ["llama-3.2-1b", "llama-3.1-8b --tensor 8 --zero-stage 1 --recompute-mode full",
                 "llama-3.1-8b --tensor 2 --pipeline 2 --gradient-accumulation 4"],
    "megatron": ["llama-3.1-8b --tensor 2 --zero-stage 1", "llama-3-70b --tensor 8 --recompute-mode full",
                 "gpt3-13b --tensor 4 --pipeline 2 --gradient-accumulation 8", "mixtral-8x7b --expert 8",
                 "llama-3.1-8b --pipeline 4 --virtual-pipeline 2 --schedule interleaved --gradient-accumulation 8",
                 "llama-3.1-8b --pipeline 4 --pipeline-layout 7,9,9,7 --gradient-accumulation 8"],
}
# `export accelerate` writes a Trainer's flags, too.
TARGETS = {"trainer": "accelerate", "trl": "accelerate"}
PACKAGES = {"trainer": "transformers", "megatron": "megatron-core", "llama-factory": "llamafactory", "fsdp2": "torch"}
# Why two steps are not launched here; none of it is about the file.
NOT_LAUNCHED = {
    "trainer": "accelerate's launches run it",
    "trl": "accelerate's launches run its Trainer",
    "axolotl": "requires xformers, flash-linear-attention and Triton, whose kernels need CUDA",
    "nanotron": "its layers import flash attention, which needs CUDA to be built",
}
# Installed apart: Megatron-core's wheels are for Python 3.12 (its code also runs before), LLaMA-Factory wants older neighbours.
# nanotron's release is older than its format: from its repository.
APART = {engine: pathlib.Path(sys.prefix) / engine for engine in ("megatron", "llama-factory", "nanotron")}


def first_error(text):
    lines = text.strip().splitlines() or ["no word"]
    return next((line for line in reversed(lines) if "Error" in line), lines[-1])


def parsed(engine, binary, run, paths):
    """One export, one parser, in a process of its own; what went wrong, or nothing."""
    command = [binary, "export", TARGETS.get(engine, engine), *run.split()[:1], "--on", "8xh100-sxm-80gb",
               "--sequence-length", "2048", *run.split()[1:], "--json"]
    exported = subprocess.run(command, capture_output=True, text=True)
    if exported.returncode != 0:
        return exported.stderr or exported.stdout
    path = os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    with tempfile.TemporaryDirectory() as folder:
        reader = pathlib.Path(__file__).resolve().parent / "parsers.py"
        read = subprocess.run([sys.executable, "-W", "ignore", str(reader), engine], input=exported.stdout,
                              capture_output=True, text=True, cwd=folder,
                              env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""})
    return "" if read.returncode == 0 else first_error(read.stderr)


def version_of(engine, arguments):
    if engine == "nanotron" and arguments.nanotron:
        return "source"
    where = [str(APART[engine])] if engine in APART else sys.path
    if engine == "nanotron":  # the commit
        urls = [d.read_text("direct_url.json") for d in importlib.metadata.distributions(path=where)]
        return next((json.loads(url)["vcs_info"]["commit_id"][:9] for url in urls if url), "")
    found = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions(path=where)}
    return found.get(PACKAGES.get(engine, engine), "")


class Row:
    def __init__(self):
        self.failures = []

    def tried(self, runs, attempt):
        """3 of 3, and what failed."""
        problems = [(name, attempt(run)) for name, run in runs]
        wrong = [(name, problem) for name, problem in problems if problem]
        self.failures += wrong
        return f"{len(runs) - len(wrong)} of {len(runs)}"


def write(path, launches, failures, version):
    document = json.loads(path.read_text()) if path.exists() else {}
    for what in launches:
        document.setdefault("cpu", {})[f"{what.target} {what.flags}"] = {
            "engine": what.target, "version": version, "flags": what.flags, "processes": what.processes, "shows": what.shows,
            "missing": what.missing, "problem": failures.get(f"launch {what.flags}", "")}
    path.write_text(json.dumps(document, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--nanotron", default=os.environ.get("NANOTRON"), help="a checkout of huggingface/nanotron")
    parser.add_argument("--engine", action="append")
    parser.add_argument("--write", help="the file of results that docs/launched.py reads; engines that were not asked stay")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--parsers", action="store_true")
    which.add_argument("--launches", action="store_true")
    arguments = parser.parse_args()
    binary = str(pathlib.Path(arguments.binary).resolve())
    paths_of = {engine: [path] for engine, path in APART.items()}
    if arguments.nanotron:
        paths_of["nanotron"] = [pathlib.Path(arguments.nanotron) / "src"]
    failed = 0
    begin = time.monotonic()
    print(f"{'engine':<14} {'version':<9} {'files accepted':>14}  two steps launched on CPU")
    for engine in arguments.engine or [*RUNS, "fsdp2"]:
        version = version_of(engine, arguments)
        if not version:
            why = ("its repository could not be reached; NANOTRON=FOLDER names a checkout" if engine == "nanotron"
                   else "not installed: see tests/verify/requirements.txt")
            failed += engine != "nanotron"
            print(f"{engine:<14} {'-':<9} {'-':>14}  {why}", flush=True)
            continue
        row, paths = Row(), paths_of.get(engine, [])
        files = started = "-"
        if engine in RUNS and not arguments.launches:
            files = row.tried([(run, run) for run in RUNS[engine]], lambda run: parsed(engine, binary, run, paths))
        ours = [what for what in LAUNCHES if what.target == engine]
        mine = [(f"launch {what.flags}", what) for what in ours if not what.missing]
        if mine and not arguments.parsers:
            started = row.tried(mine, lambda what: launch(what, binary, paths))
            started += "".join(f"\n    not launched, {what.flags}: {what.missing}" for what in ours if what.missing)
            if arguments.write:
                write(pathlib.Path(arguments.write), ours, dict(row.failures), version)
        elif not mine:
            started = f"not here: {NOT_LAUNCHED[engine]}"
        failed += len(row.failures)
        print(f"{engine:<14} {version:<9} {files:>14}  {started}", flush=True)
        for name, problem in row.failures:
            print(f"    {name}: {problem}")
    import torch

    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, {time.monotonic() - begin:.0f} s: "
          f"{'all accepted' if failed == 0 else f'{failed} wrong'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
