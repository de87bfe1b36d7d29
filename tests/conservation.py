"""The sums that every printed prediction must keep, whatever the case is about.

A prediction is any JSON object with "schema": "steelyard.prediction/1", alone, in a list, inside another
document or on a line of its own.
"""

import json

SCHEMA = "steelyard.prediction/1"
APART = {"slack", "runtime"}  # beside allocated_bytes: they stand in reserved_bytes and device_bytes
SIGNED = {"unaccounted"}
VERDICTS = ("fits", "tight", "does_not_fit")  # the worst last


def documents(text):
    """The JSON values of an output: one document, or one a line."""
    if not text.lstrip().startswith(("{", "[")):
        return []
    try:
        return [json.loads(text)]
    except ValueError:
        pass
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def predictions(text):
    waiting = documents(text)
    found = []
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, dict):
            if value.get("schema") == SCHEMA:
                found.append(value)
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found


def phase_faults(phase, where):
    piles = phase["piles"]
    for pile, size in piles.items():
        if not isinstance(size, int):
            yield f"{where}: {pile} is {size!r}, not a whole number of bytes"
            return
        if size < 0 and pile not in SIGNED:
            yield f"{where}: {pile} is negative: {size}"
    total = sum(size for pile, size in piles.items() if pile not in APART)
    if total != phase["allocated_bytes"]:
        yield f"{where}: piles sum to {total}, allocated_bytes is {phase['allocated_bytes']}"
    if phase["reserved_bytes"] < phase["allocated_bytes"]:
        yield f"{where}: reserved {phase['reserved_bytes']} < allocated {phase['allocated_bytes']}"


def rank_faults(rank):
    where = f"rank {rank['rank']}"
    if rank["reserved_bytes"] < rank["allocated_bytes"]:
        yield f"{where}: reserved {rank['reserved_bytes']} < allocated {rank['allocated_bytes']}"
    if rank["resident_bytes"] > rank["allocated_bytes"]:
        yield f"{where}: resident {rank['resident_bytes']} > peak allocated {rank['allocated_bytes']}"
    phases = rank.get("phases")
    if phases is None:  # --brief
        return
    for phase in phases:
        yield from phase_faults(phase, f"{where}, {phase['phase']}")
    first = rank["first_step"]
    if rank["phase"] == "generation":  # an engine beside the trainer is awake: the device is fullest, not the trainer's part of it
        on_device = {phase["phase"]: phase["reserved_bytes"] + phase["piles"]["runtime"] for phase in phases}
        if on_device["generation"] != max(on_device.values()):
            yield f"{where}: the fullest phase is not generation"
        if rank["allocated_bytes"] not in [phase["allocated_bytes"] for phase in phases if phase["phase"] == "generation"]:
            yield f"{where}: allocated {rank['allocated_bytes']} is not that of generation"
    else:
        largest = max(phase["allocated_bytes"] for phase in phases)
        if rank["allocated_bytes"] != largest:
            yield f"{where}: allocated {rank['allocated_bytes']}, its largest phase {largest}"
        if largest not in [phase["allocated_bytes"] for phase in phases if phase["phase"] == rank["phase"]]:
            yield f"{where}: the largest phase is not {rank['phase']}"
        if first["allocated_bytes"] > rank["allocated_bytes"]:
            yield f"{where}: the first step needs {first['allocated_bytes']}, a later one {rank['allocated_bytes']}"
    for phase in first["phases"]:
        yield from phase_faults(phase, f"{where}, first step, {phase['phase']}")
    if first["allocated_bytes"] != max(phase["allocated_bytes"] for phase in first["phases"]):
        yield f"{where}: allocated in the first step is not that of its largest phase"


def prediction_faults(prediction):
    ranks = prediction["ranks"]
    numbers = [rank["rank"] for rank in ranks]
    if 0 not in numbers:
        yield f"ranks holds {numbers}, not rank 0"
    if len(set(numbers)) != len(numbers):
        yield f"ranks repeats a rank: {numbers}"
    for rank in ranks:
        yield from rank_faults(rank)

    peak = prediction["peak"]
    # What fills a device is what is reserved there; a rank with less allocated may have more of it.
    largest = max(rank["reserved_bytes"] for rank in ranks)
    if peak["reserved_bytes"] != largest:
        yield f"peak: reserved {peak['reserved_bytes']}, the largest rank {largest}"
    owner = [rank for rank in ranks if rank["rank"] == peak["rank"]]
    if not owner:
        yield f"peak: rank {peak['rank']} is not among the ranks"
    for rank in owner:
        for key in ("phase", "allocated_bytes", "reserved_bytes"):
            if rank[key] != peak[key]:
                yield f"peak: {key} {peak[key]}, but {rank[key]} on rank {rank['rank']}"
    if not peak["allocated_bytes"] <= peak["reserved_bytes"] <= peak["device_bytes"]:
        yield "peak: not allocated <= reserved <= device"
    if not peak["low_bytes"] <= peak["device_bytes"] <= peak["high_bytes"]:
        yield f"peak: {peak['device_bytes']} is outside of its band, {peak['low_bytes']} to {peak['high_bytes']}"
    usable = prediction["device"]["usable_bytes"]
    said = "does_not_fit" if peak["low_bytes"] > usable else "tight" if peak["high_bytes"] > usable else "fits"
    # Where a machine's own memory is the limit the verdict may be worse than the device's band: a host that keeps nothing is none.
    verdict, host = prediction["verdict"], prediction.get("host_verdict")
    may_be_worse = VERDICTS.index(verdict) > VERDICTS.index(said) and (host == verdict or host is None and prediction.get("host_bytes") != 0)
    if verdict != said and not may_be_worse:
        yield f"verdict {verdict}: the band {peak['low_bytes']} to {peak['high_bytes']} of {usable} says {said}"
    time = prediction.get("time")
    if time and not 0 < time["low_seconds"] <= time["step_seconds"] <= time["high_seconds"]:
        yield f"time: {time['step_seconds']} is outside of its band, {time['low_seconds']} to {time['high_seconds']}"

    parameters = prediction["parameters"]
    for part in ("active", "trainable"):
        if parameters[part] > parameters["total"]:
            yield f"parameters: {part} {parameters[part]} > total {parameters['total']}"


def faults_of(stdout, code):
    """Every broken sum of one command's output and exit code, as sentences."""
    found = predictions(stdout)
    faults = []
    for prediction in found:
        try:
            faults += prediction_faults(prediction)
        except (KeyError, TypeError, ValueError) as fault:
            faults.append(f"not a {SCHEMA}: {type(fault).__name__} {fault}")
    # One prediction alone: its verdict and the exit code say the same.
    if len(found) == 1 and documents(stdout) == found:
        verdict = found[0].get("verdict")
        if verdict not in ("fits", "tight", "does_not_fit"):
            faults.append(f"unknown verdict {verdict!r}")
        elif (verdict == "does_not_fit" or found[0].get("dies_at_start", False)) != (code == 1):
            faults.append(f"verdict {verdict}, exit {code}")
    return faults
