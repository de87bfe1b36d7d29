"""Recorded runs of real PyTorch (truth/records) against predictions: equal to the byte, or listed with the difference.

    records_test.py BINARY            every phase of every record: the difference is 0, or the one in known_differences.json
    records_test.py BINARY --rebase   writes known_differences.json as things stand; the diff is part of the review

A record is what the allocator was asked for, each storage rounded up to 512 bytes, with the peak of each phase in the first
and in a later step (truth/README.md). A difference that shrinks is a failure too: the list says what is not understood yet, no
more. `load` is left out where the recording script, not PyTorch, holds more for a moment (tied weights made on the meta device).

What PyTorch's allocator had reserved after the first step and in a later one is compared with the simulated allocator
("reserved first", "reserved steady"). It hangs on the order of all requests, so that a tensor that is named a little too early
shows here, and nowhere else: equal within one segment (20 MiB) is what the summary counts beside equal to the byte.
"""

import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
RECORDS = HERE.parent / "truth" / "records"
LIST = HERE / "known_differences.json"
SEGMENT = 20 << 20


def predictions(binary, runs):
    lines = "".join(json.dumps(run) + "\n" for run in runs)
    done = subprocess.run([binary, "weigh", "--jobs", "-"], input=lines, capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(runs), f"{len(runs)} runs, {len(answers)} answers: {done.stderr[-500:]}"
    return answers


def predicted_peaks(answer, stage):
    """{(step, phase): bytes} of the rank on that pipeline stage."""
    rank = next(r for r in answer["ranks"] if r["coordinates"]["pipeline"] == stage)
    peaks = {("steady", phase["phase"]): phase["allocated_bytes"] for phase in rank["phases"]}
    peaks.update({("first", phase["phase"]): phase["allocated_bytes"] for phase in rank["first_step"]["phases"]})
    peaks["load", "load"] = peaks.pop(("steady", "load"))
    return peaks


def differences(record, answer):
    """{"steady backward": bytes predicted too much}, only what is not 0; "refused" where the run is not weighed yet."""
    if "ranks" not in answer:
        return {"refused": answer["error"]}
    peaks = predicted_peaks(answer, record.get("coordinates", {}).get("pipeline", 0))
    if not any(row["phase"] == "forward" for row in record["phases"]):  # Megatron's schedules run both: one phase
        for step in ("first", "steady"):
            peaks[step, "backward"] = max(peaks[step, "forward"], peaks[step, "backward"])
    tied = record["run"]["model"].get("tie_word_embeddings", False)
    found = {}
    for row in record["phases"]:
        step, phase = row["step"], row["phase"]
        if (step, phase) not in peaks or (phase == "load" and tied and record["run"]["engine"] == "fsdp2"):
            continue
        difference = peaks[step, phase] - row["allocated_bytes"]
        if difference:
            found[f"{step} {phase}"] = difference
    return found


def reserved_differences(record, answer):
    """{"reserved first": bytes, "reserved steady": bytes}, only what is not 0; nothing where the run is refused."""
    if "ranks" not in answer:
        return {}
    stage = record.get("coordinates", {}).get("pipeline", 0)
    rank = next(r for r in answer["ranks"] if r["coordinates"]["pipeline"] == stage)
    predicted = {"first": rank["first_step"]["reserved_bytes"], "steady": rank["reserved_bytes"]}
    recorded = {}
    for row in record["phases"]:
        bytes_of_phase = row.get("torch", {}).get("reserved_bytes", 0)
        recorded[row["step"]] = max(recorded.get(row["step"], 0), bytes_of_phase)
    return {f"reserved {step}": predicted[step] - recorded[step]
            for step in ("first", "steady") if step in recorded and predicted[step] != recorded[step]}


def reserved_summary(records, found):
    """How far what is reserved in a later step is off, over all that is weighed."""
    off = []
    for name, record in records.items():
        if "refused" in found[name]:
            continue
        recorded = max(row["torch"]["reserved_bytes"] for row in record["phases"] if row["step"] == "steady")
        off.append((abs(found[name].get("reserved steady", 0)), recorded))
    share = sorted(difference / recorded for difference, recorded in off)
    return (f"reserved: {sum(d == 0 for d, _ in off)} of {len(off)} to the byte, {sum(d <= SEGMENT for d, _ in off)} within one "
            f"segment; median {share[len(share) // 2]:.2%}, 95 % {share[len(share) * 95 // 100]:.1%}, most {share[-1]:.1%}")


def main():
    binary, rebase = sys.argv[1], "--rebase" in sys.argv[2:]
    paths = sorted(RECORDS.glob("*.json"))
    records = [json.loads(path.read_text()) for path in paths]
    answers = predictions(binary, [record["run"] for record in records])
    found = {path.stem: differences(record, answer) for path, record, answer in zip(paths, records, answers)}
    equal = sum(not rows for rows in found.values())
    for path, record, answer in zip(paths, records, answers):
        found[path.stem].update(reserved_differences(record, answer))
    listed = {name: rows for name, rows in found.items() if rows}
    reserved = reserved_summary({path.stem: record for path, record in zip(paths, records)}, found)
    if rebase:
        rows = ",\n".join(f" {json.dumps(name)}: {json.dumps(rows)}" for name, rows in listed.items())
        LIST.write_text("{\n" + rows + "\n}\n")
        print(f"{equal} of {len(found)} records equal to the byte in every phase, {len(listed)} listed\n{reserved}")
        return 0
    known = json.loads(LIST.read_text())
    faults = 0
    for name in sorted(listed.keys() | known.keys()):
        if listed.get(name, {}) == known.get(name, {}):
            continue
        faults += 1
        print(f"{name}\n  listed  {known.get(name, 'equal')}\n  now     {listed.get(name, 'equal')}")
    print(f"{equal} of {len(found)} records equal to the byte in every phase, {len(listed)} listed, {faults} not as listed")
    print(reserved)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
