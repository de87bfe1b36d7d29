"""Tensor parallelism as PyTorch has it: DTensor, with the plan of a Llama."""

import torch
from ranks import fsdp_policy, join, shard
from training import build_model, build_optimizer, layers_of, recompute, train, value


def train_tensor(recorder, run):
    """PyTorch's own tensor parallelism, with its sequence parallelism and loss parallelism, as torchtitan plans it for Llama."""
    ranks, tensor = value(run, "cluster.devices"), value(run, "parallel.tensor")
    dist = join(ranks)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module)
    mesh = init_device_mesh("cuda", (ranks // tensor, tensor), mesh_dim_names=("data", "tensor"))
    sequence = value(run, "parallel.sequence_parallel", True)
    part = Shard(1) if sequence else Replicate()
    with recorder.phase("load"):
        with torch.device("meta"):
            model = build_model(run)
        recompute(run, model)
        outer = {
            "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=part),
            "lm_head": ColwiseParallel(input_layouts=part, output_layouts=Shard(-1), use_local_output=False),
        }
        inner = {
            "self_attn": PrepareModuleInput(input_kwarg_layouts={"hidden_states": part},
                                            desired_input_kwarg_layouts={"hidden_states": Replicate()}),
            "mlp": PrepareModuleInput(input_layouts=(part,), desired_input_layouts=(Replicate(),)),
            "self_attn.o_proj": RowwiseParallel(output_layouts=part),
            "mlp.down_proj": RowwiseParallel(output_layouts=part),
            **{name: ColwiseParallel() for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                                    "mlp.gate_proj", "mlp.up_proj")},
        }
        if sequence:
            outer["model.norm"] = SequenceParallel()
            inner.update(input_layernorm=SequenceParallel(), post_attention_layernorm=SequenceParallel())
        for layer in layers_of(model):
            parallelize_module(layer, mesh["tensor"], inner)
        parallelize_module(model, mesh["tensor"], outer)
        if value(run, "model.tie_word_embeddings", False):
            model.lm_head.weight = model.model.embed_tokens.weight
        if ranks > tensor:
            how = {"mesh": mesh["data"], "mp_policy": fsdp_policy(run, MixedPrecisionPolicy)}
            shard(run, model, layers_of(model), how, model.model.embed_tokens, model.model.norm, model.lm_head)
        model.to_empty(device="cuda")
        recorder.models = [model]

    def loss(model, ids, labels):
        # The model would count the hidden states of this rank.
        positions = torch.zeros(1, ids.shape[1], dtype=torch.int64, device="cuda") if sequence else None
        return model(input_ids=ids, labels=labels, position_ids=positions).loss

    with loss_parallel():
        train(recorder, run, model, build_optimizer(run, model.parameters()), loss=loss)
