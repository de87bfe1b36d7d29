"""A sweep of many runs on a Dask cluster: each worker weighs a part with weigh_many.

    pip install dask distributed
    python examples/python/sweep_with_dask.py            two local processes; Client("scheduler:8786") is a cluster
"""
from __future__ import annotations

import itertools
import sys
from typing import Any

import steelyard as sy

MODELS = ("qwen2.5-0.5b", "llama-3.2-1b", "llama-3.2-3b", "llama-3.1-8b")
LENGTHS = (2048, 4096, 8192, 16384, 32768)
STAGES = (0, 2, 3)
Row = dict[str, object]


def weighed(part: list[tuple[str, int, int]]) -> list[Row]:
    """A part of the sweep, on one thread: the cluster has the others."""
    runs = [sy.Run(model).replace(sequence_length=length, zero_stage=stage) for model, length, stage in part]
    rows: list[Row] = []
    for (model, length, stage), answer in zip(part, sy.weigh_many(runs, on="8xh100-sxm-80gb", threads=1, brief=True)):
        row: Row = {"model": model, "sequence_length": length, "zero_stage": stage}
        if isinstance(answer, sy.InputError):
            row["error"] = answer.problems[0].message
        else:
            row.update(verdict=answer.verdict, peak=int(answer.peak.device), step_seconds=answer.time.step)
        rows.append(row)
    return rows


def main() -> int:
    from dask.distributed import Client, LocalCluster  # type: ignore[import-not-found, unused-ignore]

    jobs = list(itertools.product(MODELS, LENGTHS, STAGES))
    parts = [jobs[i : i + 10] for i in range(0, len(jobs), 10)]
    local: Any = LocalCluster
    connect: Any = Client
    with local(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, connect(cluster) as client:
        rows = [row for part in client.gather(client.map(weighed, parts)) for row in part]
    fitting = [row for row in rows if row.get("verdict") == "fits"]
    print(f"{len(rows)} runs, {len(fitting)} fit")
    return 0 if len(rows) == len(jobs) and fitting else 1


if __name__ == "__main__":
    sys.exit(main())
