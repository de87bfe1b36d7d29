"""What all answers share: a document, immutable, with the text and the page that the program would give."""
from __future__ import annotations

import json
from typing import Any, Generic, Iterator, Mapping, TypeVar

from .bytes import Bytes
from .call import Path, Reply, Request, ask_text, text_of

T = TypeVar("T")


class Part:
    """A table within a document, with names for what it holds."""

    __slots__ = ("_row",)

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row

    def to_dict(self) -> dict[str, Any]:
        copied: dict[str, Any] = json.loads(json.dumps(self._row))
        return copied

    def __getitem__(self, key: str) -> Any:
        return self._row[key]

    def _bytes(self, key: str) -> Bytes:
        return Bytes(self._row[key])

    def _bytes_or_none(self, key: str) -> Bytes | None:
        value = self._row.get(key)
        return None if value is None else Bytes(value)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Part) and self._row == other._row

    def __hash__(self) -> int:
        return hash(json.dumps(self._row, sort_keys=True))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {json.dumps(self._row)[:200]}>"


class Answer:
    """An answer of the core. str() is what the program prints; to_dict() is its --json document."""

    __slots__ = ("request", "_text", "_table", "status", "remarks")

    def __init__(self, reply: Reply) -> None:
        self.request: Request = reply.request
        self.status: int = reply.status  #: the program's exit status: 0, or 1 for a finding
        self.remarks: str = reply.remarks
        self._text = reply.text
        self._table: dict[str, Any] | None = None

    @property
    def _document(self) -> dict[str, Any]:
        # Parsed when it is first looked into: most of many answers are only asked for a few things.
        if self._table is None:
            self._table = json.loads(self._text)
        return self._table

    def to_dict(self) -> dict[str, Any]:
        """The document that --json prints; sizes are bytes, times are seconds."""
        table: dict[str, Any] = json.loads(self._text)
        return table

    def to_json(self) -> str:
        return self._text

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def save(self, path: Path) -> None:
        """Writes the answer: .html is a page with charts, .svg its main chart, .json the document, .txt the text."""
        name = str(path)
        form = next((form for form in ("html", "svg", "json") if name.endswith("." + form)), "text")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._text if form == "json" else ask_text(self.request, form))

    def svg(self) -> str:
        """The main chart of the answer."""
        return ask_text(self.request, "svg")

    def html(self) -> str:
        """The answer as a page of its own."""
        return ask_text(self.request, "html")

    def __str__(self) -> str:
        return text_of(self.request).rstrip("\n")

    def _line(self) -> str:
        lines = str(self).splitlines()
        return " ".join(lines[0].split()) if lines else ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._line()}>"

    def _repr_html_(self) -> str:
        from .notebook import fragment

        return fragment(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {
            "text/plain": str(self),
            "text/html": self._repr_html_(),
            "application/json": self.to_dict(),
        }

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Answer) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (Reply(self.request, self.status, self._text, self.remarks, ()),))


class Rows(Generic[T]):
    """Rows of an answer: iterable, indexed, and a table for pandas or Arrow where those are installed."""

    __slots__ = ("_rows", "_flat")

    def __init__(self, rows: tuple[T, ...], flat: list[dict[str, Any]]) -> None:
        self._rows = rows
        self._flat = flat

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[T]:
        return iter(self._rows)

    def __getitem__(self, index: int) -> T:
        return self._rows[index]

    def to_dicts(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self._flat]

    def to_pandas(self) -> Any:
        """A pandas.DataFrame."""
        import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]

        return pandas.DataFrame(self._flat)

    def to_arrow(self) -> Any:
        """A pyarrow.Table."""
        import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

        return pyarrow.Table.from_pylist(self._flat)
