#!/usr/bin/env python3
"""Draws runs, records each on paper, asks our program, and shrinks what differs (campaign.py --random N --seed S --binary STEELYARD).

    step peak      the highest of forward, backward and optimizer of a later step: equal to the byte, within 1 %, the worst
    every phase    of first and later steps, too

A difference is shrunk: one key after the other becomes simpler, as long as half of the difference stays.
"""

import collections
import json
import subprocess
import sys
from pathlib import Path

import sampler

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))
from records_test import predicted_peaks  # noqa: E402

STEP = ("forward", "backward", "optimizer")


def ask(binary, runs):
    lines = "".join(json.dumps(run) + "\n" for run in runs)
    done = subprocess.run([binary, "weigh", "--jobs", "-"], input=lines, capture_output=True, text=True, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def recorded_peaks(record):
    return {(row["step"], row["phase"]): row["allocated_bytes"] for row in record["phases"] if row["step"] != "owners"}


class Outcome:
    """One run: what was recorded and what was said of it."""

    def __init__(self, record, answer):
        self.refused = "" if "ranks" in answer else str(answer.get("error", answer))[:160]
        self.off, self.relative, self.equal = {}, 0.0, False
        if self.refused:
            return
        said, seen = predicted_peaks(answer, record.get("coordinates", {}).get("pipeline", 0)), recorded_peaks(record)
        self.off = {f"{s} {p}": said[s, p] - seen[s, p] for s, p in seen if (s, p) in said and said[s, p] != seen[s, p] and s != "load"}
        step = [max(peaks["steady", phase] for phase in STEP if ("steady", phase) in peaks) for peaks in (said, seen)]
        self.relative = (step[0] - step[1]) / step[1]
        self.equal = step[0] == step[1]


def in_words(run):
    """The keys that a draw may set, on one line."""
    training, parallel = run["training"], run.get("parallel", {})
    words = [run["model"]["model_type"], run["engine"], f"{run['cluster']['devices']} devices", training["precision"], training["attention"],
             f"{training['micro_batch']} x {training['sequence_length']}", training["optimizer"], training["optimizer_form"]]
    words += [f"{key} {value}" for key, value in parallel.items()]
    words += [key for key in ("gradient_clip",) if training.get(key)]
    words += [f"accumulation {training['gradient_accumulation']}"] if training.get("gradient_accumulation") else []
    words += ["recompute " + " ".join(str(v) for v in run["recompute"].values())] if run.get("recompute") else []
    words += ["adapter " + " ".join(str(v) for v in run["adapter"].values())] if run.get("adapter") else []
    return " · ".join(words)


def shrink(run, outcome, record_of, binary):
    """The simplest run found that has at least half of the difference, and the same sign."""
    changed = True
    while changed:
        changed = False
        for neighbour in sampler.simpler(run):
            record = record_of(neighbour)
            if isinstance(record, str):
                continue
            said = Outcome(record, ask(binary, [neighbour])[0])
            if said.refused or said.relative * outcome.relative <= 0 or abs(said.relative) < abs(outcome.relative) / 2:
                continue
            run, outcome, changed = neighbour, said, True
            break
    return run, outcome


def campaign(count, seed, binary, record_of, shrinks, first=0):
    """Prints each difference, its smallest run, and how far all are off. 0: none is off by more than 5 %."""
    outcomes, unrecorded, refused = [], collections.Counter(), collections.Counter()
    for number in range(first, first + count):
        run = sampler.draw(seed, number)
        record = record_of(run)
        if isinstance(record, str):
            unrecorded[record] += 1
            print(f"{sampler.name_of_draw(seed, number)}  not recorded: {record}  {in_words(run)}", flush=True)
            continue
        outcome = Outcome(record, ask(binary, [run])[0])
        if outcome.refused:
            refused[outcome.refused] += 1
            print(f"{sampler.name_of_draw(seed, number)}  refused: {outcome.refused}  {in_words(run)}", flush=True)
            continue
        outcomes.append(outcome)
        if not outcome.equal or outcome.off:
            print(f"{sampler.name_of_draw(seed, number)}  {100 * outcome.relative:+.3f} %  {in_words(run)}  {outcome.off}", flush=True)
        if shrinks and abs(outcome.relative) > 0.01:
            small, said = shrink(run, outcome, record_of, binary)
            print(f"    smallest: {100 * said.relative:+.3f} %  {in_words(small)}  {said.off}\n    {json.dumps(small)}", flush=True)
    summary(outcomes, unrecorded, refused)
    return 1 if any(abs(o.relative) > 0.05 for o in outcomes) else 0


def summary(outcomes, unrecorded, refused):
    total = len(outcomes) or 1
    share = lambda test: f"{100 * sum(map(test, outcomes)) / total:.1f} %"  # noqa: E731
    worst = max(outcomes, key=lambda o: abs(o.relative), default=None)
    print(f"{len(outcomes)} compared, {sum(refused.values())} refused by name, {sum(unrecorded.values())} not recorded")
    print(f"step peak equal to the byte {share(lambda o: o.equal)}, within 1 % {share(lambda o: abs(o.relative) <= 0.01)}, "
          f"off by more than 5 % {share(lambda o: abs(o.relative) > 0.05)}, equal in every phase {share(lambda o: not o.off)}"
          + (f", worst {100 * worst.relative:+.2f} %" if worst else ""))
