"""Real processes over gloo, with data: what a rank on paper cannot say. See processes.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "processes.py"
WHOLE = 78_144  # elements: 2 x 30,848 of the layers, embedding and head of 128 x 64 each, the last norm's 64
LAYER, ROOT = 30_848, 78_144 - 2 * 30_848


@pytest.fixture(scope="module")
def reports():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def of(reports, engine):
    return [r for r in reports if r.get("engine") == engine]


def test_every_engine_computes_the_same_loss_and_gradients(reports):
    alone = reports[0]["one process"]
    assert len(reports) == 7
    for report in reports[1:]:
        assert abs(report["loss"] - alone["loss"]) < 1e-5 and abs(report["norm"] - alone["norm"]) < 1e-4


def test_shards_together_are_the_model(reports):
    assert [r["elements"] for r in of(reports, "ddp")] == [WHOLE, WHOLE]
    assert sum(r["elements"] for r in of(reports, "fsdp2")) == WHOLE
    assert sum(r["elements"] for r in of(reports, "pipeline")) == WHOLE


def test_what_ranks_send(reports):
    """DDP: all gradients in one bucket. FSDP2: layers are gathered for forward and for backward, the root once."""
    for report in of(reports, "ddp"):
        assert ["allreduce_", WHOLE * 4, 1] in report["collectives"]
    for report in of(reports, "fsdp2"):
        assert report["collectives"] == [["_allgather_base_", ROOT * 4, 1], ["_allgather_base_", LAYER * 4, 4],
                                         ["_reduce_scatter_base_", ROOT * 4, 1], ["_reduce_scatter_base_", LAYER * 4, 2]]
