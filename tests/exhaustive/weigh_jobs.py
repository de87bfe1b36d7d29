#!/usr/bin/env python3
"""Random jobs through `steelyard weigh --jobs`: every line has its answer, in its place.

weigh_jobs.py --steelyard BINARY --random-jobs BINARY [--count 10000] [--first-seed 1]

Valid jobs must each be a prediction that the replay of every event confirms; jobs with one thing wrong must each be an
error object. Nothing may be printed on stderr, and the program must end as it should.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import conservation  # noqa: E402


def lines_of(arguments, kind):
    command = [arguments.random_jobs, kind, str(arguments.count), str(arguments.first_seed)]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


def answers(arguments, text):
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(text)
        file.flush()
        return subprocess.run([arguments.steelyard, "weigh", "--jobs", file.name, "--replay"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def faults_of(kind, line, answer):
    schema = answer.get("schema")
    if kind == "invalid":
        return [] if schema == "steelyard.error/1" and answer.get("error") else ["no error object"]
    if schema != "steelyard.prediction/1":
        return [f"no prediction: {answer.get('error')}"]
    return list(conservation.prediction_faults(answer))


def check(arguments, kind):
    text = lines_of(arguments, kind)
    jobs = text.split(b"\n")[:-1]
    done = answers(arguments, text)
    printed = done.stdout.splitlines()
    wrong = 0
    if done.returncode != 0 or done.stderr:
        print(f"{kind}: exit {done.returncode}, stderr: {done.stderr[:2000]!r}")
        wrong += 1
    if len(printed) != len(jobs):
        print(f"{kind}: {len(jobs)} jobs, {len(printed)} answers")
        return wrong + 1
    for number, (job, line) in enumerate(zip(jobs, printed)):
        for fault in faults_of(kind, job, json.loads(line)):
            wrong += 1
            if wrong <= 10:
                print(f"{kind} job {arguments.first_seed + number}: {fault}\n  {job[:1500]!r}")
    if not wrong:
        print(f"{len(jobs)} {kind} jobs: " +
              ("spans and replay agree on every one" if kind == "valid" else "an error object each"))
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steelyard", required=True)
    parser.add_argument("--random-jobs", required=True)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--first-seed", type=int, default=1)
    arguments = parser.parse_args()
    return 1 if check(arguments, "valid") + check(arguments, "invalid") else 0


if __name__ == "__main__":
    sys.exit(main())
