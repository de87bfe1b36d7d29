#!/usr/bin/env python3
"""Every source of the judge stands in split.json with a role and a reason, and no other does: split_test.py JUDGE"""

import json
import pathlib
import re
import subprocess
import sys

SPLIT = pathlib.Path(__file__).resolve().parent / "split.json"
OF_THE_PROGRAM = {"records"}


def main():
    said = subprocess.run([sys.argv[1]], capture_output=True, text=True, check=False).stderr
    known = set(re.search(r"of these sources: (.*)", said).group(1).split(", "))
    split = json.loads(SPLIT.read_text(encoding="utf-8"))["sources"]
    faults = [f"{name} has no role in split.json" for name in sorted(known - set(split))]
    faults += [f"{name} is no source" for name in sorted(set(split) - known - OF_THE_PROGRAM)]
    faults += [f"{name} has no reason" for name, one in split.items() if not one.get("because")]
    faults += [f"{name} is {one.get('role')}, neither fit nor judge" for name, one in split.items() if one.get("role") not in ("fit", "judge")]
    print("\n".join(faults) or f"{len(split)} sources, each fit or judge")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
