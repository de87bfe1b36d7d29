"""The same sweep with Ray Data: rows in, rows out, a batch at a time on every worker.

    pip install "ray[data]"
    python examples/python/sweep_with_ray.py             two local workers; ray.init("auto") is a cluster
"""
from __future__ import annotations

import itertools
import sys
from typing import Any

import steelyard as sy

MODELS = ("qwen2.5-0.5b", "llama-3.2-1b", "llama-3.2-3b", "llama-3.1-8b")
LENGTHS = (2048, 4096, 8192, 16384, 32768)
STAGES = (0, 2, 3)


def weighed(batch: dict[str, Any]) -> dict[str, Any]:
    """A batch of columns, on one thread: Ray has the others."""
    runs = [
        sy.Run(str(model)).replace(sequence_length=int(length), zero_stage=int(stage))
        for model, length, stage in zip(batch["model"], batch["sequence_length"], batch["zero_stage"])
    ]
    answers = sy.weigh_many(runs, on="8xh100-sxm-80gb", threads=1, brief=True)
    batch["verdict"] = ["error" if isinstance(one, sy.InputError) else one.verdict for one in answers]
    batch["peak"] = [-1 if isinstance(one, sy.InputError) else int(one.peak.device) for one in answers]
    return batch


def main() -> int:
    import ray  # type: ignore[import-not-found, unused-ignore]

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    jobs = [
        {"model": model, "sequence_length": length, "zero_stage": stage}
        for model, length, stage in itertools.product(MODELS, LENGTHS, STAGES)
    ]
    rows = ray.data.from_items(jobs).map_batches(weighed, batch_size=16).take_all()
    fitting = [row for row in rows if row["verdict"] == "fits"]
    print(f"{len(rows)} runs, {len(fitting)} fit")
    return 0 if len(rows) == len(jobs) and fitting else 1


if __name__ == "__main__":
    sys.exit(main())
