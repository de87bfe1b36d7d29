"""Answers of the other commands, each with the names of its parts."""
from __future__ import annotations

import os
from typing import Any, Iterator, Literal, Mapping

from .bytes import Bytes
from .call import Path, ask, checked, written
from .document import Answer, Part, Rows
from .prediction import Assumption, Prediction, Verdict, prediction_within
from .run import Run


class Layout(Part):
    """A layout of a plan: engine, ranks, micro-batch, recomputation, and what it needs."""

    __slots__ = ()

    @property
    def verdict(self) -> Verdict:
        verdict: Verdict = self._row["verdict"]
        return verdict

    @property
    def values(self) -> dict[str, Any]:
        """{"engine": "fsdp2", "tensor": 1, "data": 8, ...}"""
        return dict(self._row["layout"])

    @property
    def peak(self) -> Bytes:
        return self._bytes("device_bytes")

    @property
    def low(self) -> Bytes:
        return self._bytes("low_bytes")

    @property
    def high(self) -> Bytes:
        return self._bytes("high_bytes")

    @property
    def step_seconds(self) -> float:
        return float(self._row["step_seconds"])

    @property
    def tokens_per_second_per_device(self) -> float:
        return float(self._row["tokens_per_second_per_device"])


class Plan(Answer):
    """The fastest layouts that fit, in order."""

    __slots__ = ()

    @property
    def verdict(self) -> Literal["fits", "tight", "nothing_fits"]:
        verdict: Literal["fits", "tight", "nothing_fits"] = self._document["verdict"]
        return verdict

    @property
    def layouts(self) -> Rows[Layout]:
        rows = self._document.get("layouts", [])
        flat = [{**row["layout"], **{k: v for k, v in row.items() if not isinstance(v, dict)}} for row in rows]
        return Rows(tuple(Layout(row) for row in rows), flat)

    @property
    def best(self) -> Layout | None:
        """The fastest that fits."""
        layouts = self.layouts
        return layouts[0] if len(layouts) else None

    @property
    def counts(self) -> dict[str, int]:
        """How many layouts there were, and what became of them."""
        return dict(self._document["counts"])

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return tuple(Assumption(row) for row in self._document.get("assumptions", ()))

    @property
    def interrupted(self) -> bool:
        """Whether the search was stopped: the layouts are then the best so far."""
        return bool(self._document.get("interrupted", False)) or self.status == 130

    def run(self) -> Run:
        """The best layout as a run. Searches once more."""
        return Run(written(checked(ask(self.request.with_(write="run.toml")))).decode())

    def _line(self) -> str:
        best = self.best
        if best is None:
            return f"nothing fits, of {self.counts['layouts']:,} layouts"
        return f"{best.values['engine']}, step {best.step_seconds:.3g} s, of {self.counts['layouts']:,} layouts"


class Point(Part):
    """One point of a sweep."""

    __slots__ = ("prediction",)

    def __init__(self, row: Mapping[str, Any], sweep: Sweep) -> None:
        super().__init__(row)
        self.prediction: Prediction = prediction_within(row["prediction"], sweep, row["values"])

    @property
    def values(self) -> dict[str, Any]:
        return dict(self._row["values"])


class Sweep(Answer):
    """The same question over a range of values: points in order."""

    __slots__ = ()

    @property
    def over(self) -> tuple[str, ...]:
        return tuple(self._document.get("over", ()))

    @property
    def points(self) -> Rows[Point]:
        rows = [row for row in self._document.get("points", []) if "prediction" in row]
        flat = [
            {
                **row["values"],
                "verdict": row["prediction"]["verdict"],
                "device_bytes": row["prediction"]["peak"]["device_bytes"],
                "low_bytes": row["prediction"]["peak"]["low_bytes"],
                "high_bytes": row["prediction"]["peak"]["high_bytes"],
                "step_seconds": row["prediction"].get("time", {}).get("step_seconds"),
            }
            for row in rows
        ]
        return Rows(tuple(Point(row, self) for row in rows), flat)

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def to_pandas(self) -> Any:
        return self.points.to_pandas()

    def to_arrow(self) -> Any:
        return self.points.to_arrow()


