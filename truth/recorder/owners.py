"""For whom an allocation was made: the module and operator in forward, the module and autograd node in backward.

What runs is told to the allocator (torch.cuda.memory._set_memory_metadata), which writes it beside each allocation, also beside
those that a kernel makes for itself.

    forward   every module says when it begins and ends; a dispatch mode sees every operator
    backward  a hook before every node; its sequence number leads back to the module whose forward made it

No dispatch mode in backward: while one is active, autograd adds gradients that meet into a new tensor instead of in place
(ATen/TensorSubclassLikeUtils.h). A few operators of forward do the same (attention's math kernel, masks): the recorder compares
every allocation of the watched step with the step before it, and where they differ it watches once more, without operators.
"""

import bisect

import torch
from torch.autograd.graph import GradientEdge
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

_set = torch._C._cuda_setMemoryMetadata
_next_sequence = torch._C._autograd._get_sequence_nr


class Owners(TorchDispatchMode):
    def __init__(self, models=(), operators=True):
        super().__init__()
        self.operators = operators
        self.modules = {}      # id of a module -> its name
        self.parameters = {}   # id of a parameter -> its name
        self.stack = []        # names of the modules that run
        self.bounds = []       # autograd sequence numbers at which another module began to run
        self.bound_names = []
        self.backwards = 0     # how many are running
        for model in models:
            for name, module in model.named_modules():
                self.modules.setdefault(id(module), name)
            for name, parameter in model.named_parameters():
                self.parameters[id(parameter)] = name

    def __enter__(self):
        call, backward, grad = torch.nn.Module.__call__, torch.autograd.backward, torch.autograd.grad
        self._before = call, backward, grad

        def called(module, *args, **kwargs):
            self.stack.append(self.modules.get(id(module)) or (self.stack[-1] if self.stack else ""))
            self.runs()
            try:
                return call(module, *args, **kwargs)
            finally:
                self.stack.pop()
                self.runs()

        def watched(run):
            def replaced(tensors, *args, **kwargs):
                roots = [tensors] if isinstance(tensors, (torch.Tensor, GradientEdge)) else list(tensors)
                nodes = [t.grad_fn if isinstance(t, torch.Tensor) else t.node for t in roots]
                self.hook([n for n in nodes if n is not None])
                del nodes
                del roots
                stack, self.stack = self.stack, []
                self.backwards += 1
                try:
                    with _disable_current_modes():
                        return run(tensors, *args, **kwargs)
                finally:
                    self.backwards -= 1
                    self.stack = stack
                    _set("")
            return replaced

        torch.nn.Module.__call__ = called
        torch.autograd.backward, torch.autograd.grad = watched(backward), watched(grad)
        return super().__enter__() if self.operators else self

    def __exit__(self, *error):
        torch.nn.Module.__call__, torch.autograd.backward, torch.autograd.grad = self._before
        _set("")
        return super().__exit__(*error) if self.operators else None

    def runs(self):
        """Another module runs from here on."""
        name = self.stack[-1] if self.stack else ""
        self.bounds.append(_next_sequence())
        self.bound_names.append(name)
        if self.backwards:
            _set(name + "\tforward again" if self.stack else "")
        elif not self.operators:
            _set(name + "\t")

    def owner_of(self, node):
        at = bisect.bisect_right(self.bounds, node._sequence_nr()) - 1
        return self.bound_names[at] if at >= 0 else ""

    def hook(self, nodes):
        """Before each node of the graph below, the allocator is told its name."""
        seen = set()
        while nodes:
            node = nodes.pop()
            if node in seen:
                continue
            seen.add(node)
            nodes.extend(after for after, _ in node.next_functions if after is not None)
            variable = getattr(node, "variable", None)
            owner = self.owner_of(node) if variable is None else self.parameters.get(id(variable), "")
            text = f"{owner}\t{node.name().rsplit('::')[-1]}"
            node.register_prehook(lambda gradients, text=text: _set(text))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        owner = self.stack[-1] if self.stack else ""
        _set(f"{owner}\t{func._schema.name.replace('aten::', '')}")
        try:
            return func(*args, **(kwargs or {}))
        finally:
            _set("")
