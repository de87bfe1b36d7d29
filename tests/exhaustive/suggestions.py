#!/usr/bin/env python3
"""What `weigh` suggests is applied: verdict, peak and seconds are those that were promised.

suggestions.py --steelyard BINARY --random-jobs BINARY [--count 300] [--by-apply 20] [--first-seed 1]

Random jobs are put on small devices, with larger micro-batches, until they do not fit. Each suggestion's `change` is written into
the run file, as a user would write it, and weighed; and for --by-apply of them `weigh --apply N` answers, too. --count is that of
suggestions: 2000 for the full test.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

DEVICES = ("t4", "rtx-3090", "a10g", "l40s", "v100-sxm-16gb", "rtx-5090")
TIMES_LARGER = (1, 4, 16, 64)
JOBS_A_ROUND = 40


def random_jobs(arguments, first, count):
    command = [arguments.random_jobs, "valid", str(count), str(first)]
    return [json.loads(line) for line in subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.splitlines()]


def weighed(arguments, jobs, *flags):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps(job) + "\n" for job in jobs)
        file.flush()
        done = subprocess.run([arguments.steelyard, "weigh", "--jobs", file.name, *flags], stdout=subprocess.PIPE, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(jobs)
    return answers


def larger(job, seed):
    """The same on a small device, with more sequences at once."""
    job = json.loads(json.dumps(job))
    job["cluster"]["device"] = DEVICES[seed % len(DEVICES)]
    training = job["training"]
    training["micro_batch"] = training.get("micro_batch", 1) * TIMES_LARGER[seed // len(DEVICES) % len(TIMES_LARGER)]
    training.pop("global_batch", None)
    return job


def typed(text):
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text


def written(job, change):
    """As a user writes the change into the run file."""
    job = json.loads(json.dumps(job))
    for path, text in change.items():
        *sections, key = path.split(".")
        table = job
        for section in sections:
            table = table.setdefault(section, {})
        table[key] = typed(text)
    return job


def tokens(job, answer):
    time = answer["time"]
    return time["tokens_per_second_per_device"] * time["step_seconds"] * job.get("cluster", {}).get("devices", 1)


def broken_promises(before, answer, suggestion, job, after):
    """What is another than the suggestion said."""
    if "peak" not in after:
        yield f"it is refused: {after.get('error')}"
        return
    for what, promised, kept in (
            ("verdict", suggestion["verdict"], after["verdict"]),
            ("peak", suggestion["peak_device_bytes"], after["peak"]["device_bytes"]),
            ("saved", suggestion["saves_bytes"], answer["peak"]["device_bytes"] - after["peak"]["device_bytes"])):
        if promised != kept:
            yield f"{what}: promised {promised}, kept {kept}"
    if "time" in answer and "time" in after:
        longer = after["time"]["step_seconds"] * tokens(before, answer) / tokens(job, after) - answer["time"]["step_seconds"]
        if suggestion["costs_seconds"] is None or abs(longer - suggestion["costs_seconds"]) > 1e-6 * after["time"]["step_seconds"]:
            yield f"seconds: promised {suggestion['costs_seconds']}, kept {longer}"


def applied(arguments, job, number):
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run.json"
        run.write_text(json.dumps(job), encoding="utf-8")
        done = subprocess.run([arguments.steelyard, "weigh", str(run), "--apply", str(number), "--json"], capture_output=True, check=False)
    return json.loads(done.stdout) if done.stdout else {"error": done.stderr.decode()[:500]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steelyard", required=True)
    parser.add_argument("--random-jobs", required=True)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--by-apply", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1)
    arguments = parser.parse_args()
    asked, by_apply, wrong, seed = 0, 0, 0, arguments.first_seed
    while asked < arguments.count:
        jobs = [larger(job, seed + i) for i, job in enumerate(random_jobs(arguments, seed, JOBS_A_ROUND))]
        answers = weighed(arguments, jobs)
        promises = [(job, answer, number, suggestion) for job, answer in zip(jobs, answers)
                    for number, suggestion in enumerate(answer.get("suggestions", []), 1)]
        changed = [written(job, suggestion["change"]) for job, _, _, suggestion in promises]
        for (job, answer, number, suggestion), run, after in zip(promises, changed, weighed(arguments, changed)):
            faults = list(broken_promises(job, answer, suggestion, run, after))
            if by_apply < arguments.by_apply:
                by_apply += 1
                faults += [f"--apply: {fault}" for fault in broken_promises(job, answer, suggestion, run, applied(arguments, job, number))]
            for fault in faults:
                wrong += 1
                if wrong <= 10:
                    print(f"{suggestion['says']}: {fault}\n  {json.dumps(job)[:1500]}")
        asked += len(promises)
        seed += JOBS_A_ROUND
        if seed - arguments.first_seed > 100 * arguments.count + 4000:
            print("hardly anything is suggested")
            return 1
    print(f"{asked} suggestions written into their run files, {by_apply} applied: {wrong} promises broken")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
