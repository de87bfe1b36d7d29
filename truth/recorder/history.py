"""From the allocator's own history to what was alive, and when.

PyTorch's caching allocator writes down every `alloc` and `free_requested` with its address and its requested bytes
(torch.cuda.memory._record_memory_history). Replaying them gives, without any model of ours:

    live set   address -> Storage       at every moment
    peak       the largest sum of sizes, each rounded up to 512 bytes as the allocator does, and the moment it was reached

The allocator's own `allocated_bytes` is larger by the tails of large blocks that it does not split (up to 1 MiB each); the
record holds both.
"""

from dataclasses import dataclass, field

BLOCK = 512


def rounded(requested):
    return max(BLOCK, -(-requested // BLOCK) * BLOCK)


@dataclass
class Storage:
    """One allocation: from here on a tensor's storage, a kernel's temporary or a library's workspace."""
    number: int          # in order of allocation
    address: int
    requested: int
    stream: int
    phase: int           # index of the phase that allocated it
    owner: str = ""      # the module or parameter it was allocated for, where known
    operator: str = ""   # the operator that ran, where known
    freed: int = -1      # index of the phase that freed it
    pile: str = ""       # what it turned out to be: parameters, gradients, activations ...
    frames: tuple = ()

    @property
    def bytes(self):
        return rounded(self.requested)


@dataclass
class Span:
    """What one phase did to memory."""
    events: list = field(default_factory=list)  # (+1 or -1, Storage)
    start: dict = field(default_factory=dict)   # live at its start, address -> Storage
    end: dict = field(default_factory=dict)
    peak: int = 0
    peak_event: int = -1                        # index into events; -1 is the start

    def alive_at(self, event):
        alive = {s.number: s for s in self.start.values()}
        for sign, storage in self.events[:event + 1]:
            if sign > 0:
                alive[storage.number] = storage
            else:
                alive.pop(storage.number, None)
        return alive

    def at_peak(self):
        return self.alive_at(self.peak_event)


class History:
    """Reads the allocator's history phase by phase."""

    def __init__(self, torch, frames=False):
        self.torch = torch
        self.frames = frames
        self.alive = {}
        self.count = 0
        self.unknown_frees = 0

    def seed(self):
        """What was alive before the history began."""
        for segment in self.torch.cuda.memory._snapshot()["segments"]:
            for block in segment["blocks"]:
                if block["state"] == "active_allocated":
                    self.alive[block["address"]] = Storage(self.count, block["address"], block["requested_size"],
                                                           segment["stream"], -1)
                    self.count += 1

    def start(self):
        record = self.torch.cuda.memory._record_memory_history
        record("all", context="alloc" if self.frames else None, stacks="python", clear_history=True)

    def stop(self):
        self.torch.cuda.memory._record_memory_history(None)

    def span(self, phase):
        """Everything since the last call."""
        entries = self.torch.cuda.memory._snapshot()["device_traces"]
        device = self.torch.cuda.current_device()
        entries = entries[device] if entries else []
        self.start()
        span = Span(start=dict(self.alive))
        now = sum(s.bytes for s in self.alive.values())
        span.peak = now
        for entry in entries:
            if entry["action"] == "alloc":
                owner, operator = ((entry.get("user_metadata") or "") + "\t").split("\t")[:2]
                storage = Storage(self.count, entry["addr"], entry["size"], entry["stream"], phase, owner, operator,
                                  frames=tuple((f["filename"], f["line"], f["name"]) for f in entry.get("frames", ())))
                self.count += 1
                self.alive[storage.address] = storage
                span.events.append((1, storage))
                now += storage.bytes
                if now > span.peak:
                    span.peak, span.peak_event = now, len(span.events) - 1
            elif entry["action"] == "free_requested":
                storage = self.alive.pop(entry["addr"], None)
                if storage is None:
                    self.unknown_frees += 1
                    continue
                storage.freed = phase
                span.events.append((-1, storage))
                now -= storage.bytes
        span.end = dict(self.alive)
        return span
