#!/usr/bin/env python3
"""Makes deaths: real failures of real PyTorch on the device of paper, each with its cause known by construction.

    make.py OUT --each 4                 every kind, four deaths each
    make.py OUT --only 'logits-*' --each 1

Each death is a folder OUT/HALF/KIND-NUMBER with oom.txt (what the run printed when it died), snapshot.pickle, train.log, run.toml and
truth.json. kind.py says how the truth is made sure of, runs.py how one runs.
"""

import argparse
import fnmatch
import json
import pickle
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from deaths.runs import MIB, died, forked, lived, needed, prepare, watched  # noqa: E402

SMALLEST = 1024 * MIB  # a run file knows no smaller device
ATTEMPTS = 6


# ---- a death with its truth --------------------------------------------------------------------------------------------------

class Redrawn(Exception):
    """These sizes make no death of the kind."""


def bounds(kind, found, right):
    """The device must be larger than what the right run needs and what the wrong one does before its window, and smaller than the
    most of the window."""
    outside, before, within = found["outside"], 0, 0
    seen = False
    for step, name, peak in found["phases"]:
        inside = step >= kind.from_step and (not kind.window or name in kind.window)
        if inside:
            seen = True
            within = max(within, peak)
        elif not seen:
            before = max(before, peak)
    least = max(before + outside, right["reserved"] + right["outside"])
    return least, within + outside


def alive_at_failure(snapshot, storages, kind):
    """The allocations alive at the `oom` event, each with what the watched life knows of it."""
    trace = next(t for t in snapshot["device_traces"] if t)
    alive, count = {}, 0
    for event in trace:
        if event["action"] == "alloc":
            if count >= len(storages) or storages[count][0] != event["size"]:
                raise Redrawn(f"allocation {count} is another one than in the watched life")
            alive[event["addr"]] = storages[count]
            count += 1
        elif event["action"] == "free_requested":
            alive.pop(event["addr"], None)
        elif event["action"] == "oom":
            return list(alive.values()), event, count
    raise Redrawn("no oom event")


def fragmented(kind, run, right_run, found, count, folder, words):
    """A device on which the run dies with enough free in pieces, and on which the same run with segments that grow lives."""
    live = max(peak for _, _, peak in found["phases"]) + found["outside"]
    for more in (1.01, 1.03, 1.06, 1.1, 1.15, 1.22, 1.3):
        capacity = int(live * more) // (2 * MIB) * (2 * MIB)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        result = forked(lambda: died(kind, run, capacity, count, folder), folder / "train.log")
        where = result and result["death"]
        if not where:
            break
        if where["free"] + where["reserved"] - where["allocated"] >= where["tried"] and where["step"] >= kind.from_step:
            right = forked(lambda: needed(kind, right_run, False, count, capacity), words)
            if right is not None:
                return capacity, result, right
    raise Redrawn("no device on which the pieces are too small and would be enough together")


