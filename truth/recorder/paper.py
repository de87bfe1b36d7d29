"""A CUDA device on paper, for machines without one: paper/ of this repository, compiled and loaded into this process.

`load()` before the first `import torch` makes PyTorch's CUDA build see one NVIDIA H200 whose kernels do nothing.
Everything that decides about memory is then PyTorch's own code.
"""

import ctypes
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAPER = ROOT / "paper"
PARTS = {"libcuda.so.1": ("properties.c", "memory.c", "values.c", "runtime.c", "driver.c", "libraries.c", "collectives.c", "table.c"),
         "libnvidia-ml.so.1": ("nvml.c",), "libpaper_collectives.so": ("collectives.c", "collectives_alone.c")}  # by the name under which PyTorch finds it
_loaded = None


def build(called="libcuda.so.1"):
    """The library's path; compiled once for each state of its source."""
    table = subprocess.run([sys.executable, PAPER / "write_devices.py", ROOT / "data"], capture_output=True, text=True, check=True)
    files = [PAPER / name for name in (*PARTS[called], "paper.h", "cuda_types.h", "answered.def")]
    key = hashlib.sha256(table.stdout.encode() + b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    library = Path(tempfile.gettempdir()) / f"steelyard-paper-{os.getuid()}-{key}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "devices_table.h").write_text(table.stdout)
            rows = (PAPER / "answered.def").read_text().splitlines(keepends=True)
            (Path(folder) / "collectives.def").write_text("".join(row for row in rows if row.startswith("SUCCEEDS(nccl")))
            part = library.with_suffix(f".{os.getpid()}")
            subprocess.run(
                [os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{PAPER}", f"-I{folder}", f"-Wl,-soname,{called}",
                 "-o", str(part), *(str(PAPER / name) for name in PARTS[called]), "-ldl", "-lpthread"],
                check=True)
            part.replace(library)
    return library


def load(device_bytes=None, devices=1, processes=False):
    """Puts the paper device where PyTorch looks for CUDA. Does nothing when it is there already. `processes`: NVML is there, too, and
    says who uses the device."""
    global _loaded
    if _loaded is None:
        if "torch" in sys.modules:
            raise RuntimeError("the paper device must be loaded before torch is imported")
        os.environ["PAPER_DEVICES"] = str(devices)
        if device_bytes:
            os.environ["PAPER_DEVICE_BYTES"] = str(device_bytes)
        _loaded = ctypes.CDLL(str(build()), mode=ctypes.RTLD_GLOBAL)
        if processes:
            ctypes.CDLL(str(build("libnvidia-ml.so.1")), mode=ctypes.RTLD_GLOBAL)
    return _loaded


def load_collectives():
    """Beside a real device: only NCCL is on paper, so that one process can be one rank of many that are not there."""
    assert "torch" not in sys.modules and _loaded is None
    ctypes.CDLL(str(build("libpaper_collectives.so")), mode=ctypes.RTLD_GLOBAL)


def count(elements):
    """What nonzero() finds from here on, where the script knows it of the data that a device would have; 0: nothing."""
    if _loaded is not None:
        _loaded.paper_count(elements)


def rehearsal(part):
    """A module of paper/observer: what `steelyard rehearse` answers, for scripts of ours that answer the same."""
    import importlib
    folder = str(PAPER / "observer")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(f"steelyard_rehearsal.{part}")


def is_loaded():
    return _loaded is not None
