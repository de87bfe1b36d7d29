#!/usr/bin/env python3
"""How far predictions have been off, term by term: writes data/bands.json, from which the bands of predictions are made.

    bands.py JUDGE FOLDER [FOLDER ...]      tools/judge's program, truth/records and tools/judge/rows

The terms of a prediction, and which reading speaks for one:

    states    parameters, gradients, master weights, moments      a reading of which states are at least half
    working   activations, temporaries, communication             a reading of which they are at least half
    slack     reserved and not allocated                          a row that prints both

Of a row that prints only what is reserved, `working` is held to both. Where all rows are such, what is missing below what is allocated is
its error and the rest is that of slack, layouts are told apart (`layout_of`: what collectives withhold is in the reading), and those that
died though they were expected to fit count, too, with what was spare at least: the survivors alone would speak for themselves. An error is
what was measured less what was predicted, in parts of the term; each run counts once for a term, with its highest reading. From the errors of
one engine and model code the 2.5th and 97.5th percentile are written. For engines without evidence, and for versions of PyTorch or
transformers that were not recorded, those of all published sources are, each source weighing the same: recordings say nothing of what a
published run leaves unsaid. Only sources that tools/judge/split.json calls fit are looked at, and of these no reading that was inferred
from the measurement: docs/validation.md counts both. Readings of whole devices are not used either: what stands outside the allocator has a
band of its own (data/runtime.json).

Step times have errors of their own, by device, engine, model code and whether anything is exchanged (one device or several), in parts of the predicted step: the same percentiles, of pairs
with FEWEST_STEPS rows or more. Which errors stand for a pair without rows, src/predict/step_band.h says. What was inferred of a row's memory
says nothing of its time: these rows count here.
"""

import collections
import functools
import json
import pathlib
import subprocess
import sys

OUT = pathlib.Path(__file__).resolve().parent.parent / "data/bands.json"
STATES = ("parameters", "gradients", "master_weights", "optimizer_moments")
WORKING = ("activations", "temporary", "communication")
QUANTILES = (0.025, 0.975)
FEWEST = 10  # errors from which a percentile is worth its name
FEWEST_STEPS = 5  # as many as docs/validation.md lists a source with; of so few the percentiles are the extremes
SPLIT = pathlib.Path(__file__).resolve().parent.parent / "tools/judge/split.json"
RECORDS = "records"
INFERRED = ", inferred"
PEAKS = ("allocated", "later forward", "later backward", "later optimizer")
WORKING_OF_RESERVED, SLACK_OF_RESERVED = "working of what is reserved", "slack of what is reserved"
OF_STATES = ("resident", "optimizer phase", *PEAKS)


@functools.cache
def validated(binary, folders):
    done = subprocess.run([binary, *folders, "--rows", "--json"], capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)["sources"]


def sources_of(binary, folders):
    """Those in sample, by name; rows that were inferred stand apart, under a name of their own."""
    roles = json.loads(SPLIT.read_text(encoding="utf-8"))["sources"]
    return [source for source in validated(binary, tuple(folders))
            if roles.get(source["source"].removesuffix(INFERRED), {}).get("role") == "fit"]


def judged(binary, folders):
    for source in sources_of(binary, folders):
        if source["source"].endswith(INFERRED):
            continue
        for row in source["judged"]:
            if "readings" in row:
                yield source["source"], row


def step_errors(binary, folders):
    """(device, engine, model code, whether one or several of them) to [(error, source)], of every row that prints a time."""
    found = collections.defaultdict(list)
    for source in sources_of(binary, folders):
        for row in source["judged"]:
            if "step_time" in row:
                step = row["step_time"]
                alone = row["run"]["cluster"].get("devices", 1) == 1
                found[row["run"]["cluster"]["device"], row["engine"], row["implementation"], "one" if alone else "several"].append(
                    (step["measured_seconds"] / step["predicted_seconds"] - 1, source["source"].removesuffix(INFERRED)))
    return found


def step_entry(device, engine, implementation, devices, errors):
    counts = collections.Counter(source for _, source in errors)
    weighed = [(value, 1.0) for value, _ in errors]
    return {"device": device, "engine": engine, "implementation": implementation, "devices": devices,
            "low": round(min(0.0, percentile(weighed, QUANTILES[0])), 4), "high": round(max(0.0, percentile(weighed, QUANTILES[1])), 4),
            "source": ", ".join(f"{source} ({count})" for source, count in sorted(counts.items()))}


def part(reading, piles):
    return sum(reading["piles"][pile] for pile in piles)


def error(reading, of):
    """What a rounded number leaves open is no error: 45 GB may be 44.5."""
    off = reading["measured_bytes"] - reading["predicted_bytes"]
    beyond = max(0, abs(off) - reading.get("rounding_bytes", 0))
    return (beyond if off > 0 else -beyond) / of


