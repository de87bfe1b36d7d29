"""The questions, by the names of the program's commands."""
from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Sequence, Union

from . import _core
from .answers import Comparison, Diagnosis, Explanation, Exported, Gate, Imported, Listing, Plan, Sweep
from .call import Files, Path, Progress, Reply, Request, ask, checked, member_of_run, named_texts, paths, request_for
from .errors import InputError
from .prediction import Prediction
from .run import Run

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .keys import RunKeys

#: A preset's name, a size ("7b"), a file, a run file as a table or as a text in TOML, or a Run.
RunLike = Union[str, "os.PathLike[str]", Mapping[str, Any], Run]


def weigh(
    run: RunLike,
    *,
    on: str | None = None,
    files: Files = None,
    brief: bool | None = None,
    apply: int | Sequence[int] | None = None,
    calibrated: Path | None = None,
    price: float | None = None,
    env: Sequence[str] | None = None,
    **keys: Unpack[RunKeys],
) -> Prediction:
    """Does a run fit, and how long is its step?

    on: "8xh100-sxm-80gb", devices and their kind. Keys of the run file are named flat (zero_stage=3) or by their group
    (parallel={"zero_stage": 3}). files: texts that the run names. Sizes are bytes, times are seconds.
    """
    flags = {"brief": brief, "apply": apply, "calibrated": calibrated, "price": price, "env": env}
    return Prediction(checked(ask(request_for("weigh", member_of_run(run), on, files, {**flags, **keys}))))


def estimate(
    run: RunLike, *, on: str | None = None, files: Files = None, **keys: Unpack[RunKeys]
) -> Prediction:
    """Peak and step time alone, several times as fast as weigh: the allocator is not simulated."""
    return Prediction(checked(ask(request_for("estimate", member_of_run(run), on, files, dict(keys)))))


def weigh_many(
    jobs: Iterable[RunLike], *, threads: int = 0, brief: bool = False, on: str | None = None, **keys: Unpack[RunKeys]
) -> list[Prediction | InputError]:
    """Many runs at once, on all cores (threads=0), in their order. A job that is not understood is an error in its place.

    on and keys are laid over every job. brief: verdict and peak, without phases and piles.

    >>> import steelyard
    >>> runs = [steelyard.Run("llama-3.1-8b", {"training.micro_batch": n}) for n in (1, 2, 400)]
    >>> [answer.verdict for answer in steelyard.weigh_many(runs, on="8xh100-sxm-80gb")]
    ['fits', 'fits', 'does_not_fit']
    """
    laid: dict[str, Any] = {"brief": brief or None, **keys}
    requests = [request_for("weigh", member_of_run(job), on, None, laid) for job in jobs]
    answers: list[Prediction | InputError] = []
    for request, (status, text, remarks, files) in zip(
        requests, _core.call_many("weigh", [request.text for request in requests], threads)
    ):
        reply = Reply(request, status, text, remarks, tuple(files))
        answers.append(InputError(json.loads(text), request) if status == 2 else Prediction(checked(reply)))
    return answers


def plan(
    run: RunLike,
    *,
    on: str | None = None,
    files: Files = None,
    minimize: str | None = None,
    maximize: str | None = None,
    allow: Sequence[str] | None = None,
    why: Sequence[str] | None = None,
    seconds: float | None = None,
    price: float | None = None,
    calibrated: Path | None = None,
    progress: Progress | None = None,
    threads: int = 0,
    **keys: Unpack[RunKeys],
) -> Plan:
    """The fastest layouts that fit. What the run or a key says stays as it is said.

    progress(done, all, best_seconds) is called now and then; False ends the search with the best so far.
    """
    flags: dict[str, Any] = {"minimize": minimize, "maximize": maximize, "allow": allow, "why": why}
    flags.update(price=price, seconds=seconds, calibrated=calibrated)
    request = request_for("plan", member_of_run(run), on, files, {**flags, **keys})
    return Plan(checked(ask(request, progress, threads)))


