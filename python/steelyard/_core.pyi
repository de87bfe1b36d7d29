import collections.abc

def call(
    verb: str,
    request: str,
    files: collections.abc.Sequence[tuple[str, bytes]],
    progress: collections.abc.Callable[[int, int, float | None], bool | None] | None,
    threads: int,
) -> tuple[int, str, str, list[tuple[str, bytes]]]:
    """Answers a request: status, document, remarks, files that the program would have written."""

def call_many(
    verb: str, requests: collections.abc.Sequence[str], threads: int
) -> list[tuple[int, str, str, list[tuple[str, bytes]]]]:
    """Answers many requests on several threads (0: all cores), in their order."""

def version() -> str:
    """ "0.1.0" """
