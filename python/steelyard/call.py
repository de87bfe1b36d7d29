"""A question on its way to the core: options become a request, a reply becomes a document or an error."""
from __future__ import annotations

import json
import os
from typing import Any, Callable, Mapping, NamedTuple, Sequence, Union

from . import _core
from .errors import InputError, SteelyardDefect
from .keys import KEY_OF_NAME, KEYS

Progress = Callable[[int, int, "float | None"], "bool | None"]
Path = Union[str, "os.PathLike[str]"]
#: Names and texts of files that need not lie on the disk.
Files = Union[Mapping[str, Union[str, bytes]], None]


class Request(NamedTuple):
    """A verb and its request in JSON, and texts that it names."""

    verb: str
    text: str
    files: tuple[tuple[str, bytes], ...] = ()

    def with_(self, **members: Any) -> Request:
        table = json.loads(self.text)
        table.update(members)
        return self._replace(text=dumps(table))


class Reply(NamedTuple):
    request: Request
    status: int
    text: str
    remarks: str
    files: tuple[tuple[str, bytes], ...]


def _plain(value: object) -> object:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if hasattr(value, "__index__"):  # numpy's integers, without numpy
        return int(value)
    if hasattr(value, "__float__"):
        return float(value)
    raise TypeError(f"{type(value).__name__} is no value of a run file: {value!r}")


def dumps(value: object) -> str:
    return json.dumps(value, default=_plain, allow_nan=False)


def member_of_run(run: object) -> dict[str, Any]:
    """The members that say which run is meant: a name, a path, a text in TOML, a table, or a Run."""
    from .run import Run

    if isinstance(run, Run):
        return run.members()
    if isinstance(run, Mapping):
        return {"run": dict(run)}
    if isinstance(run, (str, os.PathLike)):
        return {"run": os.fspath(run)}
    raise TypeError(f"a run is a name, a path, a table or a Run, not {type(run).__name__}")


def lay_over(table: dict[str, Any], keys: Mapping[str, Any]) -> None:
    """Puts options into a request: keys of the run file as "set", flags of the program by their own names."""
    said: dict[str, Any] = dict(table.get("set", {}))
    for name, value in keys.items():
        if value is None:
            continue
        key = KEY_OF_NAME.get(name)
        if isinstance(value, Mapping) and name != "model" and name != "set":
            said.update({f"{name}.{inner}": one for inner, one in value.items() if one is not None})
        elif name == "set":
            said.update(value)
        elif key is not None or name in KEYS:
            said[key or name] = value
        else:
            table[name] = value
    if said:
        table["set"] = said


def ask(request: Request, progress: Progress | None = None, threads: int = 0) -> Reply:
    status, text, remarks, files = _core.call(request.verb, request.text, request.files, progress, threads)
    return Reply(request, status, text, remarks, tuple(files))


def checked(reply: Reply) -> Reply:
    """The reply, or the error that it holds."""
    if reply.status == 2:
        raise InputError(json.loads(reply.text), reply.request)
    if reply.status == 70 or reply.status > 130:
        raise SteelyardDefect(reply.text or "internal error")
    return reply


def ask_text(request: Request, form: str, **members: Any) -> str:
    """The same answer as text, as a page or as a picture."""
    return ask(request.with_(format=form, **members)).text


def text_of(request: Request) -> str:
    """What the program prints for this request, beside its answer too."""
    reply = ask(request.with_(format="text"))
    return reply.text + reply.remarks


def request_for(
    verb: str,
    members: Mapping[str, Any],
    on: str | None = None,
    files: Files = None,
    keys: Mapping[str, Any] | None = None,
) -> Request:
    table = dict(members)
    if on is not None:
        table["on"] = on
    lay_over(table, keys or {})
    return Request(verb, dumps(table), named_texts(files))


def named_texts(files: Files) -> tuple[tuple[str, bytes], ...]:
    return tuple(
        (name, text.encode() if isinstance(text, str) else bytes(text)) for name, text in (files or {}).items()
    )


def written(reply: Reply) -> bytes:
    """The one file that a call would have written."""
    if not reply.files:
        raise SteelyardDefect("nothing was written")
    return reply.files[0][1]


def paths(names: Sequence[Path]) -> list[str]:
    return [os.fspath(name) for name in names]
