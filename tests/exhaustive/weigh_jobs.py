#!/usr/bin/env python3
"""Random jobs through `steelyard weigh --jobs`: every line has its answer, in its place.

weigh_jobs.py --steelyard BINARY --random-jobs BINARY [--count 10000] [--first-seed 1] [--bands]

Valid jobs must each be a prediction that the replay of every event confirms; jobs with one thing wrong must each be an
error object. Nothing but the count of refused lines may be printed on stderr, and the program must end as it should.

--bands asks only whether each band of memory and of time holds its own value (tests/conservation.py), of each valid job as it is
and on a device that has as much as is allocated and some of what the allocator would take beyond: there it gives memory back, or
fails.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import conservation  # noqa: E402

JOBS_AT_ONCE = 500


def lines_of(arguments, kind):
    command = [arguments.random_jobs, kind, str(arguments.count), str(arguments.first_seed)]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


def answers(arguments, text, *flags):
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(text)
        file.flush()
        return subprocess.run([arguments.steelyard, "weigh", "--jobs", file.name, *flags],
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
    done = answers(arguments, text, "--replay")
    printed = done.stdout.splitlines()
    wrong = 0
    # Lines that fail are counted on stderr, and exit 1 says so.
    counted = f"{len(jobs)} of {len(jobs)} lines could not be weighed: their answers say why\n"
    expected = (0, "") if kind == "valid" else (1, counted)
    if (done.returncode, done.stderr.decode()) != expected:
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


def on_almost_full_device(job, answer, seed):
    """Between what is allocated and what is reserved on a device with room to spare."""
    peak = answer["peak"]
    part = random.Random(seed).choice((0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0))
    capacity = int(peak["device_bytes"] - (1 - part) * (peak["reserved_bytes"] - peak["allocated_bytes"]))
    # A device of which only the memory is said reports 59/60 of it (src/job/device_choice.cc).
    size = capacity + capacity // 59 + 1
    if not 1 << 30 < size <= 1 << 42:
        return job  # no device is so small or so large
    changed = json.loads(job)
    changed["cluster"]["device"] = f"{size}B"
    return json.dumps(changed).encode()


def check_bands(arguments):
    wrong, full, asked = 0, 0, 0
    for first in range(arguments.first_seed, arguments.first_seed + arguments.count, JOBS_AT_ONCE):
        count = min(JOBS_AT_ONCE, arguments.first_seed + arguments.count - first)
        command = [arguments.random_jobs, "valid", str(count), str(first)]
        jobs = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.splitlines()
        found = [json.loads(line) for line in answers(arguments, b"\n".join(jobs) + b"\n", "--brief").stdout.splitlines()]
        small = [on_almost_full_device(job, answer, first + i) for i, (job, answer) in enumerate(zip(jobs, found))]
        pressed = [json.loads(line) for line in answers(arguments, b"\n".join(small) + b"\n", "--brief").stdout.splitlines()]
        if len(found) != len(jobs) or len(pressed) != len(jobs):
            print(f"{len(jobs)} jobs, {len(found)} and {len(pressed)} answers")
            return wrong + 1
        for line, answer in zip(jobs + small, found + pressed):
            asked += 1
            for fault in faults_of("valid", line, answer):
                wrong += 1
                if wrong <= 10:
                    print(f"{fault}\n  {line[:1500]!r}")
        full += sum(answer["verdict"] != "fits" for answer in pressed if "verdict" in answer)
    print(f"{asked} bands, {full} of them on devices that are full or almost so: {wrong} do not hold their value")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steelyard", required=True)
    parser.add_argument("--random-jobs", required=True)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--bands", action="store_true")
    arguments = parser.parse_args()
    if arguments.bands:
        return 1 if check_bands(arguments) else 0
    return 1 if check(arguments, "valid") + check(arguments, "invalid") else 0


if __name__ == "__main__":
    sys.exit(main())