def errors_of(row):
    """(term, error) of one row, each term at most once."""
    by_name = {reading["reading"]: reading for reading in row["readings"]}
    highest = max((by_name[name] for name in PEAKS if name in by_name), key=lambda r: r["measured_bytes"], default=None)
    found = {}
    for name in OF_STATES:
        reading = by_name.get(name)
        if reading and 2 * part(reading, STATES) >= reading["predicted_bytes"]:
            found.setdefault("states", error(reading, reading["predicted_bytes"]))
    reserved = by_name.get("reserved")
    if highest and 2 * part(highest, WORKING) >= highest["predicted_bytes"]:
        found["working"] = error(highest, part(highest, WORKING))
    if highest and reserved:
        measured = reserved["measured_bytes"] - highest["measured_bytes"]
        found["slack"] = (measured - reserved["piles"]["slack"]) / highest["predicted_bytes"]
    elif reserved:
        both = part(reserved, WORKING) + reserved["piles"]["slack"]
        if 2 * both >= reserved["predicted_bytes"]:
            found["working with slack"] = error(reserved, both)
            allocated = reserved["predicted_bytes"] - reserved["piles"]["slack"]
            missing = min(0, reserved["measured_bytes"] - allocated)
            above = max(0, error(reserved, part(reserved, WORKING)))
            found[WORKING_OF_RESERVED] = above or missing / part(reserved, WORKING)
            found[SLACK_OF_RESERVED] = min(0, reserved["measured_bytes"] - missing - reserved["predicted_bytes"]) / allocated
    elif row.get("out_of_memory") and row["spare_bytes"] > 0:
        found[WORKING_OF_RESERVED] = row["spare_bytes"] / row["working_bytes"]
    return found


LAYOUTS = ("one rank", "tensor", "tensor, stages")


def layout_of(row):
    """Who shares a layer (src/predict/band.cc)."""
    parallel = row["run"].get("parallel", {})
    if parallel.get("tensor", 1) == 1:
        return LAYOUTS[0]
    return LAYOUTS[1] if parallel.get("pipeline", 1) == 1 else LAYOUTS[2]


def percentile(weighed, quantile):
    """The smallest error that at least this part of the weight does not pass."""
    passed, whole = 0.0, sum(weight for _, weight in weighed)
    for value, weight in sorted(weighed):
        passed += weight
        if passed >= quantile * whole * (1 - 1e-12):
            return value
    raise AssertionError("no errors")


def entry(engine, implementation, term, errors, by_source=False, layout="any"):
    """`by_source`: each source weighs the same, and those of few runs nothing."""
    counts = collections.Counter(source for _, source in errors)
    if by_source:
        counts = {source: count for source, count in counts.items() if count >= FEWEST}
    weighed = [(value, 1 / counts[source] if by_source else 1.0) for value, source in errors if source in counts]
    # A band contains what is predicted.
    low = min(0.0, percentile(weighed, QUANTILES[0]))
    high = max(0.0, percentile(weighed, QUANTILES[1]))
    return {"engine": engine, "implementation": implementation, "layout": layout, "term": term, "low": round(low, 4), "high": round(high, 4),
            "source": ", ".join(f"{source} ({count})" for source, count in sorted(counts.items()))}


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    found, by_layout = collections.defaultdict(list), collections.defaultdict(list)
    for source, row in judged(sys.argv[1], sys.argv[2:]):
        key = (row["engine"], row["implementation"])
        for term, value in errors_of(row).items():
            found[*key, term].append((value, source))
            by_layout[*key, layout_of(row), term].append((value, source))
    entries = [entry("any", "any", term, [error for key, errors in found.items() if key[2] in terms for error in errors
                                          if error[1] != RECORDS], True)
               for term, terms in (("states", ("states",)), ("working", ("working", "working with slack")), ("slack", ("slack",)))]
    for engine, implementation in sorted({key[:2] for key in found}):
        errors = {term: found[engine, implementation, term] for term in ("states", "working", "slack", "working with slack")}
        both = errors.pop("working with slack")
        joint = len(errors["working"]) < FEWEST <= len(both)
        if joint:
            errors["working"], errors["slack"] = (found[engine, implementation, term] for term in (WORKING_OF_RESERVED, SLACK_OF_RESERVED))
        else:
            errors["working"] += both
        for term, observed in errors.items():
            if len(observed) >= FEWEST:
                entries.append(entry(engine, implementation, term, observed))
        for layout in LAYOUTS if joint else ():
            for term, of_reserved in (("working", WORKING_OF_RESERVED), ("slack", SLACK_OF_RESERVED)):
                if len(by_layout[engine, implementation, layout, of_reserved]) >= FEWEST:
                    entries.append(entry(engine, implementation, term, by_layout[engine, implementation, layout, of_reserved], layout=layout))
    document = {"about": "Errors of predictions, in parts of the term: what was measured less what was predicted. Written by truth/bands.py.",
                "percentiles": [100 * quantile for quantile in QUANTILES]}
    steps = [step_entry(*key, errors) for key, errors in sorted(step_errors(sys.argv[1], sys.argv[2:]).items()) if len(errors) >= FEWEST_STEPS]
    listed = [",\n".join("  " + json.dumps(one) for one in of) for of in (entries, steps)]
    OUT.write_text(json.dumps(document, indent=1)[:-2] + ',\n "errors": [\n' + listed[0] + '\n ],\n "steps": [\n' + listed[1] + "\n ]\n}\n",
                   encoding="utf-8")
    for one in entries:
        print("{engine:10} {implementation:13} {layout:14} {term:8} {low:+.3f} {high:+.3f}  {source}".format(**one))
    for one in steps:
        print("{device:15} {engine:10} {implementation:13} {devices:8} {low:+.3f} {high:+.3f}  {source}".format(**one))
    return 0


if __name__ == "__main__":
    sys.exit(main())
