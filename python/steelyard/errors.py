"""What is raised: a question that is not understood, and a defect of Steelyard itself."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

if TYPE_CHECKING:
    from .call import Request


class Problem:
    """One fault of the input and its place."""

    __slots__ = ("code", "message", "path", "line", "column", "label", "help", "severity")

    def __init__(self, row: Mapping[str, Any]) -> None:
        self.code: str = row.get("code", "")  #: "E104": steelyard.explain("E104") says why the rule exists
        self.message: str = row.get("message", "")
        self.path: str | None = row.get("source")
        self.line: int | None = row.get("line")
        self.column: int | None = row.get("column")
        self.label: str | None = row.get("label")
        self.help: str | None = row.get("help")
        self.severity: str = row.get("severity", "error")

    def __repr__(self) -> str:
        place = "" if self.path is None else f" {self.path}" + ("" if self.line is None else f":{self.line}")
        return f"<Problem {self.code}{place}: {self.message}>"


class InputError(ValueError):
    """The question is not understood. str() is what the program prints; `problems` holds every fault at once.

    >>> import steelyard
    >>> try:
    ...     steelyard.weigh("llama-3.1-8b", on="8xh100", sequence_lenght=4096)
    ... except steelyard.InputError as error:
    ...     print(error.problems[0].code, error.problems[0].help)
    E002 the key is "sequence_length"
    """

    def __init__(self, document: Mapping[str, Any], request: Request | None = None) -> None:
        super().__init__(document.get("error", ""))
        self.document = dict(document)
        self.request = request

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(Problem(row) for row in self.document.get("problems", ()))

    def to_dict(self) -> dict[str, Any]:
        """The steelyard.error/1 document."""
        return dict(self.document)

    def __str__(self) -> str:
        if self.request is not None:
            from .call import text_of

            text = text_of(self.request).strip()
            # A request that could not be read has no text: below, then.
            if text and not text.startswith("{"):
                return text
        lines = []
        for problem in self.problems:
            lines.append(f"{problem.severity}[{problem.code}]: {problem.message}")
            if problem.path not in (None, "request"):
                lines[-1] += f"  {problem.path}" + ("" if problem.line is None else f":{problem.line}")
            if problem.help:
                lines.append(f"help: {problem.help}")
        return "\n".join(lines) or str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return (InputError, (self.document, self.request))


class SteelyardDefect(RuntimeError):
    """An internal error of Steelyard: please report it with the input."""
