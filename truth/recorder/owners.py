"""For whom an allocation was made: the module in forward, the same module in backward, the operator in both.

A dispatch mode sees every operator and tells the allocator (torch.cuda.memory._set_memory_metadata), which writes it beside each
allocation, also those a kernel makes for itself. In backward the autograd node's sequence number leads back to the module whose
forward made it. Nothing holds a tensor: frames and hooks would.
"""

import threading

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_set = torch._C._cuda_setMemoryMetadata
_next_sequence = torch._C._autograd._get_sequence_nr
_node = torch._C._current_autograd_node


class Owners(TorchDispatchMode):
    def __init__(self, model=None):
        super().__init__()
        self.names = {}        # id of a module -> its name
        self.parameters = {}   # id of a parameter -> its name
        self.stack = []
        self.of_sequence = {}  # autograd sequence number -> module
        self.forward_thread = threading.get_ident()
        if model is not None:
            self.watch(model)

    def watch(self, model):
        for name, module in model.named_modules():
            self.names.setdefault(id(module), name)
        for name, parameter in model.named_parameters():
            self.parameters[id(parameter)] = name

    def __enter__(self):
        self._call = torch.nn.Module.__call__
        call, stack, names = self._call, self.stack, self.names

        def called(module, *args, **kwargs):
            stack.append(names.get(id(module)) or (stack[-1] if stack else ""))
            try:
                return call(module, *args, **kwargs)
            finally:
                stack.pop()

        torch.nn.Module.__call__ = called
        return super().__enter__()

    def __exit__(self, *error):
        torch.nn.Module.__call__ = self._call
        _set("")
        return super().__exit__(*error)

    def owner(self):
        node = _node()
        if node is None:
            name = self.stack[-1] if self.stack else ""
            last = _next_sequence() - 1
            self.of_sequence.setdefault(last, name)
            return name
        if self.stack:  # forward again, inside backward
            self.of_sequence.setdefault(_next_sequence() - 1, self.stack[-1])
            return self.stack[-1]
        variable = getattr(node, "variable", None)
        if variable is not None:
            return self.parameters.get(id(variable), "")
        return self.of_sequence.get(node._sequence_nr(), "")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        node = _node()
        name = func._schema.name.replace("aten::", "")
        if node is not None and not self.stack:
            name += " < " + node.name()
        del node
        _set(f"{self.owner()}\t{name}")
        try:
            return func(*args, **(kwargs or {}))
        finally:
            _set("")
