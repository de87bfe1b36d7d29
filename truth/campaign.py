#!/usr/bin/env python3
"""Records many runs: every case of cases.py that has no record yet, each in a process of its own.

    campaign.py                        on paper: no GPU needed
    campaign.py --device gpu           on the GPU of this machine
    campaign.py --device gpu --dry-run the same commands, on paper, into a folder that is thrown away
    campaign.py --only 'llama-f*' --again --list
"""

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def record_one(arguments):
    """In the process of one case."""
    sys.path.insert(0, str(HERE))
    from cases import SEQUENCES, cases, stage_of
    run = cases()[arguments.case]
    if arguments.device == "paper":
        from recorder import paper
        paper.load(device_bytes=arguments.device_bytes)
    import training
    from recorder.record import Recorder
    recorder = Recorder(run)
    training.train_one(recorder, run, stage_of(arguments.case))
    record = recorder.record(sequence=arguments.case in SEQUENCES, versions=("transformers", "accelerate", "peft"))
    if "-stage-" in arguments.case:
        record["coordinates"] = {"pipeline": stage_of(arguments.case)}
    write(Path(arguments.out) / f"{arguments.case}.json", record)
    # Communicators and watchdogs have nothing more to say.
    sys.stdout.flush()
    os._exit(0)


def write(path, record):
    """One line for each element of a list of tables: small, and readable in a diff."""
    def lines(value, indent):
        inner = indent + " "
        if isinstance(value, dict) and indent.count(" ") < 2 and value:
            return "{\n" + ",\n".join(f"{inner}{json.dumps(k)}: {lines(v, inner)}" for k, v in value.items()) + f"\n{indent}}}"
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(f"{inner}{json.dumps(v, separators=(',', ':'))}" for v in value) + f"\n{indent}]"
        return json.dumps(value, separators=(",", ":"))
    part = path.with_suffix(".part")
    part.write_text(lines(record, "") + "\n")
    json.loads(part.read_text())
    part.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("paper", "gpu"), default="paper")
    parser.add_argument("--only", action="append", default=[], help="a pattern of case names; may be given again")
    parser.add_argument("--again", action="store_true", help="also cases that have a record")
    parser.add_argument("--dry-run", action="store_true", help="everything on paper, nothing kept")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--out", help="folder of the records")
    parser.add_argument("--limit-seconds", type=int, default=300, help="for one case")
    parser.add_argument("--device-bytes", type=int, default=2 * 10**12, help="memory of the device on paper")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        return record_one(arguments)
    from cases import cases
    table = cases()
    chosen = [n for n in table if not arguments.only or any(fnmatch.fnmatch(n, pattern) for pattern in arguments.only)]
    if arguments.list:
        print("\n".join(chosen))
        return 0
    default = HERE / ("records" if arguments.device == "paper" else "records-gpu")
    out = Path(tempfile.mkdtemp(prefix="records-")) if arguments.dry_run else Path(arguments.out or default)
    out.mkdir(parents=True, exist_ok=True)
    device = "paper" if arguments.dry_run else arguments.device
    failed, begun = [], time.time()
    for name in chosen:
        path = out / f"{name}.json"
        if path.exists() and not arguments.again and json.loads(path.read_text())["run"] == table[name]:
            continue
        start = time.time()
        command = [sys.executable, __file__, "--case", name, "--device", device, "--out", str(out),
                   "--device-bytes", str(arguments.device_bytes)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.limit_seconds)
            words = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])
            if words:
                causes = [w for w in words if "Error" in w or "Unsupported" in w] or words
                words = causes[-1][:200]
        except subprocess.TimeoutExpired:
            words = f"took longer than {arguments.limit_seconds} s"
        if words:
            failed.append(name)
        print(f"{time.time() - start:6.1f} s  {name}  {words or 'recorded'}", flush=True)
    print(f"{time.time() - begun:6.1f} s  {len(chosen) - len(failed)} of {len(chosen)} have a record")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
