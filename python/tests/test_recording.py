"""record and guard, with a stand-in for torch whose snapshot is a predicted one: the files are those that diagnose reads."""

import os
import sys
import tempfile
import types
import unittest
from pathlib import Path

import steelyard as sy

RUN = sy.Run("qwen2.5-0.5b").replace(on="1xrtx-4090", sequence_length=512)


class OutOfMemoryError(RuntimeError):
    pass


def stand_in(calls):
    torch = types.ModuleType("torch")
    memory = types.SimpleNamespace(
        _record_memory_history=lambda enabled="all", **options: calls.append((enabled, options)),
        _dump_snapshot=lambda path: sy.weigh(RUN).snapshot(path))
    torch.cuda = types.SimpleNamespace(
        is_available=lambda: True, memory=memory, synchronize=lambda: None, OutOfMemoryError=OutOfMemoryError,
        reset_peak_memory_stats=lambda: None, max_memory_allocated=lambda: 7 << 30, max_memory_reserved=lambda: 8 << 30,
        memory_allocated=lambda device: 7 << 30, memory_reserved=lambda device: 8 << 30,
        memory_summary=lambda: "|  PyTorch CUDA memory summary, device ID 0  |\n")
    torch._C = types.SimpleNamespace(_cuda_attach_out_of_memory_observer=lambda observer: calls.append(("observer", observer)))
    return torch


class Recordings(unittest.TestCase):
    def setUp(self):
        self.calls = []
        self.before = sys.modules.get("torch")
        sys.modules["torch"] = stand_in(self.calls)
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        sys.modules.pop("torch")
        if self.before is not None:
            sys.modules["torch"] = self.before
        self.folder.cleanup()

    def test_a_step_is_recorded_and_compared(self):
        with sy.record(self.folder.name) as recording:
            recording.step()
            recording.step()
        self.assertEqual(len(recording.step_seconds), 1)
        self.assertEqual((recording.peak_allocated, recording.out_of_memory), (7 << 30, False))
        self.assertEqual([enabled for enabled, _ in self.calls], ["all", None])
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["memory-rank0.txt", "snapshot-rank0.pickle"])
        self.assertGreater(len(recording.compare(RUN).piles), 3)

    def test_a_guard_writes_when_memory_runs_out(self):
        message = ("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.20 GiB "
                   "is free. Including non-PyTorch memory, this process has 22.40 GiB memory in use. Of the allocated memory "
                   "15.00 GiB is allocated by PyTorch, and 6.30 GiB is reserved by PyTorch but unallocated.")
        with self.assertRaises(OutOfMemoryError) as caught:
            with sy.guard(self.folder.name, against=RUN):
                raise OutOfMemoryError(message)
        told = Path(self.folder.name, "diagnosis-rank0.txt").read_text()
        self.assertNotIn("not diagnosed", told)
        self.assertIn("6.30 GiB reserved and free", told)
        if sys.version_info >= (3, 11):
            self.assertIn("fragmentation", caught.exception.__notes__[0])

    def test_a_guard_is_silent_else(self):
        with sy.guard(self.folder.name):
            pass
        self.assertEqual(os.listdir(self.folder.name), [])
        with self.assertRaises(KeyError):
            with sy.guard(self.folder.name):
                raise KeyError("mine")
        self.assertEqual(os.listdir(self.folder.name), [])
        self.assertEqual([enabled for enabled, _ in self.calls], ["all", None] * 2)

    def test_callbacks_of_trainers(self):
        from steelyard import callbacks

        transformers, lightning = types.ModuleType("transformers"), types.ModuleType("lightning.pytorch")
        transformers.TrainerCallback = lightning.Callback = type("Callback", (), {})
        sys.modules.update({"transformers": transformers, "lightning": types.ModuleType("lightning"),
                            "lightning.pytorch": lightning})
        try:
            trainer = callbacks.for_trainer(self.folder.name)
            trainer.on_train_begin(None, None, None)
            trainer.on_step_end(None, None, None)
            trainer.on_step_end(None, None, None)
            self.assertEqual(len(trainer.recording.step_seconds), 1)
            self.assertEqual(os.listdir(self.folder.name), [])
            # What PyTorch calls when an allocation fails.
            observe = next(observer for kind, observer in self.calls if kind == "observer")
            observe(0, 2 << 30, 8 << 30, 0)
            self.assertIn("snapshot-rank0.pickle", os.listdir(self.folder.name))
            self.assertIn("Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 0 bytes is free",
                          Path(self.folder.name, "error-rank0.txt").read_text())
            trainer.on_train_end(None, None, None)
            self.assertIsNone(self.calls[-1][0])
            os.remove(Path(self.folder.name, "error-rank0.txt"))
            observe(0, 2 << 30, 8 << 30, 0)
            self.assertNotIn("error-rank0.txt", os.listdir(self.folder.name))
            light = callbacks.for_lightning(self.folder.name)
            light.on_train_start(None, None)
            light.on_train_batch_end(None, None, None, None, 0)
            light.on_train_end(None, None)
        finally:
            for name in ("transformers", "lightning", "lightning.pytorch"):
                sys.modules.pop(name)


if __name__ == "__main__":
    unittest.main()