class Explanation(Answer):
    """Where a number comes from, what a rule or an error code says, what a model's states cost. print() shows it."""

    __slots__ = ()

    @property
    def total(self) -> Bytes | None:
        """The number that is explained, where it is one."""
        value = self._document.get("total_bytes")
        return None if value is None else Bytes(value)

    @property
    def lines(self) -> tuple[dict[str, Any], ...]:
        """Formula, inputs, rule and source of each part."""
        return tuple(self._document.get("lines", ()))


class PileChange(Part):
    __slots__ = ()

    @property
    def pile(self) -> str:
        return str(self._row["pile"])

    @property
    def before(self) -> Bytes:
        return self._bytes("before_bytes")

    @property
    def after(self) -> Bytes:
        return self._bytes("after_bytes")

    @property
    def delta(self) -> Bytes:
        return self._bytes("delta_bytes")


class Comparison(Answer):
    """Two runs beside each other, or a run and what was measured of it."""

    __slots__ = ()

    @property
    def same(self) -> bool:
        return bool(self._document.get("same", self.status == 0))

    @property
    def piles(self) -> tuple[PileChange, ...]:
        return tuple(PileChange(row) for row in self._document.get("piles", ()))

    @property
    def changed(self) -> tuple[dict[str, Any], ...]:
        """Keys whose values differ."""
        return tuple(self._document.get("changed", ()))


class Diagnosis(Answer):
    """What filled the memory, with the lines that prove it, and what to change."""

    __slots__ = ()

    @property
    def verdict(self) -> str:
        return str(self._document["verdict"])

    @property
    def also(self) -> tuple[str, ...]:
        """Other causes that the evidence allows."""
        return tuple(self._document.get("also", ()))

    @property
    def certainty(self) -> float:
        return float(self._document["certainty"])

    @property
    def proof(self) -> tuple[dict[str, Any], ...]:
        return tuple(self._document.get("proof", ()))

    @property
    def fixes(self) -> tuple[dict[str, Any], ...]:
        return tuple(self._document.get("fixes", ()))


class Gate(Answer):
    """Whether a job should start."""

    __slots__ = ()

    @property
    def refused(self) -> bool:
        return bool(self._document.get("refused", self.status != 0))

    @property
    def line(self) -> str:
        return str(self._document.get("line", ""))


class Imported(Answer):
    """A launch configuration as a run, each value with its place."""

    __slots__ = ()

    @property
    def run(self) -> Run:
        return Run(self._document["run"])

    @property
    def formats(self) -> tuple[str, ...]:
        return tuple(self._document.get("formats", ()))

    @property
    def origins(self) -> dict[str, dict[str, Any]]:
        """Of each key: "source" and "line"."""
        return dict(self._document.get("origins", {}))

    @property
    def unsaid(self) -> tuple[dict[str, Any], ...]:
        """What the files do not say, and what was taken."""
        return tuple(self._document.get("unsaid", ()))


class Exported(Answer):
    """A run as an engine's own files."""

    __slots__ = ()

    @property
    def files(self) -> dict[str, str]:
        """Names and texts."""
        return dict(self._document.get("files", {}))

    @property
    def losses(self) -> tuple[Any, ...]:
        """What the engine cannot say."""
        return tuple(self._document.get("losses", ()))

    def save(self, path: Path) -> None:
        """Writes the files into a folder, which is made if it is not there."""
        os.makedirs(path, exist_ok=True)
        for name, text in self.files.items():
            with open(os.path.join(path, os.path.basename(name)), "w", encoding="utf-8") as file:
                file.write(text)


class Listing(Answer):
    """What is known: rows with sources."""

    __slots__ = ()

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        for value in self._document.values():
            if isinstance(value, list):
                return tuple(value)
        return ()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def _line(self) -> str:
        return f"of {len(self)} rows"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(row.get("name", row.get("key", row.get("code")))) for row in self.rows)


