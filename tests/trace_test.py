#!/usr/bin/env python3
"""What `weigh --trace` writes, as Perfetto reads it: slices nest, ranks never do two things at once, counters are the ledger's.

    trace_test.py build/dev/steelyard

Where the `perfetto` package is installed, its trace processor also opens each file.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEGATRON = ["llama-3.2-1b", "--on", "4xa100-sxm-80gb", "--engine", "megatron", "--sequence-length", "1024", "--pipeline", "4"]
RUNS = {
    "one device": ["gpt2", "--on", "1xa100-sxm-40gb", "--sequence-length", "1024", "--gradient-accumulation", "2"],
    "1f1b": [*MEGATRON, "--gradient-accumulation", "8"],
    "dualpipe": [*MEGATRON, "--gradient-accumulation", "8", "--schedule", "dualpipe", "--virtual-pipeline", "2"],
}
EDGE = 0.0021  # microseconds: edges are rounded to the nanosecond


class Disagreement(Exception):
    pass


def expect(truth, what):
    if not truth:
        raise Disagreement(what)


def written(binary, arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "trace.json")
        done = subprocess.run([binary, "weigh", *arguments, "--trace", path, "--json"], cwd=ROOT,
                              capture_output=True, text=True, check=False)
        expect(done.returncode in (0, 1), done.stderr)
        open_with_perfetto(path)
        return json.loads(path.read_text()), json.loads(done.stdout)


def open_with_perfetto(path):
    try:
        from perfetto.trace_processor import TraceProcessor
    except ImportError:
        return
    with TraceProcessor(trace=str(path)) as processor:
        slices = next(iter(processor.query("select count(*) as n from slice"))).n
        expect(slices > 0, "the trace processor finds no slices")


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
    trace, prediction = written(binary, arguments)
    events = trace["traceEvents"]
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


def main():
    failed = 0
    for name, arguments in RUNS.items():
        try:
            check(sys.argv[1], arguments)
        except Disagreement as problem:
            failed += 1
            print(f"{name}: {problem}")
    print(f"{len(RUNS) - failed} of {len(RUNS)} traces read")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