def sweep(
    run: RunLike,
    *,
    on: str | None = None,
    files: Files = None,
    over: Mapping[str, Any] | str | Sequence[str] | None = None,
    **keys: Any,
) -> Sweep:
    """The same question over values: a key with a list is swept, sequence_length=[2048, 4096]; several multiply.

    over: {"training.sequence_length": [2048, 4096]}, or as on the command line: "training.sequence_length=2048..65536".

    >>> import steelyard
    >>> points = steelyard.sweep("llama-3.1-8b", on="8xh100-sxm-80gb", sequence_length=[2048, 4096])
    >>> [(point.values["training.sequence_length"], point.prediction.verdict) for point in points]
    [(2048, 'fits'), (4096, 'fits')]
    """
    ranges = [over] if isinstance(over, str) else []
    swept: dict[str, Any] = dict(over) if isinstance(over, Mapping) else {}
    if over is not None and not isinstance(over, (str, Mapping)):
        ranges.extend(over)
    from .keys import KEY_OF_NAME, KEYS_OF_LISTS

    for name, value in tuple(keys.items()):
        if isinstance(value, (list, tuple, range)) and KEY_OF_NAME.get(name, name) not in KEYS_OF_LISTS:
            swept[name] = keys.pop(name)
    for name, value in swept.items():
        values = value if isinstance(value, str) else ",".join(_word(one) for one in value)
        ranges.append(f"{KEY_OF_NAME.get(name, name)}={values}")
    request = request_for("sweep", member_of_run(run), on, files, {"over": ranges, **keys})
    return Sweep(checked(ask(request)))


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def explain(
    run: RunLike, selection: str | None = None, *, on: str | None = None, **keys: Unpack[RunKeys]
) -> Explanation:
    """Where a number comes from: explain(run, "activations"). With one word: an error code, a rule, a key, a model."""
    members = member_of_run(run)
    if selection is not None:
        members["selection"] = selection
    return Explanation(checked(ask(request_for("explain", members, on, None, dict(keys)))))


def compare(
    before: RunLike, after: RunLike, *, on: str | None = None, batch: bool | None = None, **keys: Unpack[RunKeys]
) -> Comparison:
    """Two runs beside each other; either may be a memory snapshot, the second a stored checkpoint. Keys apply to both."""
    table = {"before": _side(before), "after": _side(after)}
    return Comparison(checked(ask(request_for("compare", table, on, None, {"batch": batch, **keys}))))


def _side(run: RunLike) -> Any:
    # Changes of one side alone cannot be laid over both.
    if isinstance(run, Run) and (run.changes or run.on):
        return run.text
    return member_of_run(run)["run"]


def diagnose(
    *evidence: Path,
    against: RunLike | None = None,
    files: Files = None,
    plan_experiment: bool | None = None,
) -> Diagnosis:
    """What filled the memory. evidence: logs, memory snapshots, folders; against: the run that it belongs to."""
    flags = {"against": None if against is None else _side(against), "plan_experiment": plan_experiment}
    return Diagnosis(checked(ask(_request("diagnose", {"evidence": paths(evidence)}, files, flags))))


def gate(run: RunLike, *, policy: Path | None = None, on: str | None = None, **keys: Unpack[RunKeys]) -> Gate:
    """Whether a job should start: what would surely die is refused."""
    return Gate(checked(ask(request_for("gate", member_of_run(run), on, None, {"policy": policy, **keys}))))


def import_(
    launch_file: Path | Run,
    *,
    on: str | None = None,
    files: Files = None,
    env: Sequence[str] | None = None,
    **keys: Unpack[RunKeys],
) -> Imported:
    """A launch configuration as a run: DeepSpeed, Accelerate, torchtitan, Megatron-LM, Axolotl and their scripts."""
    members = member_of_run(launch_file)
    return Imported(checked(ask(request_for("import", members, on, files, {"env": env, **keys}))))


def export(
    run: RunLike, to: str, *, on: str | None = None, slurm: bool | None = None, **keys: Unpack[RunKeys]
) -> Exported:
    """A run as files of an engine: deepspeed, accelerate, torchtitan, megatron, axolotl, llama-factory, slurm, ..."""
    flags = {"to": to, "slurm": slurm}
    return Exported(checked(ask(request_for("export", member_of_run(run), on, None, {**flags, **keys}))))


def list_(what: str) -> Listing:
    """What is known, with sources: "models", "devices", "engines", "rules", "keys", "errors", ...

    >>> import steelyard
    >>> "h100-sxm-80gb" in steelyard.list("devices").names
    True
    """
    return Listing(checked(ask(_request("list", {"what": what}))))


def _request(
    verb: str,
    members: Mapping[str, Any],
    files: Files = None,
    flags: Mapping[str, Any] | None = None,
) -> Request:
    table = {**members, **{name: value for name, value in (flags or {}).items() if value is not None}}
    return Request(verb, json.dumps(table), named_texts(files))
