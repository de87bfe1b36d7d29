#!/usr/bin/env python3
"""What `weigh --trace` writes, as Perfetto reads it: slices nest, ranks never do two things at once, counters are the ledger's.

    trace_test.py build/dev/steelyard

`perfetto/perfetto_test.py` asks Perfetto's own trace processor of the same runs.
"""

import json
import sys

from agreement import FOUR_STAGES, ONE_DEVICE, expect, failures, written

RUNS = {
    "one device": ONE_DEVICE,
    "1f1b": FOUR_STAGES,
    "dualpipe": [*FOUR_STAGES, "--schedule", "dualpipe", "--virtual-pipeline", "2"],
}
EDGE = 0.0021  # microseconds: edges are rounded to the nanosecond


def check_nesting(slices):
    """Slices of one thread lie inside or behind one another."""
    inside = []
    for one in sorted(slices, key=lambda s: (s["ts"], s["cat"] == "term")):
        while inside and inside[-1]["ts"] + inside[-1]["dur"] <= one["ts"] + EDGE:
            inside.pop()
        if inside:
            expect(one["cat"] == "term" and inside[-1]["cat"] == "step", f"{one['name']} overlaps {inside[-1]['name']}")
            expect(one["ts"] + one["dur"] <= inside[-1]["ts"] + inside[-1]["dur"] + EDGE,
                   f"{one['name']} sticks out of {inside[-1]['name']}")
        inside.append(one)


def moments(counters):
    """What all piles hold together, moment by moment: each writes one event, in the same order."""
    piles = list(dict.fromkeys(e["name"] for e in counters))
    for at in range(0, len(counters), len(piles)):
        together = counters[at:at + len(piles)]
        expect([e["name"] for e in together] == piles, "a moment lacks a pile")
        yield sum(e["args"]["bytes"] for e in together)


def check_sends(events):
    """Arrows leave a slice that computes and come to one, not before they left."""
    ends = {kind: {e["id"]: e for e in events if e["ph"] == kind} for kind in "sf"}
    expect(ends["s"].keys() == ends["f"].keys(), "an arrow has one end")
    for number, start in ends["s"].items():
        end = ends["f"][number]
        expect(start["pid"] != end["pid"] and start["ts"] <= end["ts"], f"arrow {number} goes nowhere, or back in time")
        for side in (start, end):
            expect(any(s["ph"] == "X" and s["pid"] == side["pid"] and s["tid"] == side["tid"] and s["ts"] <= side["ts"] <= s["ts"] + s["dur"]
                       for s in events), f"arrow {number} hangs in the air")


def check(binary, arguments):
    trace, prediction = written(binary, arguments, "--trace")
    events = json.loads(trace)["traceEvents"]
    ranks = {e["pid"] for e in events if e["ph"] == "M"}
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    check_sends(events)
    expect(len(ranks) == len(prediction["ranks"]) or len(ranks) > 0, "no ranks")
    longest = 0
    for rank in ranks:
        slices = [e for e in events if e["ph"] == "X" and e["pid"] == rank]
        expect(slices and all(e["dur"] > 0 for e in slices), f"rank {rank} does nothing")
        for stream in {e["tid"] for e in slices}:
            expect((rank, stream) in named, f"rank {rank}: stream {stream} has no name")
            check_nesting([e for e in slices if e["tid"] == stream])
        longest = max(longest, max(e["ts"] + e["dur"] for e in slices))
        counters = [e for e in events if e["ph"] == "C" and e["pid"] == rank]
        expect(all(e["args"]["bytes"] >= 0 for e in counters), "a pile below nothing")
        for pile in {e["name"] for e in counters}:
            of_pile = [e["args"] for e in counters if e["name"] == pile]
            expect(of_pile[0] == of_pile[-1], f"rank {rank}: a later step ends as it began, but for {pile}")
    for stage, rank in enumerate(prediction["ranks"]):
        high = max(moments([e for e in events if e["ph"] == "C" and e["pid"] == stage]))
        expect(high == max(p["allocated_bytes"] for p in rank["phases"] if p["phase"] in ("forward", "backward", "optimizer")),
               f"stage {stage}: the trace rises to {high}")
    step = prediction["time"]["step_seconds"] * 1e6
    expect(longest <= step * 1.01 + 1, f"the trace takes {longest} us, the step {step}")
    return f"{len(events):,} events"


if __name__ == "__main__":
    sys.exit(1 if failures(RUNS, lambda arguments: check(sys.argv[1], arguments)) else 0)
