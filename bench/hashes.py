#!/usr/bin/env python3
"""That no number changes: a hash of everything predicted, by run, held against another build.

hashes.py --steelyard BINARY [--random-jobs BINARY --count 2000 --first-seed 1] [--write TABLE] [--against BINARY|TABLE]

Runs: every recording under truth/records, every run in JSON of tests/cases, and random jobs. A line of the table is the hash of
each prediction as `weigh --jobs` prints it (bytes, bands, seconds, suggestions, warnings), and the run's name. With --against the
two tables are compared: what differs is named, with the first differing numbers, and the exit status is 1.

    python3 bench/hashes.py --steelyard build/dev/steelyard --random-jobs build/dev/tests/exhaustive/steelyard_random_jobs \\
        --count 20000 --against ../older/steelyard
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE_OF_CASE = re.compile(r"^--- (?:file (\S+)|\w+.*)$", re.MULTILINE)
JOBS_AT_ONCE = 250
MOST_SHOWN = 20


def runs_of_records():
    for path in sorted((ROOT / "truth/records").glob("*.json")):
        record = json.loads(path.read_text())
        if isinstance(record.get("run"), dict):
            yield f"record {path.stem}", record["run"]


def runs_of_cases():
    for path in sorted((ROOT / "tests/cases").rglob("*.case")):
        parts = FILE_OF_CASE.split(path.read_text())
        for name, text in zip(parts[1::2], parts[2::2]):
            if not name or not name.endswith(".json"):
                continue
            try:
                run = json.loads(text)
            except ValueError:
                continue
            if isinstance(run, dict) and "cluster" in run:
                yield f"case {path.relative_to(ROOT / 'tests/cases')} {name}", run


def random_runs(arguments):
    command = [arguments.random_jobs, "valid", str(arguments.count), str(arguments.first_seed)]
    lines = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.splitlines()
    for index, line in enumerate(lines):
        yield f"random {arguments.first_seed + index}", json.loads(line)


def predictions(binary, runs, flags):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for _, run in runs:
            file.write(json.dumps(run) + "\n")
        file.flush()
        done = subprocess.run([binary, "weigh", "--jobs", file.name, *flags],
                              stdout=subprocess.PIPE, check=False)
    lines = done.stdout.decode().splitlines()
    if len(lines) != len(runs):
        sys.exit(f"{binary}: {len(runs)} runs, {len(lines)} answers")
    return lines


def table_of(binary, runs, flags):
    """{run: prediction as printed}"""
    pieces = [runs[i:i + JOBS_AT_ONCE] for i in range(0, len(runs), JOBS_AT_ONCE)]
    table = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for piece, lines in zip(pieces, pool.map(lambda p: predictions(binary, p, flags), pieces)):
            table.update((name, line) for (name, _), line in zip(piece, lines))
    return table


def hash_of(line):
    return hashlib.sha256(line.encode()).hexdigest()[:16]


def differences(before, after, path=""):
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from differences(before.get(key), after.get(key), f"{path}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after)):
            yield from differences(one, other, f"{path}/{index}")
    elif before != after:
        yield f"{path}: {before} -> {after}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steelyard", required=True)
    parser.add_argument("--random-jobs")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--write", metavar="TABLE")
    parser.add_argument("--against", metavar="BINARY or TABLE")
    parser.add_argument("--verdicts", action="store_true",
                        help="with --brief, and only each verdict: what an estimate may decide")
    arguments = parser.parse_args()
    runs = [*runs_of_records(), *runs_of_cases()]
    if arguments.random_jobs:
        runs.extend(random_runs(arguments))
    flags = ["--brief"] if arguments.verdicts else []
    table = table_of(arguments.steelyard, runs, flags)
    if arguments.verdicts:
        table = {name: json.dumps(json.loads(line).get("verdict")) for name, line in table.items()}
    text = "".join(f"{hash_of(line)}  {name}\n" for name, line in table.items())
    if arguments.write:
        pathlib.Path(arguments.write).write_text(text)
    print(f"{len(table)} runs, all together {hash_of(text)}")
    if not arguments.against:
        return 0
    if os.access(arguments.against, os.X_OK):
        other = table_of(arguments.against, runs, flags)
        if arguments.verdicts:
            other = {name: json.dumps(json.loads(line).get("verdict")) for name, line in other.items()}
        differing = [name for name in table if table[name] != other[name]]
        for name in differing[:MOST_SHOWN]:
            found = differences(json.loads(other[name]), json.loads(table[name]))
            print(name, *[f"    {line}" for line, _ in zip(found, range(5))], sep="\n")
    else:
        lines = pathlib.Path(arguments.against).read_text().splitlines()
        other = {line[18:]: line[:16] for line in lines}
        differing = [name for name in table if hash_of(table[name]) != other.get(name)]
        print(*differing[:MOST_SHOWN], sep="\n")
    print(f"{len(differing)} of {len(table)} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
