#!/usr/bin/env python3
"""The last metre: what plan hands over can be launched, and is what was planned. last_metre_test.py BINARY [--problems N] [--seed S]

Random problems (models, clusters, batches, lengths), the same for a seed. `plan --json` names for each stack its best row
and the run file of it. Of every row whose stack has launch files:

  the run     weighs to the row's bytes, verdict and seconds
  its code    has the model: no warning says that it is weighed as if
  its export  is written, and read again is the same run: the same bytes, verdict and seconds

A fault names the problem as a command line that shows it.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

# Families, dense and with experts, of every size that the clusters below hold.
MODELS = [
    "llama-3.1-8b", "llama-3.2-1b", "llama-3.2-3b", "llama-3-8b", "llama-2-7b", "qwen3-0.6b", "qwen3-4b", "qwen3-8b",
    "qwen3-14b", "qwen2.5-1.5b", "qwen2.5-7b", "gemma-2-2b", "gemma-3-1b", "mistral-7b-v0.3", "starcoder2-3b", "gpt2-xl",
    "pythia-1.4b", "phi-2", "phi-4-mini", "olmo-2-7b", "qwen3-30b-a3b", "deepseek-v2-lite", "smollm2-1.7b", "opt-1.3b",
]
CLUSTERS = [
    "1xrtx-4090", "1xh100-sxm-80gb", "2xl40s", "4xl40s", "2xa100-sxm-80gb", "4xa100-sxm-40gb", "8xa100-sxm-80gb",
    "8xh100-sxm-80gb", "8xh200-sxm", "16xh100-sxm-80gb",
]
LENGTHS = [512, 1024, 2048, 4096, 8192]
BATCHES = [8, 16, 32, 64]
ENVIRONMENT = {"PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent", "LANG": "C.UTF-8", "TZ": "UTC"}


def run(binary, *words):
    return subprocess.run([binary, *words], capture_output=True, text=True, encoding="utf-8", check=False,
                          env=ENVIRONMENT)


def answer_of(binary, path):
    """What is compared: (bytes, verdict, seconds), and the warnings."""
    weighed = run(binary, "weigh", path, "--json")
    try:
        said = json.loads(weighed.stdout)
        return ((said["peak"]["device_bytes"], said["verdict"], said["time"]["step_seconds"]),
                " ".join(str(warning) for warning in said["warnings"]))
    except (ValueError, KeyError, TypeError):
        return (None, weighed.stderr.strip() or weighed.stdout.strip()[:300])


def faults_of_row(binary, stack, folder):
    title = stack["title"]
    row = stack["layout"]
    planned = (row["device_bytes"], row["verdict"], row["step_seconds"])
    path = os.path.join(folder, "run.json")
    pathlib.Path(path).write_text(json.dumps(stack["run"]), encoding="utf-8")
    weighed, warnings = answer_of(binary, path)
    if weighed != planned:
        return [f"{title}: planned {planned}, its run weighs {weighed} {warnings if weighed is None else ''}"]
    if "weighed as if it had" in warnings:
        return [f"{title}: its code has no such model"]
    if "export" not in stack:
        return []
    exported = run(binary, "export", stack["export"], path)
    if exported.returncode != 0:
        return [f"{title}: export {stack['export']} refuses: {exported.stderr.strip()}"]
    script = os.path.join(folder, "launch.sh")
    pathlib.Path(script).write_text(exported.stdout, encoding="utf-8")
    again, problems = answer_of(binary, script)
    if again != planned:
        return [f"{title}: planned {planned}, exported to {stack['export']} and read again {again} "
                f"{problems if again is None else ''}"]
    return []


def problem_of(dice):
    return ["plan", dice.choice(MODELS), "--on", dice.choice(CLUSTERS), "--sequence-length",
            str(dice.choice(LENGTHS)), "--global-batch", str(dice.choice(BATCHES))]


def faults_of(binary, words):
    """Faults, and how many rows were followed to their end."""
    planned = run(binary, *words, "--json", "--seconds", "600")
    # No position beyond the model's last, say: a problem that has no answer says why.
    if planned.returncode == 2 and '"problems"' in planned.stdout:
        return [], collections.Counter()
    if planned.returncode not in (0, 1):
        return [f"plan: exit {planned.returncode}: {planned.stderr.strip()}"], collections.Counter()
    faults, followed = [], collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for stack in json.loads(planned.stdout)["stacks"]:
            if "layout" not in stack:
                continue
            followed[stack["title"]] += 1
            faults += faults_of_row(binary, stack, folder)
    return faults, followed


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("binary")
    options.add_argument("--problems", type=int, default=500)
    options.add_argument("--seed", type=int, default=29)
    options.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    chosen = options.parse_args()
    dice = random.Random(chosen.seed)
    problems = [problem_of(dice) for _ in range(chosen.problems)]
    followed, faults = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(chosen.workers) as pool:
        for words, (found, rows) in zip(problems, pool.map(lambda p: faults_of(chosen.binary, p), problems)):
            followed.update(rows)
            faults += len(found)
            for fault in found:
                print(f"steelyard {' '.join(words)}\n  {fault}", file=sys.stderr, flush=True)
    print(f"{len(problems)} problems, {sum(followed.values())} rows followed to their launch: "
          + ", ".join(f"{title} {count}" for title, count in sorted(followed.items())))
    # A test that follows nothing shows nothing.
    if chosen.problems >= 100 and any(followed[title] == 0 for title in
                                      ("DDP", "ZeRO-2", "ZeRO-3", "FSDP2", "torchtitan", "Megatron", "nanotron")):
        print("a stack was never followed", file=sys.stderr)
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
