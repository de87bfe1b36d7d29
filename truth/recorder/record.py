"""Wraps an ordinary training step and writes one record of its memory.

    recorder = Recorder(run)                 # the steelyard run file as a dict
    with recorder.phase("load"):
        model, optimizer = ...
    for step in recorder.steps(model, optimizer):
        with recorder.phase("forward"):
            loss = ...
        with recorder.phase("backward"):
            loss.backward(); del loss
        with recorder.phase("optimizer"):
            optimizer.step(); optimizer.zero_grad()
    record = recorder.record()

The loop runs FIRST (no optimizer state yet), SETTLE whose record is not kept, STEADY, and OWNERS: the same step once more, with
the module and operator of every allocation (owners.py). `owners_match_steady` says that it allocated and freed the same bytes in
the same order.
"""

import contextlib
import gc
import platform
import time
from collections import Counter

import torch

from .history import History
from .owners import Owners

SCHEMA = "steelyard.record/1"
FIRST, SETTLE, STEADY, OWNERS = "first", "settle", "steady", "owners"
STEPS = (FIRST, SETTLE, STEADY, OWNERS)
# NCCL's watchdog thread looks every 100 ms for finished work and only then drops its tensors. A step takes longer than that,
# a step on paper does not: wait for it between phases.
WATCHDOG_SECONDS = 0.25


def addresses_of(tensor):
    """Of a tensor made of others (DTensor, torchao's NF4Tensor) those of its parts."""
    tensor = getattr(tensor, "_local_tensor", tensor)
    if not isinstance(tensor, torch.Tensor) or not tensor.is_cuda:
        return []
    if hasattr(tensor, "__tensor_flatten__"):
        return [address for name in tensor.__tensor_flatten__()[0] for address in addresses_of(getattr(tensor, name))]
    return [tensor.untyped_storage().data_ptr()]


class Phase:
    def __init__(self, step, name, index):
        self.step, self.name, self.index = step, name, index
        self.span = self.stats = None
        self.states = {}  # address -> pile, of what the model and the optimizer hold at the end
        self.device_used = None


