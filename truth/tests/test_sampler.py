"""Draws are the same for the same seed and number, differ between numbers, and shrink to other runs, each simpler in one key."""

import copy
import json

import random_runs
import sampler


def test_the_same_seed_and_number_give_the_same_run():
    assert sampler.draw("a", 3) == sampler.draw("a", 3)
    assert len({json.dumps(sampler.draw("a", n), sort_keys=True) for n in range(50)}) > 45
    assert sampler.draw("a", 3) != sampler.draw("b", 3)


def test_draws_reach_every_engine_and_every_kind_of_recomputation():
    runs = [sampler.draw("reach", n) for n in range(400)]
    assert {run["engine"] for run in runs} == {"ddp", "fsdp1", "fsdp2"}
    assert {run.get("recompute", {}).get("mode", "none") for run in runs} == {"none", "full", "every", "block"}
    assert any("adapter" in run for run in runs) and any(run.get("parallel", {}).get("pipeline") for run in runs)
    assert not any(run["training"]["precision"] == "fp32" and run["training"]["attention"] == "flash" for run in runs)


def test_a_neighbour_differs_in_one_key_and_leaves_the_run_alone():
    run = sampler.draw("a", 8)
    before = copy.deepcopy(run)
    neighbours = list(sampler.simpler(run))
    assert neighbours and run == before and all(neighbour != run for neighbour in neighbours)


def test_a_difference_is_shrunk_to_the_key_that_makes_it():
    """A program that leaves out what accumulation adds."""
    run = sampler.draw("a", 8)
    run["training"].update(gradient_accumulation=4, gradient_clip=True, micro_batch=4)

    def record_of(tried):
        more = 1000 if tried["training"].get("gradient_accumulation") else 0
        return {"phases": [{"step": "steady", "phase": "backward", "allocated_bytes": 1000 + more}]}

    answer = {"ranks": [{"coordinates": {"pipeline": 0}, "phases": [{"phase": "load", "allocated_bytes": 0}, {"phase": "backward", "allocated_bytes": 1000}],
                         "first_step": {"phases": []}}]}
    asked, random_runs.ask = random_runs.ask, lambda binary, runs: [answer]
    try:
        small, outcome = random_runs.shrink(run, random_runs.Outcome(record_of(run), answer), record_of, "")
    finally:
        random_runs.ask = asked
    assert outcome.relative == -0.5
    assert small["training"]["gradient_accumulation"] == 4
    assert "gradient_clip" not in small["training"] and small["training"]["micro_batch"] == 1
