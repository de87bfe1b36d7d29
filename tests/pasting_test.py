#!/usr/bin/env python3
"""Public configurations, exported to their own format: pasting_test.py BINARY [--diffs]

Every file of pasting.json, and of launch_files.json where its format is also written, is exported twice. Without a flag
it must come back to the byte. With one key changed the diff holds only lines that say this key: what was taken away and
what was added are as many lines as the key needs, and reading the result again gives the value that was asked for.

--diffs prints each diff.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parent
CORPUS = TESTS.parent / "fuzz" / "corpus" / "launch"
OWN = TESTS / "pasting"
LEAST = 100

# Of each format: its target, and what may be changed, with the words by which the format says it.
TARGETS = {
    "Axolotl YAML": "axolotl",
    "LLaMA-Factory YAML": "llama-factory",
    "DeepSpeed JSON": "deepspeed",
    "Accelerate YAML": "accelerate",
    "Trainer and TRL": "trl",
    "torchtitan TOML": "torchtitan",
    "Megatron-LM arguments": "megatron",
    "nanotron YAML": "nanotron",
}
CHANGES = {
    "training.micro_batch": ("--micro-batch", ["micro_batch_size", "micro-batch-size", "per_device_train_batch_size",
                                               "train_micro_batch_size_per_gpu", "local_batch_size"]),
    "training.sequence_length": ("--sequence-length", ["sequence_len", "cutoff_len", "max_length", "max_seq_length",
                                                       "seq-length", "seq_length", "seq_len", "sequence_length",
                                                       "max-position-embeddings", "max_position_embeddings"]),
    "parallel.zero_stage": ("--zero-stage", ["stage", "zero", "reshard_after_forward", "sharding_strategy"]),
}


def run(binary, folder, *words):
    return subprocess.run([binary, *words], cwd=folder, capture_output=True, check=False)


def imported(binary, folder, file, *words):
    done = run(binary, folder, "import", file, *words, "--json")
    return json.loads(done.stdout) if done.returncode == 0 else None


def value_at(document, path):
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None
    return document


def other(key, value):
    if key == "parallel.zero_stage":
        return {1: 2, 2: 3, 3: 2}.get(value, value)
    return value * 2


def change_of(report):
    """A key that this file says itself, and its flag with another value."""
    for key, (flag, words) in CHANGES.items():
        value = value_at(report["run"], key)
        origin = report["origins"].get(key, {})
        if value and isinstance(value, int) and not str(origin.get("source", "<")).startswith("<"):
            yield key, [flag, str(other(key, value))], other(key, value), words


def faults_of(binary, folder, row, show):
    file, target = row["file"], TARGETS[row["format"]]
    text = (folder / file).read_bytes()
    same = run(binary, folder, "export", file, "--to", target)
    if same.returncode != 0:
        return [f"export: exit {same.returncode}: {same.stderr.decode()}"], 0
    if same.stdout != text:
        return ["without a change it is another text"], 0
    if not others_ends(binary, folder, file, target, text):
        return ["with another line end or a byte order mark it is another text"], 0
    report = imported(binary, folder, file)
    for key, flags, wanted, words in change_of(report):
        done = run(binary, folder, "export", file, "--to", target, *flags, "--diff")
        if done.returncode != 0:
            said = done.stderr.decode()
            if "error[E615]" in said or "error[E601]" in said:  # refused by name: the file is not written
                if row.get("not_changed") and row["not_changed"] in said:
                    return [], 0
                return [f"{' '.join(flags)}: {said}"], 0
            continue  # a value that the run may not have
        diff = done.stdout.decode()
        if show:
            print(f"{row['source']}: {' '.join(flags)}\n{diff}")
        lines = [line for line in diff.splitlines() if line[:1] in "+-" and line[:4] not in ("--- ", "+++ ")]
        strange = [line for line in lines if not any(word in line for word in words) and not is_variable(line, row)]
        if strange or not lines:
            return [f"{' '.join(flags)}: the diff says more than {key}:\n{diff}"], 0
        return [], 1
    return [], 0


def others_ends(binary, folder, file, target, text):
    """The same file as other editors write it: lines that end in CR LF, a byte order mark, no end of the last line."""
    for other in (text.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + text, text.rstrip(b"\n")):
        path = folder / f"pasted-{os.getpid()}-{file}"
        path.write_bytes(other)
        try:
            done = run(binary, folder, "export", path.name, "--to", target)
        finally:
            path.unlink()
        if done.returncode == 0 and done.stdout != other:
            return False
    return True


def is_variable(line, row):
    """A script that says the value in a variable of its own."""
    return row["format"] == "Megatron-LM arguments" and "=" in line


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("binary")
    arguments.add_argument("--diffs", action="store_true")
    chosen = arguments.parse_args()
    binary = str(pathlib.Path(chosen.binary).resolve())
    rows = [(OWN, row) for row in json.loads((TESTS / "pasting.json").read_text(encoding="utf-8"))]
    rows += [(CORPUS, row) for row in json.loads((TESTS / "launch_files.json").read_text(encoding="utf-8"))]
    failed = count = changed = 0
    for folder, row in rows:
        if row["format"] not in TARGETS:
            continue
        count += 1
        faults, changes = faults_of(binary, folder, row, chosen.diffs)
        changed += changes
        for fault in faults:
            failed += 1
            print(f"{row['format']}, {row['file']} (as {row['source']}): {fault}\n")
    if count < LEAST:
        failed += 1
        print(f"{count} files, {LEAST} are wanted")
    print(f"{count} files unchanged to the byte, {changed} with one key changed, {failed} faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
