#!/usr/bin/env python3
"""Starts what `steelyard export` writes as rank 0 of 8 on the device of paper, and holds its peak against what `weigh` says of the
same files.

launched.py --binary build/release/steelyard [--only WORDS ...] [--write tests/verify/launched.json] [--history FOLDER]  (make verify-paper)

For each row of rows.py: `export` writes the files into a folder, `weigh` reads them from there (`import`'s reading), and `bash
launch.sh` runs them, with this folder's rank_zero.py in place of torchrun, accelerate and deepspeed. Measured is what PyTorch's
allocator says over the steps: the largest sum of what was asked for, which is what `weigh` predicts, and
torch.cuda.max_memory_allocated, which counts the ends of blocks that the allocator does not split, too.
"""

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rows import MODELS, ROWS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "verify"))
from launches import write_text, write_tokenizer  # noqa: E402

DEVICE, RANKS = "h200-sxm", 8
LENGTH, MICRO_BATCH = 1024, 2
APART = {engine: Path(sys.prefix) / engine for engine in ("megatron", "llama-factory", "nanotron")}
ALLOWED = 0.001
# The flash_attn package has to be built for a device; PyTorch brings the same kernel, and the files then ask for that.
PYTORCHS_FLASH = re.compile(r"(attn_implementation[ =\"]+|flash_attn: )(flash_attention_2|fa2)")


def paths_of(engine):
    """Where an engine lies that is installed apart, or checked out (MEGATRON_LM: its pretrain_gpt.py is in no wheel)."""
    found = [str(APART[engine])] if engine in APART else []
    if engine == "megatron":
        found = [os.environ.get("MEGATRON_LM", ""), *found]
    return os.pathsep.join(filter(None, found))


def stand_ins(folder):
    """torchrun, accelerate and deepspeed of this folder."""
    folder.mkdir()
    for name in ("torchrun", "accelerate", "deepspeed"):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "rank_zero.py"}" {name} "$@"\n')
        path.chmod(0o755)
    return folder


def tokens(folder):
    """A tokenizer and a text of long lines, for engines that load them."""
    folder.mkdir(exist_ok=True)
    write_tokenizer(folder)


def write_weights(folder):
    """In bf16, as models are published: some engines take the type of the file."""
    program = ("import sys, torch; from transformers import AutoConfig, AutoModelForCausalLM as Model; "
               "Model.from_config(AutoConfig.from_pretrained(sys.argv[1]), dtype=torch.bfloat16).save_pretrained(sys.argv[1])")
    subprocess.run([sys.executable, "-c", program, folder], capture_output=True, check=True)


def exported(row, binary, folder):
    """The command that was asked, and what went wrong."""
    command = [binary, "export", row.engine, row.model, "--on", f"{RANKS}x{DEVICE}", "--sequence-length", str(LENGTH),
               "--micro-batch", str(MICRO_BATCH), *row.flags.split(), "--to-folder", "."]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        return "", done.stderr or done.stdout
    for path in filter(Path.is_file, folder.iterdir()):
        path.write_text(PYTORCHS_FLASH.sub(lambda found: found[0].replace(found[2], "sdpa"), path.read_text()))
    return " ".join(["steelyard", *command[1:]]), ""


def weighed(row, binary, folder):
    """weigh's peak of the exported files; None and why where they are not read."""
    read = folder / "launch.sh"
    done = subprocess.run([binary, "weigh", str(read), "--on", f"{RANKS}x{DEVICE}", "--json"], capture_output=True, text=True, cwd=folder)
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        return None, done.stderr or done.stdout
    if "ranks" not in answer:
        return None, json.dumps(answer)[:400]
    rank = answer["ranks"][0]  # the first stage's, as what is measured
    return {"peak": rank["allocated_bytes"], "phases": {p["phase"]: p["allocated_bytes"] for p in rank["phases"]},
            "first": {p["phase"]: p["allocated_bytes"] for p in rank.get("first_step", {}).get("phases", [])}}, ""


def started(row, folder, history, limit=900):
    script = (folder / "launch.sh").read_text().rstrip()
    if row.engine == "megatron" and not os.environ.get("MEGATRON_LM"):
        return None, "MEGATRON_LM does not say where a checkout of NVIDIA/Megatron-LM lies (its tag core_v0.19.0)"
    if row.engine == "megatron":
        script = script.replace("pretrain_gpt.py", str(Path(os.environ["MEGATRON_LM"]) / "pretrain_gpt.py"))
    if row.script:
        (folder / row.as_name).parent.mkdir(exist_ok=True)
        shutil.copy(HERE / "programs" / row.script, folder / row.as_name)
    if row.added:
        script += " " + row.added
    peaks = folder / "peaks.json"
    # Python's own folders behind the stand-ins: Megatron-LM compiles a helper of its data sets with what they hold.
    path = os.pathsep.join([str(stand_ins(folder / "bin")), f"{sys.prefix}/bin", f"{sys.base_prefix}/bin", os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "STEELYARD_PEAKS": str(peaks),
                   "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "DISABLE_VERSION_CHECK": "1",
                   "PYTHONPATH": paths_of(row.engine), "HF_HUB_OFFLINE": "1",
                   "TORCHDYNAMO_DISABLE": "1"}  # what it compiles wants Triton, and Triton a driver
    if history:
        environment["STEELYARD_HISTORY"] = str(history)
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=folder, timeout=limit, env=environment)
    said = Path(tempfile.gettempdir()) / f"launched-{row.engine}.txt"  # the engine's own words of the last row
    said.write_text(ran.stdout + ran.stderr)
    if ran.returncode != 0 or not peaks.exists():
        lines = [line for line in (ran.stdout + ran.stderr).splitlines() if "Error" in line or "error:" in line]
        return None, (lines or ["no word"])[-1].strip()[:300]
    found = json.loads(peaks.read_text())
    return (found, "") if found["steps"] else (None, f"no step was seen: {said} has what the engine said")


