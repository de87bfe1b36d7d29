#!/usr/bin/env python3
"""Records many runs: every case of cases.py that has no record yet, each in a process of its own, forked from one that has
imported PyTorch and has not touched the device.

    campaign.py                        on paper: no GPU needed
    campaign.py --device gpu           on the GPU of this machine
    campaign.py --device gpu --ranks --at-once 8 --device-bytes 130000000000    also cases of ranks that are not there, beside each other
    campaign.py --device gpu --dry-run the same commands, on paper, into a folder that is thrown away
    campaign.py --device gpu --budget-seconds 420 --snapshots     what fits into the time, the most wanted first
    campaign.py --only 'llama-f*' --again --list
    campaign.py --random 300 --seed 7 --binary ../build/release/steelyard     draws, records, compares and shrinks (random_runs.py)
"""

import argparse
import contextlib
import fnmatch
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent


def prepare(arguments):
    """What every case needs, before any of them: the device and the imports."""
    if arguments.device == "paper" or arguments.dry_run:
        from recorder import paper
        paper.load(device_bytes=arguments.device_bytes)
    elif arguments.ranks:
        from recorder import paper
        paper.load_collectives()
    import torch
    with no_device_in_sight():
        import torch.distributed.fsdp
        import torch.distributed.pipelining
        import torch.distributed.tensor.parallel
        import training  # noqa: F401
        import transformers.models.llama.modeling_llama
        from recorder.record import Recorder  # noqa: F401
    assert not torch.cuda.is_initialized()


@contextlib.contextmanager
def no_device_in_sight():
    """torchao, which transformers imports where it is there, asks while it is imported what the device can do: then no process
    forked from this one could use it."""
    import torch
    there, count = torch.cuda.is_available, torch.cuda.device_count
    torch.cuda.is_available, torch.cuda.device_count = lambda: False, lambda: 0
    yield
    torch.cuda.is_available, torch.cuda.device_count = there, count


def record_one(name, out, snapshots, shares_device=False, run=None):
    """In the process of one case; `run` where it is none of the table."""
    import training
    from cases import SEQUENCES, cases, stage_of
    from recorder.record import Recorder
    run = run or cases()[name]
    settings = run.get("environment", {}).get("PYTORCH_CUDA_ALLOC_CONF")
    if settings:
        import torch
        torch.cuda.memory._set_allocator_settings(settings)
    recorder = Recorder(run, snapshot=out / f"{name}.pickle" if snapshots else None, shares_device=shares_device)
    training.train_one(recorder, run, stage_of(name))
    record = recorder.record(sequence=name in SEQUENCES, versions=training.packages_of(run))
    if "-stage-" in name:
        record["coordinates"] = {"pipeline": stage_of(name)}
    write(out / f"{name}.json", record)


class Case:
    """One case in a process of its own."""

    def __init__(self, name, out, snapshots, shares_device=False, run=None):
        self.name, self.begun, self.words = name, time.time(), tempfile.TemporaryFile("w+")
        sys.stdout.flush()
        self.child = os.fork()
        if self.child == 0:
            os.dup2(self.words.fileno(), 1)
            os.dup2(self.words.fileno(), 2)
            failed = 1
            try:
                record_one(name, out, snapshots, shares_device, run)
                failed = 0
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(failed)  # communicators and watchdogs have nothing more to say

    def ended(self, limit_seconds):
        """None while it runs; then why there is no record, empty where there is one."""
        ended, status = os.waitpid(self.child, os.WNOHANG)
        if not ended:
            if time.time() - self.begun < limit_seconds:
                return None
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
            return f"took longer than {limit_seconds} s"
        if status == 0:
            return ""
        self.words.seek(0)
        lines = self.words.read().strip().splitlines() or [f"ended with status {status}"]
        return ([w for w in lines if "Error" in w or "Unsupported" in w] or lines)[-1][:200]


def in_a_process(name, out, limit_seconds, snapshots, run=None):
    """Why there is no record; empty where there is one."""
    case = Case(name, out, snapshots, run=run)
    while (words := case.ended(limit_seconds)) is None:
        time.sleep(0.05)
    return words


CONTEXT_BYTES = 10**9  # of a process on a device, with what its libraries load


def bytes_on_paper(name):
    """What the case reserves by its record on paper, and its context."""
    record = HERE / "records" / f"{name}.json"
    if not record.exists():
        return 20 * 10**9
    return CONTEXT_BYTES + max(row["torch"]["reserved_bytes"] for row in json.loads(record.read_text())["phases"])


