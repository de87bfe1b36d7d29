"""Values that no kernel computed: what is answered in their place, counted with the line that asked.

The device answers a copy to the host (paper/values.c): what the host had sent, else zeros, a single byte is true. Here is what only
the operation tells: nothing is "not a number", nothing is infinite, everything is finite.
"""

import ctypes
import os
import sys

KINDS = ("read back as the host had sent it", "known of the operation", "a count that was said", "a truth value: true",
         "values of kernels: zeros")
_SILENT = (0, 1)  # these are right, and not listed by line

device = None          # the paper device, or None on a real one
counted = {}           # (what, line) -> times


def substituted(what, depth=1):
    try:
        frame = sys._getframe(depth)
    except ValueError:  # one of autograd's threads: no Python stands behind it
        frame = None
    key = (what, user_line(frame))
    counted[key] = counted.get(key, 0) + 1


def user_line(frame):
    """The innermost line that is the user's own; else the innermost of all."""
    first = None
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith("<") and "steelyard_rehearsal" not in name:
            here = f"{name}:{frame.f_lineno}"
            first = first or here
            if is_users(name):
                return here
        frame = frame.f_back
    return first or ""


_LIBRARIES = tuple({os.path.join(sys.prefix, "lib"), os.path.join(sys.base_prefix, "lib")})


def is_users(name):
    return not (name.startswith("<") or "site-packages" in name or "dist-packages" in name or name.startswith(_LIBRARIES)
                or "steelyard_rehearsal" in name or "importlib" in name)


def answer(torch):
    global device
    library = ctypes.CDLL(None)
    if not hasattr(library, "paper_hold"):
        return
    device = library
    device.paper_hold.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    device.paper_forget.argtypes = [ctypes.c_void_p]
    device.paper_true_among.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    device.paper_true_among.restype = ctypes.c_longlong
    device.paper_substitutions.restype = ctypes.c_longlong
    device.paper_unanswered.restype = ctypes.c_char_p
    _listen()
    _forget_what_is_reused(torch)
    _not_a_number(torch)
    _chosen_by_masks(torch)


def _listen():
    @ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_size_t)
    def heard(kind, size):
        if kind not in _SILENT:
            substituted(KINDS[kind], 2)

    _KEPT.append(heard)
    device.paper_listen(heard)


_KEPT = []


def _forget_what_is_reused(torch):
    """A host copy is good until its place becomes another tensor's."""
    trace = getattr(torch._C, "_activate_gpu_trace", None)
    if trace is None:
        return
    import torch.cuda._gpu_trace as of_trace

    def forget(address):
        device.paper_forget(address)

    of_trace.register_callback_for_memory_allocation(forget)
    of_trace.register_callback_for_memory_deallocation(forget)
    trace()


def hold(tensor, value):
    """A tensor of truth values whose elements are known."""
    if isinstance(tensor, sys.modules["torch"].Tensor) and tensor.is_cuda and type(tensor).__name__ == "Tensor":
        try:
            device.paper_hold(tensor.data_ptr(), tensor.numel() * tensor.element_size(), int(value))
            tensor._steelyard_known = value
        except RuntimeError:  # a tensor without a place: a fake one of a compiler
            pass
    return tensor


def _not_a_number(torch):
    def wrapped(owner, name, value_of):
        real = getattr(owner, name)

        def call(*words, **named):
            result = real(*words, **named)
            if torch.compiler.is_compiling():
                return result
            value = value_of(words[0] if words else None)
            return result if value is None else hold(result, value)

        call.__name__ = name
        call.__doc__ = real.__doc__
        setattr(owner, name, call)

    known = lambda tensor: getattr(tensor, "_steelyard_known", None)
    for owner in (torch, torch.Tensor):
        wrapped(owner, "isnan", lambda _: False)
        wrapped(owner, "isinf", lambda _: False)
        wrapped(owner, "isfinite", lambda _: True)
        wrapped(owner, "any", known)
        wrapped(owner, "all", known)
        wrapped(owner, "logical_or", known)
        wrapped(owner, "logical_not", lambda tensor: None if known(tensor) is None else not known(tensor))
    wrapped(torch.Tensor, "__or__", known)
    wrapped(torch.Tensor, "__invert__", lambda tensor: None if known(tensor) is None else not known(tensor))