def tried(row, binary, history=None):
    """One row of the table."""
    found = {"engine": row.engine, "entry": row.entry, "model": row.model, "flags": row.flags, "cause": row.cause}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model, config in MODELS.items():
            (folder / model).mkdir()
            (folder / model / "config.json").write_text(json.dumps(config))
            tokens(folder / model)
        if row.weights:
            write_weights(folder / row.model)
        tokens(folder / "tokens")
        write_text(folder)
        words = " ".join(f"w{index % 250}" for index in range(2 * LENGTH))  # each fills its sequence
        (folder / "text" / "dialogues.json").write_text(json.dumps([{"instruction": "w1", "input": "", "output": words}] * 400))
        found["command"], problem = exported(row, binary, folder)
        if problem:
            return {**found, "problem": f"not exported: {problem.strip()[:300]}"}
        found["predicted"], problem = weighed(row, binary, folder)
        if problem:
            return {**found, "problem": f"not weighed: {problem.strip()[:300]}"}
        measured, problem = started(row, folder, history)
        if problem:
            return {**found, "problem": f"did not run: {problem}"}
    found["steps"] = measured["steps"]
    found["asked"] = max(asked for step in measured["steps"] for _, asked in step.values())
    found["allocated"] = max(allocated for step in measured["steps"] for allocated, _ in step.values())
    found["difference"] = found["predicted"]["peak"] / found["asked"] - 1
    return found


def write(path, name, found):
    document = json.loads(path.read_text()) if path.exists() else {}
    document.setdefault("paper", {})[name] = {key: value for key, value in found.items() if key != "steps"}
    document["paper_versions"] = versions()
    path.write_text(json.dumps(document, indent=1) + "\n")


def versions():
    found = {}
    for engine, package in {"": ["torch", "transformers", "accelerate", "deepspeed", "peft", "trl", "torchtitan"],
                            "llama-factory": ["llamafactory", "transformers", "accelerate", "trl", "peft"]}.items():
        where = [str(APART[engine])] if engine else sys.path
        named = {each.metadata["Name"]: each.version for each in importlib.metadata.distributions(path=where)}
        found[engine or "all"] = {name: named[name] for name in package if name in named}
    checkout = os.environ.get("MEGATRON_LM")
    if checkout:
        said = subprocess.run(["git", "-C", checkout, "describe", "--tags", "--always"], capture_output=True, text=True)
        found["megatron"] = {"Megatron-LM": said.stdout.strip()}
    return found


def show(found):
    name = f"{found['engine']:<13} {found['model']:<12} {found['flags']}"
    if "problem" in found:
        print(f"{name}\n    {found['problem']}", flush=True)
        return
    print(f"{name}\n    weighed {found['predicted']['peak']:,}  asked {found['asked']:,}  {100 * found['difference']:+.3f} %  "
          f"max_memory_allocated {found['allocated']:,} {100 * (found['predicted']['peak'] / found['allocated'] - 1):+.3f} %", flush=True)
    if abs(found["difference"]) > ALLOWED:
        print(f"    weighed  {found['predicted']['phases']}\n    first    {found['predicted']['first']}")
        for step in found["steps"]:
            print(f"    measured { {phase: asked for phase, (_, asked) in step.items()} }", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--only", nargs="*", default=[], help="words that a row's engine, model and flags must have")
    parser.add_argument("--write", help="the file of results; rows that were not run stay as they are")
    parser.add_argument("--history", help="a file for what was alive at the peak (one row)")
    arguments = parser.parse_args()
    binary = str(Path(arguments.binary).resolve())
    rows = [row for row in ROWS if all(word in f"{row.engine} {row.model} {row.flags}" for word in arguments.only)]
    wrong = 0
    for row in rows:
        found = {"engine": row.engine, "entry": row.entry, "model": row.model, "flags": row.flags, "problem": row.missing} \
            if row.missing else tried(row, binary, arguments.history)
        show(found)
        if arguments.write:
            write(Path(arguments.write), f"{row.engine} {row.model} {row.flags}".strip(), found)
        # A known difference stays what it is said to be: one that grows, and one that has gone, is told, too.
        wrong += not row.missing and ("problem" in found or abs(found["difference"] - row.known) > ALLOWED)
    print(f"{len(rows) - wrong} of {len(rows)} within {100 * ALLOWED:.1f} %, off by what is known, or with a reason")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
