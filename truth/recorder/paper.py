"""A CUDA device on paper, for machines without one.

`load()` before the first `import torch` makes PyTorch's CUDA build see one NVIDIA H200 whose kernels do nothing (paper_device.c).
Everything that decides about memory is then PyTorch's own code.
"""

import ctypes
import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
_loaded = None


def headers():
    """The folder with driver_types.h of the runtime wheel that PyTorch brought."""
    for folder in {sysconfig.get_paths()["purelib"], *sys.path}:
        for found in sorted(Path(folder).glob("nvidia/*/include/driver_types.h")):
            return found.parent
    raise FileNotFoundError("driver_types.h of the nvidia-cuda-runtime wheel: install the CUDA build of PyTorch")


def build(name="paper_device.c", called="libcuda.so.1"):
    """The library's path; compiled once for each state of its source. `called`: the name under which PyTorch finds it."""
    include = headers()
    files = (name, "paper_device_names.h", "paper_collectives.c", "crt/host_defines.h")
    source = b"".join((HERE / file).read_bytes() for file in files)
    key = hashlib.sha256(source + str(include).encode()).hexdigest()[:16]
    library = Path(tempfile.gettempdir()) / f"steelyard-{Path(name).stem.replace('_', '-')}-{os.getuid()}-{key}.so"
    if not library.exists():
        part = library.with_suffix(f".{os.getpid()}")
        subprocess.run(
            [os.environ.get("CC", "cc"), "-O1", "-w", "-shared", "-fPIC", f"-I{HERE}", f"-I{include}",
             f"-Wl,-soname,{called}", "-o", str(part), str(HERE / name), "-ldl"],
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
            ctypes.CDLL(str(build("paper_nvml.c", "libnvidia-ml.so.1")), mode=ctypes.RTLD_GLOBAL)
    return _loaded


def load_collectives():
    """Beside a real device: only NCCL is on paper, so that one process can be one rank of many that are not there."""
    assert "torch" not in sys.modules and _loaded is None
    ctypes.CDLL(str(build("paper_collectives.c", "libpaper_collectives.so")), mode=ctypes.RTLD_GLOBAL)


def count(elements):
    """What nonzero() finds from here on, where the script knows it of the data that a device would have; 0: nothing."""
    if _loaded is not None:
        _loaded.paper_count(elements)


def is_loaded():
    return _loaded is not None