class Recorder:
    def __init__(self, run, frames=False, note=None, snapshot=None, shares_device=False):
        """`snapshot`: a file for the allocator's snapshot (torch.cuda.memory._dump_snapshot) at the end of the steady step.
        `shares_device`: other processes use it too, so that what is outside the allocator is not this one's."""
        self.shares_device = shares_device
        self.run, self.note, self.frames, self.snapshot = run, note, frames, snapshot
        self.phases = []
        self.step = "load"
        self.models, self.optimizers, self.inputs = [], [], []
        self.more_states = lambda: {}
        self.history = History(torch, frames)
        torch.cuda.init()
        from . import paper
        if not paper.is_loaded():
            torch.empty(1, device="cuda")  # the context is made with the first call
        self.context_bytes = self.outside_allocator()
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        self.history.start()
        self.history.seed()
        self.history.span(-1)

    # ---- while it runs ----

    @contextlib.contextmanager
    def phase(self, name):
        phase = Phase(self.step, name, len(self.phases))
        self.phases.append(phase)
        torch.cuda.reset_peak_memory_stats()
        yield phase
        torch.cuda.synchronize()
        if torch.distributed.is_initialized():
            time.sleep(WATCHDOG_SECONDS)
        statistics = torch.cuda.memory_stats()
        phase.stats = {key + "_bytes": statistics[f"{key}_bytes.all.peak"]
                       for key in ("allocated", "active", "reserved", "requested")}
        phase.stats["allocated_at_end_bytes"] = statistics["allocated_bytes.all.current"]
        phase.device_used = self.outside_allocator()
        if self.snapshot and phase.step == STEADY and name == "optimizer":
            torch.cuda.memory._dump_snapshot(str(self.snapshot))
        phase.states = self.held()
        phase.span = self.history.span(phase.index)

    @staticmethod
    def outside_allocator():
        """Used on the device and not reserved by PyTorch: the context, libraries, communicators, and other processes."""
        free, total = torch.cuda.mem_get_info()
        return total - free - torch.cuda.memory_reserved()

    def steps(self, models, optimizers, steps=STEPS):
        self.models = models if isinstance(models, (list, tuple)) else [models]
        self.optimizers = optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]
        for step in steps:
            self.step = step
            if step == OWNERS:
                for operators in (True, False):
                    with Owners(self.models, operators):
                        yield step
                    if operators and not self.watching_changed_nothing():
                        for phase in self.phases:  # what runs a second time is what the record shows
                            phase.step = SETTLE if phase.step == OWNERS else phase.step
                    else:
                        break
            else:
                yield step
        self.step = "after"

    def watching_changed_nothing(self):
        steady, owners = ([[(sign, s.requested) for sign, s in p.span.events] for p in self.phases if p.step == step]
                          for step in (STEADY, OWNERS))
        return steady == owners

    def held(self):
        """Addresses of what outlives a step, by pile."""
        piles = {}
        def put(tensor, pile):
            for address in filter(None, addresses_of(tensor)):
                piles.setdefault(address, pile)
        for model in self.models:
            for parameter in model.parameters():
                put(parameter, "parameters")
                if parameter.grad is not None:
                    put(parameter.grad, "gradients")
            for buffer in model.buffers():
                put(buffer, "buffers")
        for address, pile in self.more_states().items():
            piles.setdefault(address, pile)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    put(parameter, "parameters")
            for state in optimizer.state.values():
                for value in state.values() if isinstance(state, dict) else ():
                    put(value, "optimizer_state")
        for tensor in self.inputs:
            put(tensor, "inputs")
        return piles

    # ---- afterwards ----

    def name_piles(self):
        """Every storage gets its pile: by what held it at the end of a phase, else by how long it lived."""
        for phase in self.phases:
            for address, pile in phase.states.items():
                storage = phase.span.end.get(address)
                if storage is not None and (not storage.pile or storage.pile == "activations"):
                    storage.pile = pile
            if phase.name == "forward":
                born = phase.index
                for storage in phase.span.end.values():
                    if not storage.pile and storage.phase == born:
                        storage.pile = "activations"
        last = self.phases[-1].span.end
        stream = torch.cuda.default_stream().cuda_stream
        for phase in self.phases:
            storages = [s for _, s in phase.span.events] + list(phase.span.start.values())
            for storage in storages:
                if storage.pile in ("", "activations") and last.get(storage.address) is storage:
                    storage.pile = "communication"  # nobody of the model holds it and no step frees it: DDP's buckets, receive buffers
                elif not storage.pile:
                    storage.pile = "communication" if storage.stream != stream else "temporary"

    def phase_record(self, phase, largest):
        span = phase.span
        alive = span.at_peak().values()
        piles = Counter()
        rows = Counter()
        for storage in alive:
            piles[storage.pile] += storage.bytes
            if storage.pile in ("temporary", "communication", "workspaces", "activations"):
                rows[(storage.pile, storage.owner, storage.operator, storage.requested)] += 1
        record = {
            "step": phase.step,
            "phase": phase.name,
            "allocated_bytes": span.peak,
            "resident_bytes": sum(s.bytes for s in span.end.values()),
            "torch": phase.stats,
            "piles": dict(sorted(piles.items())),
            "allocations": sum(1 for sign, _ in span.events if sign > 0),
        }
        if phase.step == OWNERS and largest:
            top = sorted(rows.items(), key=lambda row: (-row[0][3] * row[1], row[0]))
            record["at_peak"] = [
                {"pile": pile, "owner": owner, "operator": operator, "requested_bytes": bytes, "count": count}
                for (pile, owner, operator, bytes), count in top if pile != "activations"][:largest]
        return record

    def saved_record(self):
        """What the last forward of the OWNERS step left alive, module by module."""
        forward = [p for p in self.phases if p.step == OWNERS and p.name == "forward"]
        if not forward:
            return []
        rows = Counter()
        order = {}
        for storage in sorted(forward[-1].span.end.values(), key=lambda s: s.number):
            if storage.pile in ("activations", "inputs") and storage.phase == forward[-1].index:
                key = (storage.owner, storage.operator, storage.requested, storage.pile)
                order.setdefault(key, len(order))
                rows[key] += 1
        return [{"owner": k[0], "operator": k[1], "requested_bytes": k[2], "count": rows[k]} for k in sorted(rows, key=order.get)]

    def record(self, sequence=False, largest=24, versions=()):
        self.history.span(len(self.phases))  # what went with the training loop
        torch._C._cuda_clearCublasWorkspaces()
        for _, storage in self.history.span(len(self.phases)).events:
            storage.pile = storage.pile or "workspaces"
        self.history.stop()
        self.name_piles()
        from . import paper
        properties = torch.cuda.get_device_properties(0)
        kept = [p for p in self.phases if p.step in ("load", FIRST, STEADY, OWNERS)]
        record = {
            "schema": SCHEMA,
            "run": self.run,
            "how": "paper" if paper.is_loaded() else "gpu",
            "device": {"name": properties.name, "bytes": properties.total_memory,
                       "compute": [properties.major, properties.minor], "multiprocessors": properties.multi_processor_count},
            "versions": {"python": platform.python_version(), "torch": torch.__version__, "cuda": torch.version.cuda,
                         **{name: version_of(name) for name in versions}},
            "parameters": {"total": self.parameters(False), "trainable": self.parameters(True)},
            "owners_match_steady": self.watching_changed_nothing(),
            "unknown_frees": self.history.unknown_frees,
            "phases": phases_of([self.phase_record(p, largest) for p in kept]),
            "saved_after_forward": self.saved_record(),
        }
        if paper.is_loaded() or self.shares_device:
            record["outside_allocator_bytes"] = None
        else:
            record["outside_allocator_bytes"] = self.phases[-1].device_used
            record["context_bytes"] = self.context_bytes
        if self.note:
            record["note"] = self.note
        if sequence:
            record["sequence"] = self.sequence()
        return record

    def parameters(self, trainable):
        seen, total = set(), 0
        for model in self.models:
            for parameter in model.parameters():
                if id(parameter) not in seen and (parameter.requires_grad or not trainable):
                    seen.add(id(parameter))
                    total += parameter.numel()
        return total

    def sequence(self):
        """The OWNERS step, event by event: columns; an allocation is its index into `storages`, its end is ~index."""
        phases = [p for p in self.phases if p.step == OWNERS]
        names, name_index, storages, index_of, events = [], {}, [], {}, []

        def name(text):
            if text not in name_index:
                name_index[text] = len(names)
                names.append(text)
            return name_index[text]

        def put(storage):
            index_of[storage.number] = len(storages)
            storages.append([storage.requested, name(storage.pile), name(storage.owner), name(storage.operator)])
            return index_of[storage.number]

        start = [put(s) for s in sorted(phases[0].span.start.values(), key=lambda s: s.number)]
        for phase in phases:
            row = []
            for sign, storage in phase.span.events:
                row.append(put(storage) if sign > 0 else ~index_of[storage.number])
            events.append({"phase": phase.name, "events": row})
        return {"names": names, "columns": ["requested_bytes", "pile", "owner", "operator"], "storages": storages,
                "alive_at_start": start, "phases": events}


def phases_of(records):
    """One row for each step and phase: of several micro-batches the one with the highest peak, with the last one's end."""
    rows = {}
    for record in records:
        key = (record["step"], record["phase"])
        before = rows.get(key)
        if before is None:
            rows[key] = record
            continue
        better = max(before, record, key=lambda r: r["allocated_bytes"])
        merged_stats = {k: max(before["torch"][k], record["torch"][k]) for k in record["torch"]}
        merged_stats["allocated_at_end_bytes"] = record["torch"]["allocated_at_end_bytes"]
        rows[key] = {**better, "resident_bytes": record["resident_bytes"], "torch": merged_stats}
    return list(rows.values())


def version_of(name):
    from importlib.metadata import PackageNotFoundError, version
    try:
        return version(name)
    except PackageNotFoundError:
        return None
