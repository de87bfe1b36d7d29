"""From the allocator's own history to what was alive at the peak of each phase, and for which line.

PyTorch's caching allocator writes down every `alloc` and `free_requested` with its requested bytes and the Python stack. Replayed, they
give the live set at every moment, without any model of ours. Sizes are rounded up to 512 bytes, as the allocator does; what it reports
is larger by the tails of large blocks that it does not split.

A pile is named by what held the address at the end of a phase, else by how long the storage lived.
"""

from .values import is_users

BLOCK = 512
PARAMETERS, GRADIENTS, MASTER, STATE = "parameters", "gradients", "master_weights", "optimizer_state"
ACTIVATIONS, TEMPORARY, COMMUNICATION, BUFFERS, WORKSPACES = "activations", "temporary", "communication", "buffers", "workspaces"


def rounded(requested):
    return max(BLOCK, -(-requested // BLOCK) * BLOCK)


def addresses_of(tensor, torch):
    """Of a tensor made of others (DTensor, torchao's) those of its parts."""
    tensor = getattr(tensor, "_local_tensor", tensor)
    if not isinstance(tensor, torch.Tensor) or not tensor.is_cuda:
        return []
    if hasattr(tensor, "__tensor_flatten__"):
        return [address for name in tensor.__tensor_flatten__()[0] for address in addresses_of(getattr(tensor, name), torch)]
    try:
        return [tensor.untyped_storage().data_ptr()]
    except (RuntimeError, NotImplementedError):
        return []


def _tensors_in(value, torch):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors_in(part, torch)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors_in(part, torch)


def held(observer):
    """Addresses of what outlives a step, by pile."""
    torch, piles = observer.torch, {}

    def put(tensor, pile):
        for address in addresses_of(tensor, torch):
            if address:
                piles.setdefault(address, pile)

    of_models = set()
    for model in filter(None, (known() for known in observer.models)):
        for parameter in model.parameters():
            of_models.add(id(parameter))
            put(parameter, PARAMETERS)
            for part in vars(parameter).values():  # bitsandbytes' quantisation state
                for tensor in _tensors_in(getattr(part, "__dict__", None), torch):
                    put(tensor, PARAMETERS)
            if parameter.grad is not None:
                put(parameter.grad, GRADIENTS)
        for buffer in model.buffers():
            put(buffer, BUFFERS)
    for optimizer in list(observer.optimizers):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if isinstance(parameter, torch.Tensor):
                    put(parameter, PARAMETERS if id(parameter) in of_models or not of_models else MASTER)
                    if parameter.grad is not None:
                        put(parameter.grad, GRADIENTS)
        for state in list(optimizer.state.values()):
            for tensor in _tensors_in(state, torch):
                put(tensor, STATE)
    return piles


class Storage:
    """One allocation."""
    __slots__ = ("number", "address", "bytes", "requested", "stream", "frames", "pile", "phase")

    def __init__(self, number, event, phase):
        self.number, self.address, self.requested = number, event["addr"], event["size"]
        self.bytes = rounded(event["size"])
        self.stream, self.frames = event["stream"], event.get("frames") or ()
        self.pile, self.phase = "", phase


class Replayed:
    """What one phase did: its peak, what was alive then, what was left at its end."""

    def __init__(self, border):
        self.border = border
        self.peak, self.alive, self.end = 0, (), 0


def replay(observer):
    """Of each border's phase, in order; and the trace's events."""
    torch = observer.torch
    device = torch.cuda.current_device()
    traces = torch.cuda.memory._snapshot(device)["device_traces"]
    events = traces[device] if len(traces) > device else []
    borders = [border for border in observer.borders]
    peaks = _peaks(events, borders)
    found, alive, number, at = [], {}, 0, 0
    main = torch.cuda.default_stream().cuda_stream
    everything = []
    for border in borders:
        phase = Replayed(border)
        stop, peak_event = peaks[len(found)]
        start = at
        if peak_event == start - 1:
            phase.peak, phase.alive = sum(s.bytes for s in alive.values()), list(alive.values())
        while at < stop:
            event = events[at]
            if event["action"] == "alloc":
                storage = Storage(number, event, len(found))
                number += 1
                alive[storage.address] = storage
                everything.append(storage)
            elif event["action"] == "free_requested":
                alive.pop(event["addr"], None)
            if at == peak_event:
                phase.peak, phase.alive = sum(s.bytes for s in alive.values()), list(alive.values())
            at += 1
        for address, pile in border.held.items():
            storage = alive.get(address)
            if storage is not None and storage.pile in ("", ACTIVATIONS):
                storage.pile = pile
        if border.phase == "forward":
            for storage in alive.values():
                if not storage.pile and storage.stream == main:
                    storage.pile = ACTIVATIONS
        phase.end = sum(s.bytes for s in alive.values())
        found.append(phase)
    _name_the_rest(everything, alive, main, observer)
    return found


def _peaks(events, borders):
    """Of each phase: the event behind its last, and the event of its peak (the one before its first: the start)."""
    rows, at, allocations, now, sizes = [], 0, 0, 0, {}
    for border in borders:
        peak, peak_event = now, at - 1
        while at < len(events):
            event = events[at]
            if event["action"] == "alloc":
                if allocations == border.allocations:
                    break
                allocations += 1
                sizes[event["addr"]] = rounded(event["size"])
                now += sizes[event["addr"]]
                if now > peak:
                    peak, peak_event = now, at
            elif event["action"] == "free_requested":
                now -= sizes.pop(event["addr"], 0)
            at += 1
        rows.append((at, peak_event))
    return rows


def _name_the_rest(everything, last, main, observer):
    steps = {len_: border.step for len_, border in enumerate(observer.borders)}
    final = max(steps.values(), default=0)
    for storage in everything:
        if storage.pile:
            continue
        if storage.stream != main:
            storage.pile = COMMUNICATION
        elif last.get(storage.address) is storage and steps.get(storage.phase, 0) < final:
            # Nobody of the model holds it and no step frees it: a reducer's buckets, receive buffers; alone, a library's workspace.
            many = observer.torch.distributed.is_available() and observer.torch.distributed.is_initialized()
            storage.pile = COMMUNICATION if many else WORKSPACES
        else:
            storage.pile = TEMPORARY


def lines_of(frames):
    """The user's own line, and the innermost that is not PyTorch's."""
    user = inner = None
    for frame in frames:
        name = frame["filename"]
        if "steelyard_rehearsal" in name or name.startswith("<"):
            continue
        if inner is None and "/torch/" not in name:
            inner = frame
        if user is None and is_users(name):
            user = frame
    return user, inner or (frames[0] if frames else None)


def by_line(alive, most=24):
    """The storages of a moment by pile and line, the large ones first."""
    rows = {}
    for storage in alive:
        user, inner = lines_of(storage.frames)
        key = (storage.pile, place(user), place(inner), inner["name"] if inner else "")
        row = rows.setdefault(key, [0, 0])
        row[0] += storage.bytes
        row[1] += 1
    ordered = sorted(rows.items(), key=lambda row: -row[1][0])[:most]
    return [{"pile": pile, "bytes": size, "count": count, "user": user, "line": line, "function": function}
            for (pile, user, line, function), (size, count) in ordered]


def place(frame):
    return f"{frame['filename']}:{frame['line']}" if frame else ""
