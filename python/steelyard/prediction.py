"""A prediction: verdict, peak and its piles, time of a step, and the changes that would fit."""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, Mapping

from .bytes import Bytes
from .call import Path, Reply, ask, checked, written
from .document import Answer, Part

if TYPE_CHECKING:
    from .answers import Explanation

Verdict = Literal["fits", "tight", "does_not_fit"]
Phase = Literal["load", "generation", "forward", "scoring", "backward", "optimizer", "checkpoint"]


class Piles(Part):
    """What a device holds at one moment, by what it is for. The parts add up to total."""

    __slots__ = ()

    @property
    def parameters(self) -> Bytes:
        return self._bytes("parameters")

    @property
    def gradients(self) -> Bytes:
        return self._bytes("gradients")

    @property
    def master_weights(self) -> Bytes:
        return self._bytes("master_weights")

    @property
    def optimizer_moments(self) -> Bytes:
        return self._bytes("optimizer_moments")

    @property
    def activations(self) -> Bytes:
        return self._bytes("activations")

    @property
    def temporary(self) -> Bytes:
        return self._bytes("temporary")

    @property
    def communication(self) -> Bytes:
        return self._bytes("communication")

    @property
    def slack(self) -> Bytes:
        """Reserved by the caching allocator and not allocated."""
        return self._bytes("slack")

    @property
    def runtime(self) -> Bytes:
        """The CUDA context and the communication library."""
        return self._bytes("runtime")

    @property
    def total(self) -> Bytes:
        return Bytes(sum(self._row.values()))

    def items(self) -> list[tuple[str, Bytes]]:
        return [(name, Bytes(size)) for name, size in self._row.items()]

    @property
    def largest(self) -> str:
        """The name of the largest pile."""
        return max(self._row, key=lambda name: int(self._row[name]))


class Device(Part):
    __slots__ = ()

    @property
    def name(self) -> str:
        return str(self._row["name"])

    @property
    def capacity(self) -> Bytes:
        return self._bytes("capacity_bytes")

    @property
    def usable(self) -> Bytes:
        return self._bytes("usable_bytes")


class _Height(Part):
    """How high memory stands at one point of a run."""

    __slots__ = ()

    @property
    def phase(self) -> Phase:
        phase: Phase = self._row["phase"]
        return phase

    @property
    def allocated(self) -> Bytes:
        """torch.cuda.max_memory_allocated()."""
        return self._bytes("allocated_bytes")

    @property
    def reserved(self) -> Bytes:
        """torch.cuda.max_memory_reserved()."""
        return self._bytes("reserved_bytes")


class _RankHeight(_Height):
    """The same of one rank, with what is beside the allocator."""

    __slots__ = ()

    @property
    def rank(self) -> int:
        return int(self._row["rank"])

    @property
    def device(self) -> Bytes:
        """What nvidia-smi shows: reserved, the CUDA context and the communication library."""
        return self._bytes("device_bytes")


class Moment(_Height):
    """A phase of a step on one rank, at its highest point."""

    __slots__ = ()

    @property
    def piles(self) -> Piles:
        return Piles(self._row["piles"])


class Rank(_RankHeight):
    """One rank, and how many others are like it."""

    __slots__ = ()

    @property
    def replicas(self) -> int:
        return int(self._row["replicas"])

    @property
    def phases(self) -> tuple[Moment, ...]:
        """Phases of the steady step; empty where the question was brief."""
        return tuple(Moment(row) for row in self._row.get("phases", ()))


class Peak(_RankHeight):
    """The highest moment of the fullest rank."""

    __slots__ = ("_ranks",)

    def __init__(self, row: Mapping[str, Any], ranks: list[dict[str, Any]]) -> None:
        super().__init__(row)
        self._ranks = ranks

    @property
    def low(self) -> Bytes:
        """The low end of the band: below it, the run surely fails."""
        return self._bytes("low_bytes")

    @property
    def high(self) -> Bytes:
        """The high end of the band."""
        return self._bytes("high_bytes")

    @property
    def piles(self) -> Piles:
        """What is held at this moment. KeyError where the answer has no phases: that of a brief question."""
        for rank in self._ranks:
            if rank["rank"] != self.rank:
                continue
            for step in (rank, rank.get("first_step", {})):
                for moment in step.get("phases", ()):
                    if moment["phase"] == self.phase and moment["allocated_bytes"] == self.allocated:
                        return Piles(moment["piles"])
        raise KeyError("no piles in a brief answer: ask without brief")


class StepTime(Part):
    """The time of one optimizer step, in seconds."""

    __slots__ = ()

    @property
    def step(self) -> float:
        return float(self._row["step_seconds"])

    @property
    def low(self) -> float:
        return float(self._row["low_seconds"])

    @property
    def high(self) -> float:
        return float(self._row["high_seconds"])

    @property
    def tokens_per_second_per_device(self) -> float:
        return float(self._row["tokens_per_second_per_device"])

    @property
    def model_flops_utilization(self) -> float:
        """Of the device's dense peak, 0 to 1."""
        return float(self._row["model_flops_utilization"])

    @property
    def terms(self) -> dict[str, float]:
        """Seconds that each part adds; they add up to the step."""
        return dict(self._row.get("terms", {}))