def record_all(names, out, arguments):
    """As many at once as were asked for and as find room on the device, in the order of `names`; the names that failed."""
    failed, waiting, running, begun = [], list(names), [], time.time()
    while waiting or running:
        late = arguments.budget_seconds and time.time() - begun > arguments.budget_seconds
        if late and waiting:
            print(f"{arguments.budget_seconds:.0f} s are over before {waiting[0]}")
            waiting = []
        taken = sum(bytes_on_paper(case.name) for case in running)
        while waiting and len(running) < arguments.at_once and (
                not running or taken + bytes_on_paper(waiting[0]) < arguments.device_bytes):
            running.append(Case(waiting.pop(0), out, arguments.snapshots, arguments.at_once > 1))
            taken += bytes_on_paper(running[-1].name)
        for case in list(running):
            words = case.ended(arguments.limit_seconds)
            if words is None:
                continue
            running.remove(case)
            if words:
                failed.append(case.name)
            print(f"{time.time() - case.begun:6.1f} s  {case.name}  {words or 'recorded'}", flush=True)
        time.sleep(0.02)
    return failed


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


def draw_and_compare(arguments):
    """Recordings of what is drawn are thrown away, or kept in --out."""
    import random_runs
    prepare(arguments)
    with tempfile.TemporaryDirectory(prefix="random-") as folder:
        out = Path(arguments.out or folder)
        out.mkdir(parents=True, exist_ok=True)
        count = 0

        def record_of(run):
            """The record, or why there is none."""
            nonlocal count
            count += 1
            name = f"drawn-{arguments.seed}-{count}"
            words = in_a_process(name, out, arguments.limit_seconds, False, run)
            return words or json.loads((out / f"{name}.json").read_text())

        return random_runs.campaign(arguments.random, arguments.seed, arguments.binary, record_of, not arguments.no_shrinking,
                                    arguments.first)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("paper", "gpu"), default="paper")
    parser.add_argument("--only", action="append", default=[], help="a pattern of case names; may be given again")
    parser.add_argument("--again", action="store_true", help="also cases that have a record")
    parser.add_argument("--dry-run", action="store_true", help="everything on paper, nothing kept")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--out", help="folder of the records")
    parser.add_argument("--limit-seconds", type=int, default=300, help="for one case")
    parser.add_argument("--budget-seconds", type=float, help="no case begins after that")
    parser.add_argument("--snapshots", action="store_true", help="the allocator's snapshot at the end of each steady step, too")
    parser.add_argument("--device-bytes", type=int, default=2 * 10**12, help="memory of the device on paper; of a GPU, what --at-once shares")
    parser.add_argument("--at-once", type=int, default=1, help="cases beside each other; on a GPU what is outside the allocator is then not known")
    parser.add_argument("--ranks", action="store_true", help="on a GPU: also cases of several ranks, over NCCL on paper")
    parser.add_argument("--random", type=int, metavar="N", help="draw N runs, record and compare them, shrink what differs")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--first", type=int, default=0, help="the number of the first draw")
    parser.add_argument("--binary", help="steelyard, for --random")
    parser.add_argument("--no-shrinking", action="store_true")
    arguments = parser.parse_args()
    if arguments.random:
        if not arguments.binary:
            parser.error("--random needs --binary, the program that is compared")
        return draw_and_compare(arguments)
    from cases import FIRST_ON_A_GPU, cases
    table = cases()
    if arguments.device == "gpu":  # the most wanted first
        alone = [n for n, run in table.items() if arguments.ranks or run["cluster"]["devices"] == 1]
        table = {n: table[n] for n in [*FIRST_ON_A_GPU, *(n for n in alone if n not in FIRST_ON_A_GPU)]}
    else:
        table = {n: run for n, run in table.items() if run["training"].get("attention") != "cudnn"}
    chosen = [n for n in table if not arguments.only or any(fnmatch.fnmatch(n, pattern) for pattern in arguments.only)]
    if arguments.list:
        print("\n".join(chosen))
        return 0
    default = HERE / ("records" if arguments.device == "paper" else "records-gpu")
    out = Path(tempfile.mkdtemp(prefix="records-")) if arguments.dry_run else Path(arguments.out or default)
    out.mkdir(parents=True, exist_ok=True)
    prepare(arguments)
    begun = time.time()

    def is_recorded(name):
        path = out / f"{name}.json"
        return path.exists() and json.loads(path.read_text())["run"] == table[name]

    failed = record_all([name for name in chosen if arguments.again or not is_recorded(name)], out, arguments)
    recorded = sum((out / f"{name}.json").exists() for name in chosen)
    print(f"{time.time() - begun:6.1f} s  {recorded} of {len(chosen)} have a record")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