def _chosen_by_masks(torch):
    """How many elements a mask chooses: counted in what the host had sent, else all of them. More than a device would choose, never
    fewer."""

    def mask_in(value):
        parts = value if isinstance(value, tuple) else (value,)
        for part in parts:
            if isinstance(part, torch.Tensor) and part.dtype is torch.bool and part.is_cuda and part.dim() > 0:
                return part
        return None

    def counted_for(mask):
        try:
            found = device.paper_true_among(mask.data_ptr(), mask.numel()) if mask.is_contiguous() else -1
        except RuntimeError:  # a fake tensor of a compiler
            return 0
        if found < 0:
            found = mask.numel()
            substituted("a mask: all its elements chosen", 3)
        return found

    def wrapped(owner, name, mask_of):
        real = getattr(owner, name)

        def call(*words, **named):
            if torch.compiler.is_compiling():
                return real(*words, **named)
            mask = mask_of(*words, **named)
            if mask is None:
                return real(*words, **named)
            device.paper_count(ctypes.c_int(counted_for(mask)))
            try:
                return real(*words, **named)
            finally:
                device.paper_count(0)

        call.__name__ = name
        call.__doc__ = real.__doc__
        setattr(owner, name, call)

    def of_any(tensor, *_, **__):  # nonzero takes numbers, too
        return tensor if isinstance(tensor, torch.Tensor) and tensor.is_cuda and tensor.dim() > 0 and tensor.dtype is torch.bool else None

    get = torch.Tensor.__getitem__

    def chosen(tensor, index):
        """With gradients the mask goes as indices: backward, where nobody can say how many it chooses, asks again."""
        mask = None if torch.compiler.is_compiling() else mask_in(index)
        if mask is None:
            return get(tensor, index)
        if tensor.requires_grad and torch.is_grad_enabled():
            parts = index if isinstance(index, tuple) else (index,)
            index = tuple(place for part in parts for place in (part.nonzero(as_tuple=True) if part is mask else (part,)))
            return get(tensor, index)
        device.paper_count(ctypes.c_int(counted_for(mask)))
        try:
            return get(tensor, index)
        finally:
            device.paper_count(0)

    torch.Tensor.__getitem__ = chosen
    wrapped(torch.Tensor, "__setitem__", lambda tensor, index, value: mask_in(index))
    wrapped(torch.Tensor, "nonzero", of_any)
    wrapped(torch, "nonzero", lambda *words, **named: of_any(words[0] if words else named.get("input")))
    wrapped(torch, "where", lambda *words, **named: mask_in(words[0]) if len(words) == 1 else None)
    wrapped(torch.Tensor, "masked_select", lambda tensor, mask, **_: mask_in(mask))
    wrapped(torch, "masked_select", lambda tensor, mask, **_: mask_in(mask))


def listed():
    """Rows for the observation, the frequent first."""
    rows = [{"what": what, "line": line, "times": times} for (what, line), times in counted.items()]
    return sorted(rows, key=lambda row: -row["times"])


def device_counts():
    if device is None:
        return {}
    found = {}
    for kind, name in enumerate(KINDS):
        size = ctypes.c_longlong()
        times = device.paper_substitutions(kind, ctypes.byref(size))
        if times:
            found[name] = {"times": times, "bytes": size.value}
    return found


def unanswered():
    if device is None:
        return []
    rows, times = [], ctypes.c_longlong()
    while True:
        name = device.paper_unanswered(len(rows), ctypes.byref(times))
        if name is None:
            return rows
        rows.append({"name": name.decode(), "times": times.value})