def make_one(kind, number, out, attempt):
    seed = f"{kind.name}/{number}/{attempt}"
    draw = random.Random(seed)
    run = kind.draw(draw)
    draw.random()
    count = draw.getrandbits(30)
    words = out / "words.txt"
    found = forked(lambda: watched(kind, run, True, count), words)
    if found is None:
        raise Redrawn("watched: " + last_line(words))
    right_run, changes = kind.fixed(run)
    folder = out / "death"
    if kind.category == "fragmentation":
        capacity, result, right = fragmented(kind, run, right_run, found, count, folder, words)
        return kept(kind, number, out, run, capacity, found, right, changes, result, seed)
    right = forked(lambda: needed(kind, right_run, False, count), words)
    if right is None:
        raise Redrawn("right: " + last_line(words))
    least, most = bounds(kind, found, right)
    if most < least + 16 * MIB:
        raise Redrawn(f"needs {most / MIB:.0f} MiB, {least / MIB:.0f} without the cause")
    share = draw.uniform(*kind.share)
    for _ in range(6):
        capacity = int(least + share * (most - least)) // (2 * MIB) * (2 * MIB)
        if capacity < SMALLEST:
            raise Redrawn("a device of less than 1 GiB")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        result = forked(lambda: died(kind, run, capacity, count, folder), folder / "train.log")
        if result is None:
            raise Redrawn("death: " + last_line(folder / "train.log"))
        where = result["death"]
        if where is None:
            most = capacity
        elif "OutOfMemoryError" not in result["failure"]:
            raise Redrawn("death: " + result["failure"][-300:])
        elif kind.window and where["phase"] not in kind.window or where["step"] < kind.from_step:
            least = capacity
        else:
            snapshot = pickle.loads((folder / "snapshot.pickle").read_bytes())
            alive, event, count_of_them = alive_at_failure(snapshot, found["storages"], kind)
            order = [pile in kind.failing for _, pile in found["storages"]]
            if not kind.failing or order[count_of_them]:
                break
            if any(order[:count_of_them]):
                most = capacity
            else:
                least = capacity
        share = 0.5
    else:
        raise Redrawn(f"no device where it dies in {kind.window}: {where}")
    for stage in run.get("_stages", ()):
        report = forked(lambda: needed(kind, {**run, "_stage": stage}, False, count), words)
        with open(folder / "train.log", "a") as log:
            print(report["report"], file=log)
    return kept(kind, number, out, run, capacity, found, right, changes, result, seed)


