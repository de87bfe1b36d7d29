#!/usr/bin/env python3
"""Rehearses public training scripts as they are, and writes down what came of each.

verify_rehearse.py --binary build/release/steelyard [--only WORDS] [--write tests/verify/rehearsed.json] [--checkouts FOLDER]

Scripts are fetched from github.com at the commit of their row (public_scripts.py); --checkouts names a folder of clones instead,
OWNER+NAME each. They run with the Python of this environment, which has PyTorch's CUDA build and what the scripts import.
"""

import argparse
import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path

from public_scripts import SCRIPTS

PACKAGES = ("torch", "transformers", "accelerate", "trl", "peft", "deepspeed", "datasets", "triton")


def fetch(script, folder, checkouts):
    """The repository as it was at that commit."""
    if script.repository == "installed":
        return
    archive = folder / "scripts.tar"
    if checkouts:
        clone = Path(checkouts) / script.repository.replace("/", "+")
        clone = clone / "repo" if (clone / "repo").is_dir() else clone
        with open(archive, "wb") as file:
            subprocess.run(["git", "-C", clone, "archive", script.commit, script.folder], stdout=file, stderr=subprocess.DEVNULL)
        with tarfile.open(archive) as files:
            files.extractall(folder, filter="data")
        return
    urllib.request.urlretrieve(f"https://codeload.github.com/{script.repository}/tar.gz/{script.commit}", archive)
    with tarfile.open(archive) as files:
        for member in files.getmembers():
            member.name = member.name.partition("/")[2]
            if member.name:
                files.extract(member, folder, filter="data")


def files_below(folder):
    return {str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts}


def rehearsed(script, binary, checkouts, limit):
    found = {"name": script.name, "url": script.url, "on": script.on, "command": script.command, "flags": script.flags}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fetch(script, folder, checkouts)
        here = folder / script.folder
        if script.prepare:
            subprocess.run([sys.executable, "-c", script.prepare], cwd=here, check=True)
        before, began = files_below(here), time.time()
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1",
                       "PYTHONPATH": str(folder) if script.repository == "karpathy/minGPT" else ""}
        command = [binary, "rehearse", "--on", script.on, *shlex.split(script.flags), "--json", "--", *shlex.split(script.command)]
        try:
            done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=limit, env=environment)
        except subprocess.TimeoutExpired:
            return {**found, "problem": f"not over after {limit} s"}
        found["seconds"] = round(time.time() - began, 1)
        found["written"] = sorted(path for path, state in files_below(here).items() if before.get(path) != state)
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        return {**found, "problem": (done.stderr or "no word").strip().splitlines()[-1][:300]}
    if "rehearsal" not in answer:
        problem = answer.get("problems", [{}])[0]
        return {**found, "problem": f"{problem.get('message', '')} ({problem.get('help', '')})"[:400], "said": done.stderr[-3000:]}
    rank = answer["rehearsal"]["ranks"][0]
    return {**found, "verdict": answer["verdict"], "steps": rank["steps"], "peak": answer["peak"]["allocated_bytes"],
            "reserved": answer["peak"]["reserved_bytes"], "phase": answer["peak"]["phase"],
            "max_memory_allocated": max(phase["max_memory_allocated_bytes"] for phase in rank["phases"]),
            "substitutions": sum(row["times"] for row in rank["substitutions"]),
            "kinds": sorted({row["what"] for row in rank["substitutions"]}),
            "unanswered": [row["name"] for row in rank["unanswered"]]}


def versions():
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def show(row):
    print(row["name"] + ": " + (f"NOT: {row['problem']}" if "problem" in row else
          f"{row['steps']} steps, {row['peak']:,} B in {row['phase']}, {row['seconds']} s, {row['substitutions']} substitutions, "
          f"wrote {row['written']}, unanswered {row['unanswered']}"), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--only", nargs="*", default=[], help="words that a row's name must have")
    parser.add_argument("--write", help="the file of results; rows that were not run stay as they are")
    parser.add_argument("--checkouts", help="a folder of clones")
    parser.add_argument("--limit", type=int, default=900, help="seconds of one script")
    chosen = parser.parse_args()
    rows = [script for script in SCRIPTS if all(word in script.name for word in chosen.only)]
    wrong = 0
    for script in rows:
        row = {"name": script.name, "url": script.url, "on": script.on, "command": script.command, "flags": script.flags,
               "problem": script.missing} if script.missing else \
            rehearsed(script, str(Path(chosen.binary).resolve()), chosen.checkouts, chosen.limit)
        show(row)
        wrong += not script.missing and (row.get("steps", 0) < 3 or bool(row.get("problem")))
        if chosen.write:
            path = Path(chosen.write)
            document = json.loads(path.read_text()) if path.exists() else {"rows": {}}
            document["rows"][script.name] = {key: value for key, value in row.items() if key != "said"}
            document["versions"] = versions()
            path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{len(rows) - wrong} of {len(rows)} ran three steps, or say why not")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
