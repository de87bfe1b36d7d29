#!/usr/bin/env python3
"""How long answers take, and what they do not grow with: whole processes on one core.

figures.py --steelyard BINARY [--against OLDER] [--rounds 3] [--write docs/speed.md] [NAME ...]

Each row is a command. Both binaries run one after the other in every round, so that a busy machine is busy for both; the figure is the
median of the seconds of CPU (user), and the most memory of any round. Rows of one group differ in one number alone: what stays the same
over them is flat.

    python3 bench/figures.py --steelyard build/release/steelyard --against ../older/steelyard 405b
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile



def run(layers=126, stages=18, rounds=36, tensor=8, data=1, device="b300", **more):
    model = {"model_type": "llama", "hidden_size": 16384, "num_hidden_layers": layers, "num_attention_heads": 128,
             "num_key_value_heads": 8, "intermediate_size": 53248, "vocab_size": 128256}
    return {"engine": "megatron", "model": model,
            "cluster": {"device": device, "devices": tensor * stages * data},
            "parallel": {"tensor": tensor, "pipeline": stages, "data": data, "zero_stage": 1},
            "training": {"sequence_length": 8192, "gradient_accumulation": rounds}, **more}


def weigh(job):
    return ["weigh", job, "--brief", "--json"]


def plan(*words):
    return ["plan", *words, "--threads", "1", "--seconds", "120", "--json"]


H100 = "h100-sxm-80gb"
GROUPS = {
    "predict 405B over layers (18 stages)": {f"{n} layers": weigh(run(layers=n, rounds=18)) for n in (18, 72, 288)},
    "predict 405B over micro-batches": {f"{n} micro-batches": weigh(run(rounds=n)) for n in (36, 144, 576)},
    "predict 405B over stages": {f"{n} stages": weigh(run(stages=n, rounds=64)) for n in (2, 6, 18, 63)},
    "predict 405B over data ranks": {f"{n} data ranks": weigh(run(data=n)) for n in (1, 16, 256)},
    "weigh with suggestions": {
        "8B, FSDP2 on 8, does not fit": ["weigh", "llama-3.1-8b", "--on", f"8x{H100}", "--engine", "fsdp2",
                                         "--sequence-length", "131072", "--json"],
        "405B, 18 stages": ["weigh", run(device=H100), "--json"],
    },
    "plan, all engines": {
        "8B on 8": plan("llama-3.1-8b", "--on", f"8x{H100}"),
        "405B on 1,024": plan("llama-3.1-405b", "--on", f"1024x{H100}"),
        "405B on 16,384": plan("llama-3.1-405b", "--on", f"16384x{H100}"),
        "DeepSeek-V3 on 2,048": plan("deepseek-v3", "--on", "2048xh800"),
        "kimi-k2 on 4,608: nothing fits": plan("kimi-k2", "--on", f"4608x{H100}"),
    },
    "plan, Megatron": {
        "405B on 1,024": plan("llama-3.1-405b", "--on", f"1024x{H100}", "--engine", "megatron"),
        "405B on 16,384": plan("llama-3.1-405b", "--on", f"16384x{H100}", "--engine", "megatron"),
    },
}


def measured(binary, command, folder):
    """Seconds of CPU and MB of one run."""
    words = []
    for word in command:
        if isinstance(word, dict):
            path = folder / "run.json"
            path.write_text(json.dumps(word))
            word = str(path)
        words.append(word)
    child = subprocess.Popen([binary, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    said = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode > 1 or not said.startswith(b"{"):
        sys.exit(f"{binary} {' '.join(words)}: exit {child.returncode}\n{said[:300].decode()}")
    return used.ru_utime, used.ru_maxrss / 1024


def seconds(value):
    return f"{value * 1000:,.0f} ms" if value < 1 else f"{value:,.1f} s"


def figures(arguments):
    binaries = [arguments.steelyard, *([arguments.against] if arguments.against else [])]
    with tempfile.TemporaryDirectory() as folder:
        for group, rows in GROUPS.items():
            if arguments.names and not any(name in group.lower() for name in arguments.names):
                continue
            for row, command in rows.items():
                runs = {binary: [] for binary in binaries}
                for _ in range(arguments.rounds):
                    for binary in binaries:
                        runs[binary].append(measured(binary, command, pathlib.Path(folder)))
                yield group, row, [(statistics.median(r[0] for r in runs[b]), max(r[1] for r in runs[b]))
                                   for b in binaries]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steelyard", required=True)
    parser.add_argument("--against", metavar="OLDER")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", metavar="PAGE")
    parser.add_argument("names", nargs="*", help="parts of the groups' names; none: all")
    arguments = parser.parse_args()
    lines, last = [], None
    for group, row, values in figures(arguments):
        if group != last:
            head = "| CPU | memory |" + (" CPU before | memory before |" if arguments.against else "")
            lines += [f"\n## {group[0].upper()}{group[1:]}\n", f"| {head}", "|---" * (1 + 2 * len(values)) + "|"]
            last = group
        lines.append(f"| {row} | " + " | ".join(f"{seconds(cpu)} | {mb:,.0f} MB" for cpu, mb in values) + " |")
        print(lines[-1], flush=True)
    if arguments.write:
        version = subprocess.run([arguments.steelyard, "--version"], stdout=subprocess.PIPE, check=True)
        rounds = "one round" if arguments.rounds == 1 else f"medians of {arguments.rounds} rounds"
        before = " \"Before\": an older binary, which took turns with this one." if arguments.against else ""
        text = ("# How long answers take\n\nWritten by `bench/figures.py`: whole processes on one core of a shared machine "
                f"({platform.machine()}), seconds of CPU, {rounds}.{before} Less than 15 MB of memory is not told apart. Rows of a "
                "table \"over\" something differ in that number alone: what stays the same over them is flat.\n\n"
                f"{version.stdout.decode().strip()}\n" + "\n".join(lines) + "\n")
        pathlib.Path(arguments.write).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
