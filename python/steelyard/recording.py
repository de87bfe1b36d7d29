"""Evidence of a real run: what `compare` and `diagnose` take, written around a training step. Needs torch.

    with steelyard.record("evidence/") as recording:
        train_step()
    print(recording.diagnose(against="run.toml"))

    with steelyard.guard("evidence/", against="run.toml"):     # costs nothing to speak of until memory runs out
        trainer.train()
"""
from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Iterator

from .call import Path
from .questions import RunLike, compare, diagnose

if TYPE_CHECKING:
    from .answers import Comparison, Diagnosis

# Of a guard: events that are kept, the last of so many. About 300 bytes each on the host.
GUARD_EVENTS = 100_000


def _torch() -> Any:
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]
    except ImportError as missing:
        raise ImportError(
            "steelyard.record and steelyard.guard watch PyTorch, which is not installed: "
            "pip install torch, or pip install 'steelyard[record]'"
        ) from missing
    if not torch.cuda.is_available():
        raise RuntimeError("steelyard.record and steelyard.guard watch the memory of a CUDA device, and there is none")
    return torch


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


class Recording:
    """What was seen of a run, and the files that hold it."""

    def __init__(self, folder: Path, events: int | None) -> None:
        self.folder = os.fspath(folder)
        self.rank = _rank()
        self.step_seconds: list[float] = []
        self.peak_allocated = 0  #: bytes, torch.cuda.max_memory_allocated()
        self.peak_reserved = 0  #: bytes, torch.cuda.max_memory_reserved()
        self.out_of_memory = False
        self._torch = _torch()
        self._events = events
        self._last: float | None = None

    @property
    def snapshot(self) -> str:
        """The memory snapshot: pytorch.org/memory_viz shows it, too."""
        return os.path.join(self.folder, f"snapshot-rank{self.rank}.pickle")

    def step(self) -> None:
        """Marks the end of an optimizer step; steps are timed between two marks."""
        self._torch.cuda.synchronize()
        now = time.perf_counter()
        if self._last is not None:
            self.step_seconds.append(now - self._last)
        self._last = now

    def diagnose(self, against: RunLike | None = None) -> Diagnosis:
        """What filled the memory, by the files of this recording."""
        return diagnose(self.folder, against=against)

    def compare(self, run: RunLike) -> Comparison:
        """The prediction of a run beside what was recorded."""
        return compare(run, self.snapshot)

    def _start(self) -> None:
        os.makedirs(self.folder, exist_ok=True)
        cuda = self._torch.cuda
        cuda.reset_peak_memory_stats()
        options = {} if self._events is None else {"max_entries": self._events}
        cuda.memory._record_memory_history(enabled="all", **options)

    def _stop(self, error: BaseException | None) -> None:
        cuda = self._torch.cuda
        self.out_of_memory = isinstance(error, cuda.OutOfMemoryError)
        self.peak_allocated = int(cuda.max_memory_allocated())
        self.peak_reserved = int(cuda.max_memory_reserved())
        try:
            if error is None:
                self._write(None)
            elif self.out_of_memory:
                self._write(f"{type(error).__module__}.{type(error).__name__}: {error}\n")
        finally:
            cuda.memory._record_memory_history(enabled=None)

    def _write(self, failure: str | None) -> None:
        self._torch.cuda.memory._dump_snapshot(self.snapshot)
        with open(os.path.join(self.folder, f"memory-rank{self.rank}.txt"), "w", encoding="utf-8") as file:
            file.write(self._torch.cuda.memory_summary())
        if failure is not None:
            with open(os.path.join(self.folder, f"error-rank{self.rank}.txt"), "w", encoding="utf-8") as file:
                file.write(failure)


@contextmanager
def record(folder: Path) -> Iterator[Recording]:
    """Records every allocation inside the block and writes a snapshot and the allocator's statistics into the folder."""
    yield from _recorded(Recording(folder, None), None, False)


@contextmanager
def guard(folder: Path, against: RunLike | None = None) -> Iterator[Recording]:
    """Keeps the last allocations in memory; where memory runs out, writes them and diagnoses: the exception carries the
    answer as a note (Python 3.11), and diagnosis-rank0.txt holds it."""
    yield from _recorded(Recording(folder, GUARD_EVENTS), against, True)


def _recorded(recording: Recording, against: RunLike | None, only_failures: bool) -> Iterator[Recording]:
    recording._start()
    try:
        yield recording
    except BaseException as error:
        recording._stop(error)
        if recording.out_of_memory and only_failures:
            _say(recording, against, error)
        raise
    if only_failures:
        recording._torch.cuda.memory._record_memory_history(enabled=None)
        recording.peak_allocated = int(recording._torch.cuda.max_memory_allocated())
        recording.peak_reserved = int(recording._torch.cuda.max_memory_reserved())
    else:
        recording._stop(None)


def _say(recording: Recording, against: RunLike | None, error: BaseException) -> None:
    try:
        text = str(recording.diagnose(against))
    except ValueError as unread:  # the evidence is there all the same, and the run's own exception counts
        text = f"not diagnosed: {unread}"
    with open(os.path.join(recording.folder, f"diagnosis-rank{recording.rank}.txt"), "w", encoding="utf-8") as file:
        file.write(text + "\n")
    if hasattr(error, "add_note"):
        error.add_note(f"steelyard ({recording.folder}):\n{text}")
