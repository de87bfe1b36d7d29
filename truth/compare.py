#!/usr/bin/env python3
"""Records beside predictions: compare.py STEELYARD [RECORD ...]

For every record, and for load, forward, backward and optimizer of its steady step, the recorded peak of what was allocated (each
storage rounded up to 512 bytes) beside the predicted `allocated_bytes`, and what every layer had saved after forward.

    --phases      every phase, not only the ones that differ by more than --tolerance bytes
    --piles       what was alive at the peak, pile by pile
    --saved       saved activations, owner by owner
    --csv         one line for each record and phase
"""

import argparse
import collections
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PILES = {  # recorded -> predicted
    "parameters": "parameters", "buffers": "parameters", "gradients": "gradients", "optimizer_state": "optimizer",
    "activations": "activations", "inputs": "activations", "temporary": "temporary", "workspaces": "temporary",
    "communication": "communication",
}
PREDICTED = {"parameters": "parameters", "gradients": "gradients", "master_weights": "optimizer",
             "optimizer_moments": "optimizer", "activations": "activations", "temporary": "temporary",
             "communication": "communication"}


def ask(steelyard, command, run, *more):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(run, file)
        file.flush()
        done = subprocess.run([steelyard, command, file.name, *more, "--json"], capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"error": done.stderr or done.stdout}


def complaint(answer):
    errors = answer.get("errors") or answer.get("diagnostics") or [answer]
    first = errors[0] if isinstance(errors, list) and errors else errors
    return " ".join(str(first.get("message", first) if isinstance(first, dict) else first).split())[:150]


def summed(piles, names):
    total = collections.Counter()
    for pile, value in piles.items():
        if pile in names:
            total[names[pile]] += value
    return total


def steady(record):
    rows = {}
    for row in record["phases"]:
        if row["step"] in ("load", "steady"):
            rows[row["phase"]] = row
    return rows


def commas(number):
    return f"{number:,}"


def layer_of(owner):
    found = re.search(r"\.(?:layers|h|layer|blocks)\.(\d+)\.?", owner)
    return int(found.group(1)) if found else None


def saved_by_owner(record):
    """Recorded: bytes for one layer of each kind are summed over layers, by the owner's name within its layer."""
    total = collections.Counter()
    for row in record["saved_after_forward"]:
        owner = re.sub(r"^.*\.(?:layers|h|layer|blocks)\.\d+\.?", "layer.", row["owner"]) or "(model)"
        total[owner.rstrip(".")] += -(-row["requested_bytes"] // 512) * 512 * row["count"]
    return total


def layers_saved(record):
    """Bytes that each layer had saved after forward."""
    total = collections.Counter()
    for row in record["saved_after_forward"]:
        layer = layer_of("." + row["owner"] + ".")
        total["rest" if layer is None else layer] += max(512, -(-row["requested_bytes"] // 512) * 512) * row["count"]
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steelyard")
    parser.add_argument("records", nargs="*")
    parser.add_argument("--tolerance", type=int, default=4096)
    parser.add_argument("--phases", action="store_true")
    parser.add_argument("--piles", action="store_true")
    parser.add_argument("--saved", action="store_true")
    parser.add_argument("--csv", action="store_true")
    arguments = parser.parse_intermixed_args()
    paths = [Path(p) for p in arguments.records] or sorted((HERE / "records").glob("*.json"))
    counted = collections.Counter()
    for path in paths:
        record = json.loads(path.read_text())
        answer = ask(arguments.steelyard, "weigh", record["run"])
        if "ranks" not in answer:
            counted["refused"] += 1
            if not arguments.csv:
                print(f"{path.stem}\n  refused: {complaint(answer)}")
            continue
        ranks = answer["ranks"]
        stage = record.get("coordinates", {}).get("pipeline", 0)
        same = [r for r in ranks if r.get("coordinates", {}).get("pipeline", 0) == stage] or ranks
        predicted = {p["phase"]: p for p in same[0]["phases"]}
        if "forward" not in steady(record):  # Megatron's schedules run both: one phase
            predicted["backward"] = max(predicted["forward"], predicted["backward"], key=lambda p: p["allocated_bytes"])
        lines, exact = [], True
        if not record.get("coordinates") and answer["parameters"]["total"] != record["parameters"]["total"]:
            lines.append(f"  parameters: recorded {commas(record['parameters']['total'])}, "
                         f"predicted {commas(answer['parameters']['total'])}")
        for phase, row in steady(record).items():
            if phase not in predicted:
                continue
            other = predicted[phase]
            difference = other["allocated_bytes"] - row["allocated_bytes"]
            if arguments.csv:
                print(f"{path.stem},{phase},{row['allocated_bytes']},{other['allocated_bytes']},{difference}")
            within = abs(difference) <= arguments.tolerance
            if phase != "load":
                exact = exact and within
                counted["phases"] += 1
                counted["phases within"] += within
            if within and not arguments.phases:
                continue
            lines.append(f"  {phase:<10}{commas(row['allocated_bytes']):>18}{commas(other['allocated_bytes']):>18}"
                         f"{difference:>+18,}  {100 * difference / row['allocated_bytes']:+.3f} %")
            if arguments.piles:
                a, b = summed(row["piles"], PILES), summed(other["piles"], PREDICTED)
                for pile in sorted(a.keys() | b.keys()):
                    if a[pile] != b[pile]:
                        lines.append(f"    {pile:<14}{commas(a[pile]):>18}{commas(b[pile]):>18}{b[pile] - a[pile]:>+18,}")
        counted["records"] += 1
        counted["exact"] += exact
        if arguments.csv:
            continue
        print(f"{path.stem}{'' if lines else '  = '}" + (f"\n  {'':<10}{'recorded':>18}{'predicted':>18}{'difference':>18}" if lines else ""))
        print("\n".join(lines), end="\n" if lines else "")
        if arguments.saved:
            recorded = saved_by_owner(record)
            derivation = ask(arguments.steelyard, "explain", record["run"], "activations")
            expected = collections.Counter()
            for line in derivation.get("lines", ()):
                expected[f"{line['owner']}: {line['name']} x{line['count']}"] += line["total_bytes"]
            print(f"  saved after forward: {commas(sum(recorded.values()))}, layers "
                  f"{ {k: v for k, v in layers_saved(record).items()} }")
            for owner, size in recorded.most_common():
                print(f"    recorded  {size:>16,}  {owner}")
            for owner, size in expected.most_common():
                print(f"    predicted {size:>16,}  {owner}")
    print(f"\n{counted['records']} records, {counted['refused']} more refused; {counted['phases within']} of {counted['phases']} "
          f"peaks within {arguments.tolerance} bytes, {counted['exact']} records in every phase")


if __name__ == "__main__":
    sys.exit(main())
