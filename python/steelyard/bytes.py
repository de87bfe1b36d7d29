"""A number of bytes: an int that says its unit when it is printed."""
from __future__ import annotations


class Bytes(int):
    """Bytes.

    >>> size = Bytes(3 * 2**30)
    >>> size.gib, size.gb, size + 1
    (3.0, 3.221225472, 3221225473)
    >>> print(size)
    3.0 GiB
    """

    __slots__ = ()

    @property
    def mib(self) -> float:
        """In MiB of 2**20 bytes."""
        return self / 2**20

    @property
    def gib(self) -> float:
        """In GiB of 2**30 bytes."""
        return self / 2**30

    @property
    def gb(self) -> float:
        """In GB of 10**9 bytes."""
        return self / 1e9

    def __str__(self) -> str:
        return f"{self.gib:.1f} GiB"

    def __repr__(self) -> str:
        return f"Bytes({int(self)})"
