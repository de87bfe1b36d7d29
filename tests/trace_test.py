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


def check(binary, arguments):
    trace, prediction = written(binary, arguments, "--trace")
    events = json.loads(trace)["traceEvents"]
    ranks = {e["pid"] for e in events if e["ph"] == "M"}
    expect(len(ranks) == len(prediction["ranks"]) or len(ranks) > 0, "no ranks")
    longest = 0
    for rank in ranks:
        slices = [e for e in events if e["ph"] == "X" and e["pid"] == rank]
        expect(slices and all(e["dur"] > 0 for e in slices), f"rank {rank} does nothing")
        check_nesting(slices)
        longest = max(longest, max(e["ts"] + e["dur"] for e in slices))
        counters = [e for e in events if e["ph"] == "C" and e["pid"] == rank]
        expect(all(v >= 0 for e in counters for v in e["args"].values()), "a pile below nothing")
        expect(counters[0]["args"] == counters[-1]["args"], f"rank {rank}: a later step ends as it began")
    for stage, rank in enumerate(prediction["ranks"]):
        high = max(sum(e["args"].values()) for e in events if e["ph"] == "C" and e["pid"] == stage)
        expect(high == max(p["allocated_bytes"] for p in rank["phases"] if p["phase"] in ("forward", "backward", "optimizer")),
               f"stage {stage}: the trace rises to {high}")
    step = prediction["time"]["step_seconds"] * 1e6
    expect(longest <= step * 1.01 + 1, f"the trace takes {longest} us, the step {step}")
    return f"{len(events):,} events"


if __name__ == "__main__":
    sys.exit(1 if failures(RUNS, lambda arguments: check(sys.argv[1], arguments)) else 0)
