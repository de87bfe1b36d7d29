from collections.abc import Callable, Sequence


def call(verb: str, request: str, files: Sequence[tuple[str, bytes]], progress: Callable[[int, int, float | None], bool | None] | None, threads: int) -> tuple[int, str, str, list[tuple[str, bytes]]]:
    """
    Answers a request: status, document, remarks, files that the program would have written.
    """

def call_many(verb: str, requests: Sequence[str], threads: int) -> list[tuple[int, str, str, list[tuple[str, bytes]]]]:
    """
    Answers many requests on several threads (0: all cores), in their order.
    """

def version() -> str:
    """"0.1.0\""""
