#!/usr/bin/env python3
"""Writes docs/strategies.md from data/techniques: strategies.py [--check]

One row for each technique: how a run file says it, the rules that weigh it, how many recordings of real PyTorch check it
(truth/records, tests/known_differences.json), and which published rows do, with their error (docs/published-errors.json,
the medians that `steelyard validate` printed last). --check writes nothing and fails where the page is not what the data say.
"""

import argparse
import fnmatch
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "strategies.md"
HEAD = """# The strategies

What a run file can ask for, technique by technique: the keys that say it, the rules that weigh it (`steelyard explain RULE`), and
what checks it. *Recordings* are steps of real PyTorch, DeepSpeed, Megatron-core or bitsandbytes on a device of paper (`truth/`):
how many agree to the byte in every phase, of how many, and the largest error of a later step's peak where they do not. *Published*
names the source of measured rows that use it, with the median of their error (`docs/validation.md`). A dash means that its rules
rest on their source alone. `steelyard list techniques` prints the same with the sources.

This page is written by `docs/strategies.py` from `data/techniques`; a test weighs each row.
"""


def shown(value):
    return value if isinstance(value, str) else json.dumps(value)


def keys_of(run):
    if run is None:
        return "*not weighed*"
    return "<br>".join(f"`{path} = {shown(value)}`" for path, value in run.items()) or "nothing: it is the default"


def recordings(pattern, records, differences):
    if not pattern:
        return "-"
    names = [name for name in records if fnmatch.fnmatch(name + ".json", pattern + ("" if pattern.endswith(".json") else "*"))]
    if not names:
        return "-"
    equal = [name for name in names if not peaks_of(differences.get(name, {}))]
    text = f"{len(equal)} of {len(names)} equal"
    worst = 0.0
    for name in names:
        for phase, off in peaks_of(differences.get(name, {})).items():
            whole = records[name].get(phase)
            if phase.startswith("steady") and whole:
                worst = max(worst, abs(off) / whole)
    if len(equal) < len(names):
        text += f", {100 * worst:.1f} % at most" if worst >= 0.0005 else ", < 0.1 % in a later step"
    return text


def peaks_of(found):
    return {phase: off for phase, off in found.items() if not phase.startswith("reserved")}


def page():
    differences = json.loads((ROOT / "tests" / "known_differences.json").read_text(encoding="utf-8"))
    differences = differences.get("records", differences)
    records = {}
    for file in sorted((ROOT / "truth" / "records").glob("*.json")):
        record = json.loads(file.read_text(encoding="utf-8"))
        records[file.stem] = {f"{row['step']} {row['phase']}": row["allocated_bytes"] for row in record["phases"]}
    errors = json.loads((ROOT / "docs" / "published-errors.json").read_text(encoding="utf-8"))
    lines = [HEAD]
    group = None
    for file in sorted((ROOT / "data" / "techniques").glob("*.json")):
        for row in json.loads(file.read_text(encoding="utf-8"))["techniques"]:
            if row["group"] != group:
                group = row["group"]
                lines += [f"\n## {group[0].upper()}{group[1:]}\n",
                          "| technique | keys | rules | recordings | published |", "|---|---|---|---|---|"]
            published = row.get("published", "")
            if published:
                published += f", {errors[published]}" if published in errors else ""
            rules = "<br>".join(f"`{rule}`" for rule in row["rules"])
            note = f"<br>{row['note']}" if row.get("note") else ""
            lines.append(f"| {row['technique']}{note} | {keys_of(row['run'])} | {rules or '-'} | "
                         f"{recordings(row.get('records', ''), records, differences)} | {published or '-'} |")
    return "\n".join(lines) + "\n"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true")
    check = arguments.parse_args().check
    wanted = page()
    if not check:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != wanted:
        print("docs/strategies.md is not what the data say: run docs/strategies.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