class Assumption(Part):
    """What the run did not say, and what was taken."""

    __slots__ = ()

    @property
    def key(self) -> str:
        return str(self._row["key"])

    @property
    def value(self) -> str:
        return str(self._row["value"])

    @property
    def reason(self) -> str:
        return str(self._row["reason"])


class Suggestion(Part):
    """A change that alone makes the run fit."""

    __slots__ = ("_of", "number")

    def __init__(self, row: Mapping[str, Any], of: Prediction, number: int) -> None:
        super().__init__(row)
        self._of = of
        self.number = number  #: as --apply takes it

    @property
    def change(self) -> dict[str, str]:
        """Keys of the run file and their new values."""
        return dict(self._row["change"])

    @property
    def says(self) -> str:
        return str(self._row["says"])

    @property
    def peak(self) -> Bytes:
        return self._bytes("peak_device_bytes")

    @property
    def saves(self) -> Bytes:
        return self._bytes("saves_bytes")

    @property
    def costs_seconds(self) -> float:
        """Of a step; negative where it becomes faster."""
        return float(self._row["costs_seconds"])

    @property
    def verdict(self) -> Verdict:
        verdict: Verdict = self._row["verdict"]
        return verdict

    def apply(self) -> Prediction:
        """The prediction of the run with this change."""
        applied = json.loads(self._of.request.text).get("apply", [])
        return Prediction(checked(ask(self._of.request.with_(apply=[*applied, self.number]))))


class Prediction(Answer):
    """What a run needs and how long its step takes.

    >>> import steelyard
    >>> answer = steelyard.weigh("llama-3.1-8b", on="8xh100-sxm-80gb", engine="fsdp2", sequence_length=4096)
    >>> answer.verdict, answer.peak.phase, answer.peak.piles.largest
    ('fits', 'backward', 'activations')
    """

    __slots__ = ()

    @property
    def verdict(self) -> Verdict:
        verdict: Verdict = self._document["verdict"]
        return verdict

    @property
    def fits(self) -> bool:
        """Whether the verdict is "fits" or "tight"."""
        return self.verdict != "does_not_fit"

    @property
    def device(self) -> Device:
        return Device(self._document["device"])

    @property
    def parameters(self) -> int:
        return int(self._document["parameters"]["total"])

    @property
    def peak(self) -> Peak:
        return Peak(self._document["peak"], self._document.get("ranks", []))

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """One of each kind of rank."""
        return tuple(Rank(row) for row in self._document.get("ranks", ()))

    @property
    def time(self) -> StepTime:
        return StepTime(self._document["time"])

    @property
    def host(self) -> Bytes:
        """Memory of the host that one rank needs."""
        return Bytes(self._document.get("host_bytes", 0))

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """Changes that each make the run fit, the cheapest first; none where it fits."""
        rows = self._document.get("suggestions", ())
        return tuple(Suggestion(row, self, i + 1) for i, row in enumerate(rows))

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return tuple(Assumption(row) for row in self._document.get("assumptions", ()))

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(
            row if isinstance(row, str) else str(row.get("message", row))
            for row in self._document.get("warnings", ())
        )

    def explain(self, selection: str) -> Explanation:
        """Where a number comes from: a pile, an entry ("activations/layers.0/mlp") or a phase."""
        from .answers import Explanation

        return Explanation(checked(ask(_of_verb(self, "explain", selection=selection))))

    def trace(self, path: Path) -> None:
        """Writes the step as a trace, for ui.perfetto.dev."""
        self._write(path, "trace")

    def snapshot(self, path: Path) -> None:
        """Writes the first two steps as a memory snapshot, which pytorch.org/memory_viz shows."""
        self._write(path, "snapshot")

    def _write(self, path: Path, flag: str) -> None:
        with open(path, "wb") as file:
            file.write(written(checked(ask(self.request.with_(**{flag: "file"})))))

    def _line(self) -> str:
        peak = self.peak
        words = self.verdict.replace("_", " ")
        return f"{words}: {peak.device.gib:.1f} of {self.device.usable.gib:.1f} GiB, step {self.time.step:.3g} s"


def _of_verb(answer: Answer, verb: str, **members: Any) -> Any:
    """The request about the same run for another command, without the flags of this one."""
    asked = json.loads(answer.request.text)
    kept = {key: asked[key] for key in ("run", "on", "set", "env", "env_file", "root") if key in asked}
    return answer.request._replace(verb=verb, text=json.dumps({**kept, **members}))


def prediction_within(document: Mapping[str, Any], answer: Answer, changes: Mapping[str, Any]) -> Prediction:
    """A prediction that another answer holds, as one of its own: changes are laid over the run that was asked about."""
    asked = json.loads(answer.request.text)
    asked["set"] = {**asked.get("set", {}), **changes}
    for name in ("over", "largest", "no_bars", "all", "files"):
        asked.pop(name, None)
    request = answer.request._replace(verb="weigh", text=json.dumps(asked))
    return Prediction(Reply(request, 0, json.dumps(document), "", ()))
