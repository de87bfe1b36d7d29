#!/usr/bin/env python3
"""Public launch files, read as their users would: launch_files_test.py BINARY [--table]

Each row of launch_files.json is one file of fuzz/corpus/launch: what a public configuration says about memory, and where
it stands. It must be imported without an error, and weighed with the row's flags, unless it asks for what is not weighed
yet, which the row then names. Its report must name every value that nobody wrote: what a format takes by itself,
and what weighing takes beside that. Each format has at least five that weigh.

--table prints what docs/launch-files.md shows.
"""

import argparse
import json
import pathlib
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parent
FOLDER = TESTS.parent / "fuzz" / "corpus" / "launch"
LEAST = 5


def run(binary, *words):
    return subprocess.run([binary, *words], cwd=FOLDER, capture_output=True, text=True, encoding="utf-8", check=False)


def faults_of(binary, row):
    flags = row["flags"].split()
    imported = run(binary, "import", row["file"], *flags, "--json")
    if imported.returncode != 0:
        return [f"import: exit {imported.returncode}: {imported.stderr.strip()}"]
    report = json.loads(imported.stdout)
    weighed = run(binary, "weigh", row["file"], *flags, "--json")
    if weighed.returncode == 2:
        said = run(binary, "weigh", row["file"], *flags).stderr
        if row.get("not_weighed") and row["not_weighed"] in said:
            return []
        return [f"weigh: exit 2: {said.strip()}"]
    if row.get("not_weighed"):
        return [f"it is weighed now: {row['not_weighed']}"]
    named = {one["key"] for one in report["unsaid"] + report["taken"]}
    missing = [one["key"] for one in json.loads(weighed.stdout)["assumptions"] if one["key"] not in named]
    return [f"the report does not name {key}" for key in missing]


def counts_of(rows):
    counts = {}
    for row in rows:
        imported, weighed = counts.get(row["format"], (0, 0))
        counts[row["format"]] = (imported + 1, weighed + ("not_weighed" not in row))
    return counts


def print_table(rows):
    counts = counts_of(rows)
    print("read                    imported  weighed  public sources")
    for name, (imported, weighed) in counts.items():
        sources = sorted({row["source"].split()[0] for row in rows if row["format"] == name})
        print(f"{name:<22}  {imported:>8}  {weighed:>7}  {sources[0]}")
        for source in sources[1:]:
            print(f"{'':<43}{source}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("binary")
    arguments.add_argument("--table", action="store_true")
    chosen = arguments.parse_args()
    rows = json.loads((TESTS / "launch_files.json").read_text(encoding="utf-8"))
    if chosen.table:
        print_table(rows)
        return 0
    binary = str(pathlib.Path(chosen.binary).resolve())
    failed = 0
    for row in rows:
        for fault in faults_of(binary, row):
            failed += 1
            print(f"{row['format']}, {row['file']} (as {row['source']}): {fault}\n")
    for name, (_, weighed) in counts_of(rows).items():
        if weighed < LEAST:
            failed += 1
            print(f"{name}: {weighed} are weighed, {LEAST} are wanted")
    print(f"{len(rows)} files, {failed} faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
