#!/usr/bin/env python3
"""Which recordings check which rule: rule_recordings.py STEELYARD writes docs/rule-recordings.json, which rules.py shows.

A recording checks a rule when a tensor that rests on it is alive at a peak that the recording holds to the byte: in load,
forward, backward or optimizer of a later step, and in no phase with a known difference (tests/known_differences.json). One line
for each rule: how many recordings, and the first three of them; a rule without any stands there with 0.
"""

import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PHASES = ("load", "forward", "backward", "optimizer")


def rules_alive(steelyard, run_file, phase):
    done = subprocess.run([steelyard, "explain", run_file, phase, "--json"], capture_output=True, text=True, check=False)
    return {line["rule"] for line in json.loads(done.stdout).get("lines", ())} if done.returncode < 2 else set()


def checked_by(steelyard, path, known):
    """The rules that one recording checks."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as run_file:
        json.dump(json.loads(path.read_text())["run"], run_file)
        run_file.flush()
        equal = [phase for phase in PHASES if not {f"steady {phase}", f"load {phase}", "refused"} & known.keys()]
        return set().union(*(rules_alive(steelyard, run_file.name, phase) for phase in equal))


def main():
    steelyard = sys.argv[1]
    known = json.loads((ROOT / "tests" / "known_differences.json").read_text())
    recordings = {rule["id"]: [] for file in sorted((ROOT / "data" / "rules").glob("*.json"))
                  for rule in json.loads(file.read_text())["rules"]}
    paths = sorted((ROOT / "truth" / "records").glob("*.json"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for path, rules in zip(paths, pool.map(lambda p: checked_by(steelyard, p, known.get(p.stem, {})), paths)):
            for rule in rules:
                recordings[rule].append(path.stem)
    rows = ",\n".join(f" {json.dumps(rule)}: {json.dumps([len(names)] + names[:3])}" for rule, names in sorted(recordings.items()))
    (ROOT / "docs" / "rule-recordings.json").write_text("{\n" + rows + "\n}\n")
    print(f"{sum(1 for names in recordings.values() if names)} of {len(recordings)} rules are checked by a recording")


if __name__ == "__main__":
    main()
