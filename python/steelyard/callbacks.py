"""Guards as callbacks of trainers. torchtitan has none: there, put steelyard.guard() around trainer.train().

    trainer = transformers.Trainer(..., callbacks=[steelyard.callbacks.for_trainer("evidence/")])      TRL's, too
    trainer = lightning.Trainer(..., callbacks=[steelyard.callbacks.for_lightning("evidence/")])

A callback is not told of an exception by transformers: the guard then acts when memory runs out, through PyTorch's own
observer, and the evidence is written before the exception leaves the allocator.
"""
from __future__ import annotations

from typing import Any

from .call import Path
from .recording import GUARD_EVENTS, Recording


class _Watch:
    def __init__(self, folder: Path) -> None:
        self.recording = Recording(folder, GUARD_EVENTS)
        self.torch = self.recording._torch
        self.attached = False
        self.watching = False

    def start(self) -> None:
        self.recording._start()
        self.watching = True
        attach = getattr(self.torch._C, "_cuda_attach_out_of_memory_observer", None)
        # An observer cannot be taken back, and a trainer may train more than once.
        if attach is not None and not self.attached:
            attach(self.out_of_memory)
            self.attached = True

    def out_of_memory(self, device: int, tried: int, capacity: int, free: int) -> None:
        """What PyTorch calls before it raises: the sizes that its message will have are known here, and the message is not."""
        if not self.watching:
            return
        cuda = self.torch.cuda
        allocated, reserved = cuda.memory_allocated(device), cuda.memory_reserved(device)
        self.recording.out_of_memory = True
        self.recording._write(
            f"CUDA out of memory. Tried to allocate {_size(tried)}. GPU {device} has a total capacity of {_size(capacity)} "
            f"of which {_size(free)} is free. Of the allocated memory {_size(allocated)} is allocated by PyTorch, and "
            f"{_size(reserved - allocated)} is reserved by PyTorch but unallocated.\n"
        )

    def stop(self) -> None:
        self.watching = False
        self.torch.cuda.memory._record_memory_history(enabled=None)


def _size(count: int) -> str:
    """As PyTorch writes it."""
    for unit, least in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= least:
            return f"{count / least:.2f} {unit}"
    return f"{count} bytes"


def for_trainer(folder: Path) -> Any:
    """A TrainerCallback of transformers; writes a memory snapshot into the folder when memory runs out."""
    import transformers  # type: ignore[import-not-found, unused-ignore]

    watch = _Watch(folder)

    class Guard(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
        recording = watch.recording

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            watch.start()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            watch.recording.step()

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            watch.stop()

    return Guard()


def for_lightning(folder: Path) -> Any:
    """A Callback of Lightning; writes a memory snapshot into the folder when memory runs out."""
    try:
        from lightning.pytorch import Callback  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        from pytorch_lightning import Callback  # type: ignore[import-not-found, no-redef, unused-ignore]

    watch = _Watch(folder)

    class Guard(Callback):  # type: ignore[misc, unused-ignore]
        recording = watch.recording

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            watch.start()

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            watch.recording.step()

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            watch.stop()

    return Guard()
