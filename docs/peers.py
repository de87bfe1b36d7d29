#!/usr/bin/env python3
"""Prints what other estimators say of four runs (peers.json) beside what steelyard on the path says now."""

import json
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
GIB = 2**30
NAME, HOW, NUMBER = 34, 9, 9


def weighed(run):
    # Exit 1 is an answer too: does not fit.
    done = subprocess.run(["steelyard", "weigh", str(HERE.parent / run), "--json"], capture_output=True, text=True,
                          encoding="utf-8", check=False)
    return json.loads(done.stdout)["peak"]


def row(name, how, numbers):
    # Marks stand behind the number, so that points stay under points.
    cells = []
    for number in numbers:
        mark = number[-1] if number and not number[-1].isdigit() and number != "-" else " "
        cells.append((number[:-1] if mark != " " else number).rjust(NUMBER - 1) + mark)
    return (name.ljust(NAME) + how.ljust(HOW) + "".join(cells)).rstrip()


def main():
    facts = json.loads((HERE / "peers.json").read_text(encoding="utf-8"))
    runs = facts["runs"]
    print(row("GiB on the fullest device", "", runs))
    for tool in facts["tools"]:
        print(row(tool["name"], tool["how"], [tool["GiB"].get(run, "-") for run in runs]))
    peaks = [weighed(run["file"]) for run in runs.values()]
    for name, key in (("steelyard, allocated", "allocated_bytes"), ("steelyard, as nvidia-smi shows", "device_bytes")):
        print(row(name, "run", [f"{peak[key] / GIB:.1f}" for peak in peaks]))
    print()
    for run, what in runs.items():
        print(f"{run}  {what['words']}")
    for mark, meaning in facts["marks"].items():
        print(f"{mark}  {meaning}")


if __name__ == "__main__":
    main()
