"""Python runs this before any script: it is found first on PYTHONPATH, and nothing of the script or its environment is changed."""

import importlib.machinery
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _others():
    """The sitecustomize that would have run without this one."""
    path = [folder for folder in sys.path if os.path.abspath(folder or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.origin != __file__:
        exec(compile(spec.loader.get_data(spec.origin), spec.origin, "exec"), {"__name__": "sitecustomize", "__file__": spec.origin})


if os.environ.get("STEELYARD_REHEARSAL"):
    import steelyard_rehearsal
    steelyard_rehearsal.begin()
_others()