def kept(kind, number, out, run, capacity, found, right, changes, result, seed):
    """The death's folder, with its truth."""
    from deaths.kind import half_of
    from deaths.texts import neutral, write_run
    folder, where = out / "death", result["death"]
    snapshot = pickle.loads((folder / "snapshot.pickle").read_bytes())
    alive, event, _ = alive_at_failure(snapshot, found["storages"], kind)
    classes = summed(alive)
    total = sum(row["bytes"] for row in classes)
    for name, share in kind.least.items():
        has = sum(row["bytes"] for row in classes if row["class"] == name)
        if has < share * total:
            raise Redrawn(f"{name} are {100 * has / total:.0f} % of what is alive")
    (folder / "oom.txt").write_text(neutral(result["failure"]))
    log = (folder / "train.log")
    log.write_text(neutral(log.read_text(errors="replace")))
    write_run(folder / "run.toml", run, capacity)
    truth = {"kind": kind.name, "category": kind.category, "also": list(kind.also), "from_text": list(kind.from_text),
             "step": where["step"], "phase": where["phase"], "capacity_bytes": capacity, "event_bytes": event["size"],
             "allocated_bytes": where["allocated"], "reserved_bytes": where["reserved"], "alive_bytes": total, "classes": classes,
             "outside_bytes": result["outside"], "snapshot_from": "observer" if kind.observer else "except",
             "fix": {"change": changes, "without_the_error": kind.live.__name__ != "train", "needs_bytes": right["reserved"] + right["outside"]},
             "seed": seed}
    (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    target = out / half_of(kind.name, KINDS) / f"{kind.name}-{number}"
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(exist_ok=True)
    folder.replace(target)
    return truth


def make_other(kind, number, out):
    """A run that does not die of device memory."""
    from deaths.kind import half_of
    from deaths.texts import neutral, write_run
    seed = f"{kind.name}/{number}/0"
    draw = random.Random(seed)
    run = kind.draw(draw)
    count = draw.getrandbits(30)
    folder, words = out / "death", out / "words.txt"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    need = forked(lambda: lived(kind, run, count, folder), words)
    if need is None:
        raise Redrawn("lived: " + last_line(words))
    capacity = int((need["reserved"] + need["outside"]) * draw.uniform(1.15, 1.8)) // (2 * MIB) * (2 * MIB)
    capacity = max(capacity, SMALLEST)
    result = forked(lambda: lived(kind, {**run, "_capacity": capacity}, count, folder), folder / "train.log")
    if result is None or bool(result["failure"]) != (kind.ends == "other") or "OutOfMemoryError" in result["failure"]:
        raise Redrawn("lived: " + last_line(folder / "train.log"))
    (folder / "train.log").write_text(neutral((folder / "train.log").read_text(errors="replace")))
    if result["failure"]:
        (folder / "oom.txt").write_text(neutral(result["failure"]))
    write_run(folder / "run.toml", run, capacity)
    truth = {"kind": kind.name, "category": kind.category, "also": list(kind.also), "from_text": list(kind.from_text), "step": kind.steps,
             "phase": "after", "capacity_bytes": capacity, "classes": [], "seed": seed}
    (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    target = out / half_of(kind.name, KINDS) / f"{kind.name}-{number}"
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(exist_ok=True)
    folder.replace(target)
    return {**truth, "alive_bytes": 0}


def summed(alive):
    from collections import Counter
    from deaths.classes import PILES
    from recorder.history import rounded
    classes = Counter()
    for requested, name in alive:
        classes[name] += rounded(requested)
    return [{"class": name, "bytes": size, "piles": list(PILES[name])} for name, size in classes.most_common()]


def last_line(path):
    lines = [line for line in path.read_text(errors="replace").strip().splitlines() if line.strip()]
    told = [line for line in lines if "Error" in line or "Unsupported" in line or "Redrawn" in line]
    return (told or lines or ["no word"])[-1][:200]


def main():
    global KINDS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", action="append", default=[], help="a pattern of kinds; may be given again")
    parser.add_argument("--each", type=int, default=4, help="deaths of each kind")
    parser.add_argument("--again", action="store_true", help="also deaths that are there")
    parser.add_argument("--single", action="store_true", help="only kinds of one device without an engine: a second each")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--part", default="0/1", help="I/N: the I-th of N parts, for N processes beside each other")
    arguments = parser.parse_args()
    KINDS = prepare()
    from deaths.kind import half_of
    part, parts = map(int, arguments.part.split("/"))
    chosen = [k for k in KINDS.values() if not arguments.only or any(fnmatch.fnmatch(k.name, pattern) for pattern in arguments.only)]
    if arguments.single:
        runs = {k.name: k.draw(random.Random(k.name)) for k in chosen}
        chosen = [k for k in chosen if runs[k.name]["cluster"]["devices"] == 1 and runs[k.name]["engine"] == "ddp"]
    if arguments.list:
        for each in chosen:
            print(f"{half_of(each.name, KINDS):12} {each.category:28} {each.name}")
        return 0
    arguments.out.mkdir(parents=True, exist_ok=True)
    made, missed = 0, []
    with tempfile.TemporaryDirectory(dir=arguments.out) as scratch:
        chosen.sort(key=lambda each: each.log == "engine")  # what takes longest comes last
        for number in range(arguments.each):
            for each in chosen[part::parts]:
                if (arguments.out / half_of(each.name, KINDS) / f"{each.name}-{number}" / "truth.json").exists() and not arguments.again:
                    made += 1
                    continue
                begun = time.time()
                truth, why = attempted(each, number, Made(arguments.out, scratch))
                print(f"{time.time() - begun:5.1f} s  {each.name}-{number}  {told(truth) if truth else 'NOT MADE: ' + why}", flush=True)
                made += truth is not None
                if truth is None:
                    missed.append(each.name)
    print(f"{made} deaths, {len(missed)} not made")
    return 1 if missed else 0


def attempted(kind, number, place):
    """The truth of the death, or why there is none: sizes that make no such death are drawn again."""
    why = []
    for attempt in range(ATTEMPTS):
        try:
            return (make_one(kind, number, place, attempt) if kind.ends == "memory" else make_other(kind, number, place)), ""
        except Redrawn as reason:
            why.append(str(reason))
            if why.count(why[-1]) == 3:
                break  # it is not the sizes
    return None, "\n        ".join(dict.fromkeys(why))


def told(truth):
    return f"step {truth['step']} {truth['phase']}, {truth['alive_bytes'] / 2**30:.2f} GiB alive: " + ", ".join(
        f"{row['class']} {100 * row['bytes'] / truth['alive_bytes']:.0f} %" for row in truth["classes"][:4])


class Made:
    """Where deaths go, and where they are made."""

    def __init__(self, out, scratch):
        self.out, self.scratch = out, Path(scratch)

    def __truediv__(self, name):
        return (self.out if name in ("development", "test") else self.scratch) / name


if __name__ == "__main__":
    sys.exit(main())
