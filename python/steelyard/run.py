"""A training run as a value: a run file or launch file and changes laid over it."""
from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Mapping

from .call import Path, ask, checked, lay_over, request_for, written

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .keys import RunKeys


class Run:
    """A run, never changed: replace() makes another. steelyard.load() makes one of a file.

    >>> run = Run({"model": "llama-3.1-8b", "cluster": {"device": "h100-sxm-80gb", "devices": 8}})
    >>> short = run.replace(sequence_length=4096)
    >>> dict(short.changes), dict(run.changes)
    ({'training.sequence_length': 4096}, {})
    """

    __slots__ = ("_source", "_changes", "_on")

    def __init__(
        self,
        source: Path | Mapping[str, Any],
        changes: Mapping[str, Any] | None = None,
        on: str | None = None,
    ) -> None:
        self._source: str | dict[str, Any] = dict(source) if isinstance(source, Mapping) else os.fspath(source)
        self._changes = dict(changes or {})
        self._on = on

    @property
    def source(self) -> str | dict[str, Any]:
        """A name, a path, a text in TOML, or the table of a run file."""
        return dict(self._source) if isinstance(self._source, dict) else self._source

    @property
    def changes(self) -> Mapping[str, Any]:
        """Keys of the run file, with dots, laid over the source."""
        return MappingProxyType(self._changes)

    @property
    def on(self) -> str | None:
        """Devices and their kind, where they were said apart: "8xh100-sxm-80gb"."""
        return self._on

    def replace(self, *, on: str | None = None, **keys: Unpack[RunKeys]) -> Run:
        """The same run with other values: replace(sequence_length=8192, parallel={"tensor": 2})."""
        table: dict[str, Any] = {"set": self._changes}
        lay_over(table, keys)
        changes = table.pop("set")
        # What is no key stays in: the core refuses it, with the nearest name.
        return Run(self._source, {**changes, **table}, self._on if on is None else on)

    @property
    def text(self) -> str:
        """The run file in TOML, with the comments and the order of its source."""
        request = request_for("weigh", self.members(), keys={"write": "run.toml"})
        return written(checked(ask(request))).decode()

    def members(self) -> dict[str, Any]:
        """The run as members of a request."""
        table: dict[str, Any] = {"run": self.source}
        if self._changes:
            table["set"] = dict(self._changes)
        if self._on is not None:
            table["on"] = self._on
        return table

    def save(self, path: Path) -> None:
        """Writes the run file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self.members() == other.members()

    def __hash__(self) -> int:
        return hash(repr(self.members()))

    def __repr__(self) -> str:
        name = self._source if isinstance(self._source, str) else str(self._source.get("model", "a table"))
        lines = name.strip().splitlines() or [""]
        on = "" if self._on is None else f" on {self._on}"
        changes = "".join(f", {key}={value!r}" for key, value in self._changes.items())
        return f"<Run {lines[0]}{on}{changes}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Run, (self._source, self._changes, self._on))


def load(path: Path) -> Run:
    """A run file or launch file. It is read when a question is asked; what it names is looked for beside it."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"no run file {os.fspath(path)}")
    return Run(path)
