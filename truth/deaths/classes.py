"""What an allocation of a watched life was: its class, and the piles that a diagnosis may rightly put it in.

A class has several piles where `weigh` itself draws no line that the evidence could show: a gathered parameter is a parameter and a
buffer of a collective, what is computed again is an activation that lives as long as a temporary.
"""

import os

import torch
from recorder.record import addresses_of

PILES = {
    "parameters": ("parameters",), "buffers": ("parameters",), "gradients": ("gradients",), "master_weights": ("master_weights",),
    "optimizer_moments": ("optimizer_moments",), "activations": ("activations",), "inputs": ("activations", "temporary"),
    "recomputed": ("activations", "temporary"), "of_a_schedule": ("activations", "temporary", "gradients"),
    "gathered_parameters": ("parameters", "communication", "temporary"),
    "whole_gradients": ("gradients", "communication", "temporary"), "communication": ("communication",),
    "checkpoint_copies": ("temporary", "communication", "parameters"), "dequantised": ("temporary", "parameters"),
    "loaded_weights": ("parameters", "temporary", "communication"), "buckets": ("communication", "gradients"), "kept_by_the_script": ("activations", "temporary"),
    "cache": ("activations", "temporary"), "autocast_copies": ("activations", "temporary", "parameters"),
    "workspaces": ("temporary", "runtime", "unaccounted"), "temporary": ("temporary",),
}
FORWARD = ("forward", "evaluation")


def held(life):
    """Addresses of what outlives a phase, by class: the strongest claim first."""
    found = {}

    def put(tensors, name):
        for tensor in tensors:
            for address in filter(None, addresses_of(tensor)):
                found.setdefault(address, name)

    for model in life.models:
        parameters = list(model.parameters())
        life.divided = getattr(life, "divided", False) or any(hasattr(p, "_local_tensor") for p in parameters)
        put([p for p in parameters if hasattr(p, "_local_tensor")], "parameters")
        # FSDP2 puts a gathered parameter in place of its shard until it is divided again
        put([p for p in parameters if not hasattr(p, "_local_tensor")], "gathered_parameters" if life.divided else "parameters")
        put([p.grad for p in model.parameters() if p.grad is not None], "gradients")
        put(model.buffers(), "buffers")
    for address, pile in life.more_states().items():
        found.setdefault(address, "master_weights" if pile == "optimizer_state" else pile)
    for optimizer in life.optimizers:
        of_groups = [p for group in optimizer.param_groups for p in group["params"]]
        put(of_groups, "master_weights")
        put([p.grad for p in of_groups if p.grad is not None], "gradients")
        for state in optimizer.state.values():
            if isinstance(state, dict):
                put([v for v in state.values() if isinstance(v, torch.Tensor)], "optimizer_moments")
    put(life.inputs, "inputs")
    for name, tensors in life.kept:
        put(tensors, name)
    return found


ENGINES = ("_fully_shard/", "fsdp/_flat_param", "fsdp/_runtime_utils", "fsdp/_unshard", "partition_parameters.py",
           "partitioned_param_coordinator.py", "param_and_grad_buffer.py", "parameter_offload.py")


def within(storage, *words, nearest=None):
    """Whether one of the words stands in the stack, or in its innermost frames of Python."""
    frames = [frame for frame in storage.frames if frame[0].endswith(".py")][:nearest]
    return any(word in file or word in function for file, _, function in frames for word in words)


def by_engine(storage):
    """What an engine's own files make: gathered parameters and gradients on their way to a reduction."""
    if not within(storage, *ENGINES, nearest=5) or within(storage, "transformers/models", nearest=5):
        return ""
    gathers = within(storage, "unshard", "all_gather", "_gather", "fetch", nearest=6)
    return "gathered_parameters" if gathers or not within(storage, "reduce", "post_backward", "grad", nearest=6) else "whole_gradients"


def name_all(life, whole_sizes):
    """Gives every storage of a watched life its class. `whole_sizes`: bytes of the model's parameters in either width."""
    for phase in life.phases:
        for address, name in phase.states.items():
            storage = phase.span.end.get(address)
            if storage is not None and storage.pile in ("", "activations", "inputs"):
                storage.pile = name
    forward_ends = {phase.index: phase for phase in life.phases if phase.name in FORWARD}
    last = life.phases[-1].span.end
    stream = torch.cuda.default_stream().cuda_stream
    for storage in life.storages:
        if storage.pile:
            continue
        born = life.phases[storage.phase]
        engine = by_engine(storage)
        if engine:
            storage.pile = engine
        elif storage.stream != stream:
            storage.pile = "communication"
        elif born.name == "checkpoint":
            storage.pile = "checkpoint_copies"
        elif within(storage, "nn/parallel/distributed.py", nearest=2):
            storage.pile = "buckets"
        elif last.get(storage.address) is storage and born.name not in FORWARD or born.name == "load" and born.span.end.get(storage.address) is storage:
            # Nobody of the model holds it and no step frees it, or DDP makes them anew after the first. Alone: what a layer holds
            # beside its parameters (scales of quantised weights).
            storage.pile = "buckets" if "WORLD_SIZE" in os.environ else "buffers"
        elif born.name == "load":
            storage.pile = "loaded_weights"  # on their way to where they stay: copies, flat ones, broadcasts
        elif born.index in forward_ends:
            storage.pile = "activations" if born.span.end.get(storage.address) is storage else "temporary"
        elif within(storage, "utils/checkpoint.py"):
            storage.pile = "recomputed"
        elif born.name == "backward" and not any(p.name == "forward" for p in life.phases):
            storage.pile = "of_a_schedule"
        elif born.name == "backward" and storage.requested in whole_sizes:
            storage.pile = "whole_gradients"
        else:
            storage.pile = "temporary"


def sizes_of(life):
    """Bytes that a whole gradient of each parameter may take."""
    sizes = set()
    for model in life.models:
        for parameter in model.parameters():
            shape = getattr(parameter, "ds_numel", None) or getattr(getattr(parameter, "full_shape", None), "numel", parameter.numel)()
            sizes.update({shape * 2, shape * 4})
    return sizes
