"""The observation as a file: steelyard.record/1 with what only a rehearsal knows beside it."""

import json
import os
import platform
import sys
import time
import traceback as of_traceback

from . import history, stand_ins, values

LOAD, FIRST, STEADY = "load", "first", "steady"


def folder():
    return os.environ["STEELYARD_REHEARSAL"]


def unfit(torch):
    """Why this PyTorch cannot be rehearsed; nothing where it can."""
    if getattr(torch.version, "hip", None):
        return f"PyTorch {torch.__version__} is a ROCm build: a device on paper is an NVIDIA one, install the CUDA build"
    if not torch.version.cuda:
        return (f"PyTorch {torch.__version__} is a build without CUDA: install the CUDA build (pip install torch on Linux), "
                "no GPU is needed")
    return None


def _put(name, document):
    path = os.path.join(folder(), name)
    with open(path + ".part", "w") as file:
        json.dump(document, file)
    os.replace(path + ".part", path)


def write_problem(text):
    _put(f"problem-{os.getpid()}.json", {"problem": text})


def error_of(kind, error, trace):
    frames = of_traceback.extract_tb(trace)
    users = [frame for frame in frames if values.is_users(frame.filename)]
    where = users[-1] if users else frames[-1] if frames else None
    return {"type": kind.__name__, "text": str(error), "out_of_memory": kind.__name__ == "OutOfMemoryError",
            "line": f"{where.filename}:{where.lineno}" if where else "",
            "traceback": "".join(of_traceback.format_exception(kind, error, trace))[-20000:]}


def step_word(step, final):
    """Of a run of one step the first stands for both."""
    return LOAD if step == 0 else FIRST if step == 1 else STEADY if step == final else f"step {step}"


def _phases(observer, replayed):
    final = max((phase.border.step for phase in replayed if phase.border.phase == "backward"), default=0)
    rows = {}
    for phase in replayed:
        border = phase.border
        word = step_word(border.step, final) if border.phase != "load" else LOAD
        piles = {}
        for storage in phase.alive:
            piles[storage.pile] = piles.get(storage.pile, 0) + storage.bytes
        stats = {f"{kind}_bytes": border.stats.get(f"{kind}_bytes.all.peak", 0)
                 for kind in ("allocated", "active", "reserved", "requested")}
        stats["allocated_at_end_bytes"] = border.stats.get("allocated_bytes.all.current", 0)
        row = {"step": word, "phase": border.phase, "allocated_bytes": phase.peak, "resident_bytes": phase.end, "torch": stats,
               "piles": dict(sorted(piles.items()))}
        before = rows.get((word, border.phase))
        if before is not None:  # of several micro-batches the one with the highest peak, with the last one's end
            merged = {key: max(before["torch"][key], stats[key]) for key in stats}
            merged["allocated_at_end_bytes"] = stats["allocated_at_end_bytes"]
            row = {**max(before, row, key=lambda one: one["allocated_bytes"]), "resident_bytes": phase.end, "torch": merged}
        rows[(word, border.phase)] = row
    return list(rows.values()), final


def _parameters(observer):
    seen, total, trainable = set(), 0, 0
    for model in filter(None, (known() for known in observer.models)):
        for parameter in model.parameters():
            if id(parameter) not in seen:
                seen.add(id(parameter))
                count = _elements(parameter)
                total += count
                trainable += count if parameter.requires_grad else 0
    return {"total": total, "trainable": trainable}


def _elements(parameter):
    """Of the whole tensor, where a rank holds a part; of packed 4 bits as many as are packed."""
    count = getattr(parameter, "ds_numel", None) or parameter.numel()
    state = getattr(parameter, "quant_state", None)
    shape = getattr(state, "shape", None)
    if shape is not None:
        count = 1
        for length in shape:
            count *= length
    return int(count)


def _peak(replayed):
    """The phase of the largest sum, and what was alive then, by line."""
    if not replayed:
        return None
    top = max(replayed, key=lambda phase: phase.peak)
    return {"step": top.border.step, "phase": top.border.phase, "allocated_bytes": top.peak, "lines": history.by_line(top.alive)}


def versions():
    from importlib.metadata import PackageNotFoundError, version
    found = {"python": platform.python_version()}
    for name in ("torch", "transformers", "accelerate", "peft", "trl", "deepspeed", "bitsandbytes", "torchao", "torchtitan",
                 "lightning", "litgpt", "liger-kernel"):
        if name.replace("-", "_") in sys.modules or name == "torch":
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                pass
    found["cuda"] = sys.modules["torch"].version.cuda
    return found


def write(observer, why):
    torch = observer.torch
    used = torch.cuda.is_initialized()
    if not used and observer.error is None and observer.failure is None and observer.step == 0:
        return  # a launcher, or a helper of the script
    replayed = history.replay(observer) if used else []
    phases, final = _phases(observer, [phase for phase in replayed if phase.border.phase != "after"])
    steps = final if observer.stepped else max(0, observer.step - 1)
    record = {"schema": "steelyard.record/1", "run": None, "how": "rehearsed", "versions": versions(),
              "parameters": _parameters(observer), "phases": phases,
              "rehearsal": {"rank": int(os.environ.get("RANK", "0")), "ranks": int(os.environ.get("WORLD_SIZE", "1")),
                            "steps": steps, "ended": why, "seconds": time.time() - observer.began,
                            "command": sys.argv, "peak": _peak(replayed), "failure": observer.failure, "error": observer.error,
                            "substitutions": values.listed(), "values": values.device_counts(),
                            "unanswered": values.unanswered(), "missing": stand_ins.missing}}
    if used:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        record["device"] = {"name": properties.name, "bytes": properties.total_memory,
                            "compute": [properties.major, properties.minor], "multiprocessors": properties.multi_processor_count}
        snapshot = os.environ.get("STEELYARD_SNAPSHOT")
        if snapshot:
            torch.cuda.memory._dump_snapshot(snapshot)
    _put(f"rank-{record['rehearsal']['rank']}-{os.getpid()}.json", record)
