#!/usr/bin/env python3
"""What `weigh --snapshot` writes, as others read it: Python's own pickle, and PyTorch's viewer.

    snapshot_test.py build/dev/steelyard

The viewer (torch/utils/viz/MemoryViz.js) knows the opcodes below, starts from the segments, which are the state after the
last event, and undoes the events backwards: every address has to be where it looks for it.
"""

import pickle
import pickletools
import sys

from agreement import FOUR_STAGES, ONE_DEVICE, expect, failures, written

KNOWN_TO_THE_VIEWER = set("""PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT
    SHORT_BINUNICODE BINUNICODE EMPTY_LIST LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT DICT SETITEM
    SETITEMS BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET""".split())
RUNS = {
    "one device": ONE_DEVICE,
    "sharded": ["examples/llama-3.1-8b", "--on", "8xh100-sxm-80gb", "--engine", "fsdp2", "--sequence-length", "2048"],
    "a later stage": [*FOUR_STAGES, "--rank", "2"],
}


def check_opcodes(data):
    for opcode, argument, _ in pickletools.genops(data):
        expect(opcode.name in KNOWN_TO_THE_VIEWER, f"the viewer does not know {opcode.name}")
        expect(opcode.name != "PROTO" or 2 <= argument <= 4, f"protocol {argument}")


def check_segments(snapshot):
    for segment in snapshot["segments"]:
        at = segment["address"]
        for block in segment["blocks"]:
            expect(block["address"] == at, "blocks of a segment leave a gap")
            at += block["size"]
            expect(bool(block["frames"]) == (block["state"] != "inactive"), "a block in use has a stack")
        expect(at == segment["address"] + segment["total_size"], "blocks do not fill their segment")
        active = sum(b["size"] for b in segment["blocks"] if b["state"].startswith("active"))
        expect(active == segment["active_size"] == segment["allocated_size"], "sizes of a segment")
        expect(segment["frames"] and segment["segment_type"] in ("small", "large"), "a segment says whose it is")


def check_undone(snapshot):
    """As the viewer's simulate_memory: nothing is left when every event has been undone."""
    segments = {s["address"]: s["total_size"] for s in snapshot["segments"]}
    blocks = {b["address"] for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"}
    for event in reversed(snapshot["device_traces"][0]):
        action, address = event["action"], event["addr"]
        if action == "alloc":
            expect(address in blocks, "an alloc is undone that is not there")
            blocks.remove(address)
        elif action == "free_completed":
            expect(address not in blocks, "a free is undone where something stands")
            blocks.add(address)
        elif action == "segment_alloc":
            expect(segments.pop(address, None) == event["size"], "a segment is undone that is not there")
        elif action == "segment_free":
            segments[address] = event["size"]
        else:
            expect(action in ("free_requested", "snapshot"), f"action {action}")
    expect(not segments and not blocks, "something was there before the first event")


def highest(trace):
    """The most bytes in use at once."""
    now = peak = 0
    for event in trace:
        if event["action"] == "alloc":
            now += event["size"]
            peak = max(peak, now)
        elif event["action"] == "free_completed":
            now -= event["size"]
    return peak


def check(binary, arguments):
    data, prediction = written(binary, arguments, "--snapshot")
    check_opcodes(data)
    snapshot = pickle.loads(data)  # our own file
    expect(set(snapshot) == {"segments", "device_traces", "allocator_settings"}, "keys")
    expect(len(snapshot["device_traces"]) == 1, "one device")
    trace = snapshot["device_traces"][0]
    check_segments(snapshot)
    check_undone(snapshot)
    categories = {e["category"] for e in trace if "category" in e}
    expect("unknown" in categories, "without this category the viewer stops")
    for event in trace:
        expect(set(event) >= {"action", "addr", "size", "stream", "time_us", "frames"}, "keys of an event")
        expect(event["action"] == "snapshot" or len(event["frames"]) == 4, "frames of an event")
        expect(all(set(f) == {"name", "filename", "line"} for f in event["frames"]), "keys of a frame")
    steps = {e["frames"][3]["name"] for e in trace if e["frames"]}
    expect(steps == {"first step", "later step"}, f"steps {steps}")
    rank = next(r for r in reversed(prediction["ranks"])
                if r["rank"] <= int(arguments[-1] if "--rank" in arguments else 0))
    expect(highest(trace) == rank["allocated_bytes"],
           f"the timeline rises to {highest(trace)}, the prediction to {rank['allocated_bytes']}")
    return f"{len(trace):,} events"


if __name__ == "__main__":
    sys.exit(1 if failures(RUNS, lambda arguments: check(sys.argv[1], arguments)) else 0)
