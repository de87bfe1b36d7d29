"""Steelyard predicts memory and step time of a large-model training run, without a GPU.

>>> import steelyard
>>> prediction = steelyard.weigh("llama-3.1-8b", on="8xh100-sxm-80gb", engine="fsdp2", sequence_length=4096)
>>> prediction.verdict
'fits'
>>> prediction.peak.piles.activations > prediction.peak.piles.parameters
True

print(prediction) is what the program prints; prediction.to_dict() is its --json document. Sizes are bytes (Bytes: .gib,
.gb), times are seconds. Everything is a value: nothing is printed, logged, sent or kept.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._core import version as _version
from .answers import (
    Comparison,
    Diagnosis,
    Explanation,
    Exported,
    Gate,
    Imported,
    Layout,
    Listing,
    Plan,
    Point,
    Sweep,
)
from .bytes import Bytes
from .errors import InputError, Problem, SteelyardDefect
from .prediction import Peak, Piles, Prediction, Suggestion
from .questions import (
    RunLike,
    compare,
    diagnose,
    estimate,
    explain,
    export,
    gate,
    import_,
    plan,
    sweep,
    weigh,
    weigh_many,
)
from .questions import list_ as list
from .run import Run, load

if TYPE_CHECKING:
    from .recording import Recording, guard, record

__version__ = _version()

__all__ = [
    "Bytes",
    "Comparison",
    "Diagnosis",
    "Explanation",
    "Exported",
    "Gate",
    "Imported",
    "InputError",
    "Layout",
    "Listing",
    "Peak",
    "Piles",
    "Plan",
    "Point",
    "Prediction",
    "Problem",
    "Recording",
    "Run",
    "RunLike",
    "SteelyardDefect",
    "Suggestion",
    "Sweep",
    "compare",
    "diagnose",
    "estimate",
    "explain",
    "export",
    "gate",
    "guard",
    "import_",
    "list",
    "load",
    "plan",
    "record",
    "sweep",
    "weigh",
    "weigh_many",
]


def __getattr__(name: str) -> Any:
    # These need torch when they are used: looked for then, not at import.
    if name in ("record", "guard", "Recording"):
        import importlib

        return getattr(importlib.import_module(".recording", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
