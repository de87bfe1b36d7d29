"""nanotron's own Llama, tensor parallelism, gradient accumulator and ZeRO-1 on one rank.

Nothing of it is installed by requirements.txt: check out https://github.com/huggingface/nanotron (the branch of its published sweep is
nouamane/bench2), unpack flash-attn 2.5.8 and Triton 2.1.0 (torch 2.1's), and say where they lie:
`NANOTRON_SOURCE=.../nanotron/src:.../flash_attn-2.5.8:.../triton-2.1.0`. Their Python runs as it is. flash-attn's compiled kernel is
PyTorch's own copy of it; Triton compiles and launches nothing, and its launcher reads the pointers of what it is given.
"""

import os
import sys
import types

import torch
from ranks import join
from training import Unsupported, batch, value


def varlen_forward(q, k, v, out, q_starts, k_starts, used, table, slopes, q_length, k_length, dropout, scale, zero, causal, *_):
    out, logsumexp, seed, _, _ = torch.ops.aten._flash_attention_forward.default(
        q, k, v, q_starts, k_starts, q_length, k_length, dropout, causal, False, scale=scale)
    return out, q, k, v, out, logsumexp, None, seed


def varlen_backward(grad, q, k, v, out, logsumexp, dq, dk, dv, q_starts, k_starts, slopes, q_length, k_length, dropout, scale, zero,
                    causal, left, right, deterministic, generator, seed):
    dq, dk, dv = torch.ops.aten._flash_attention_backward.default(
        grad, q, k, v, out, logsumexp, q_starts, k_starts, q_length, k_length, dropout, causal, seed, seed, scale=scale)
    return dq, dk, dv, logsumexp


class Launched:
    """What Triton has compiled: a launch that reads the pointers of its arguments, as the C code that it writes does."""
    num_warps, shared, cu_function = 4, 0, 0

    @staticmethod
    def c_wrapper(*arguments):
        for argument in arguments:
            if isinstance(argument, torch.Tensor):
                argument.data_ptr()


def launch_nothing():
    import triton
    if not triton.__version__.startswith("2.1."):
        raise Unsupported(f"Triton {triton.__version__}: the launcher of 2.1 is what nanotron's sweep ran")
    from triton import compiler
    from triton.runtime.autotuner import Autotuner
    compiler.compile = lambda *_, **__: Launched
    Autotuner._bench = lambda *_, **__: (0.0, 0.0, 0.0)


def import_its_packages(source):
    # PyTorch's compiler wants a Triton of its own time: it is imported where there is none
    sys.modules["triton"] = None
    import torch._dynamo  # noqa: F401
    del sys.modules["triton"]
    sys.path[:0] = source.split(os.pathsep)
    # datasets: one type of it stands in an annotation
    datasets = types.ModuleType("datasets")
    streaming = types.ModuleType("datasets.download.streaming_download_manager")
    streaming.xPath = type("xPath", (), {})
    kernels = types.ModuleType("flash_attn_2_cuda")
    kernels.varlen_fwd, kernels.varlen_bwd = varlen_forward, varlen_backward
    sys.modules.update({"datasets": datasets, "datasets.download": datasets, streaming.__name__: streaming,
                        "flash_attn_2_cuda": kernels})
    launch_nothing()


def answer_on_paper():
    """What other ranks would send as Python objects is what this one sends."""
    from nanotron import distributed

    def gathered(found, mine, group=None):
        found[:] = [mine] * len(found)
    distributed.all_gather_object = gathered


def context_of(ranks, tensor, rank):
    """Its ParallelContext without the barriers: this rank's groups alone."""
    import numpy as np
    from nanotron.parallel import ParallelContext
    context = ParallelContext.__new__(ParallelContext)
    context.tensor_parallel_size, context.pipeline_parallel_size, context.expert_parallel_size = tensor, 1, 1
    context.data_parallel_size = ranks // tensor
    context.world_rank_matrix = np.arange(ranks).reshape(1, 1, ranks // tensor, tensor)
    context.world_ranks_to_pg = {}

    def group(members):
        members = tuple(int(member) for member in members)
        if members not in context.world_ranks_to_pg:
            context.world_ranks_to_pg[members] = torch.distributed.new_group(list(members), use_local_synchronization=True)
        return context.world_ranks_to_pg[members]

    matrix = context.world_rank_matrix[0, 0]
    data, own = rank // tensor, rank % tensor
    context.world_pg = context.local_pg = group(range(ranks))
    context.tp_pg = context.mp_pg = context.tp_and_expert_pg = group(matrix[data])
    context.dp_pg = group(matrix[:, own])
    context.pp_pg = context.expert_pg = group([rank])
    return context


def configs_of(run, data, tensor):
    from nanotron.config import LlamaConfig
    from nanotron.config.parallelism_config import ParallelismArgs
    from nanotron.parallel.pipeline_parallel.engine import OneForwardOneBackwardPipelineEngine
    from nanotron.parallel.tensor_parallel.nn import TensorParallelLinearMode
    model = run["model"]
    if model["model_type"] != "llama":
        raise Unsupported(f"model_type {model['model_type']} with nanotron")
    config = LlamaConfig(
        hidden_size=model["hidden_size"], intermediate_size=model["intermediate_size"], num_attention_heads=model["num_attention_heads"],
        num_key_value_heads=model["num_key_value_heads"], num_hidden_layers=model["num_hidden_layers"],
        vocab_size=model["vocab_size"], max_position_embeddings=value(run, "training.sequence_length"), pad_token_id=None,
        tie_word_embeddings=bool(model.get("tie_word_embeddings")))
    # as examples/config_tiny_llama_bench.yaml
    parallel = ParallelismArgs(
        dp=data, pp=1, tp=tensor, pp_engine=OneForwardOneBackwardPipelineEngine(), tp_mode=TensorParallelLinearMode.REDUCE_SCATTER,
        tp_linear_async_communication=True, recompute_layer=value(run, "recompute.mode", "none") == "full")
    return config, parallel


def optimizer_of(run, model, context):
    """As helpers.init_optimizer_and_grad_accumulator has it, which wants a whole config."""
    from nanotron.optim.gradient_accumulator import FP32GradientAccumulator
    from nanotron.optim.named_optimizer import NamedOptimizer
    from nanotron.optim.optimizer_from_gradient_accumulator import OptimizerFromGradientAccumulator
    from nanotron.optim.zero import ZeroDistributedOptimizer
    named, found = list(model.get_named_params_with_correct_tied()), []

    def build(groups):
        result = OptimizerFromGradientAccumulator(
            gradient_accumulator_builder=lambda parameters: FP32GradientAccumulator(parameters, grad_buckets_named_params=named),
            named_params_or_groups=groups, optimizer_builder=lambda given: NamedOptimizer(
                named_params_or_groups=given, optimizer_builder=lambda each: torch.optim.AdamW(each, lr=1e-4, fused=True)))
        found.append(result.gradient_accumulator)
        return result

    if value(run, "parallel.zero_stage", 0) == 0:
        return build(named), found[0]
    optimizer = ZeroDistributedOptimizer(named_params_or_groups=named, optimizer_builder=build, dp_pg=context.dp_pg)
    found[0].assign_param_offsets(dp_rank=torch.distributed.get_rank(context.dp_pg),
                                  param_name_to_offsets=optimizer.param_name_to_dp_rank_offsets)
    return optimizer, found[0]


class InPhase:
    """A loss whose backward is a phase: what accumulates its gradients comes after it."""
    def __init__(self, recorder, loss):
        self.recorder, self.loss = recorder, loss

    def backward(self):
        with self.recorder.phase("backward"):
            self.loss.backward()


def train(recorder, run, rank):
    source = os.environ.get("NANOTRON_SOURCE")
    if not source:
        raise Unsupported("NANOTRON_SOURCE does not say where nanotron, flash-attn and Triton lie")
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    # A record of every collective, and a watch for other ranks' requests to write it down: torch 2.1 had neither
    os.environ.update(TORCH_FR_BUFFER_SIZE="0", TORCH_NCCL_TRACE_BUFFER_SIZE="0", TORCH_NCCL_DUMP_ON_TIMEOUT="0")
    import_its_packages(source)
    ranks, tensor = value(run, "cluster.devices"), value(run, "parallel.tensor", 1)
    join(ranks, rank)
    from nanotron.models import build_model
    from nanotron.models.llama import LlamaForTraining
    from nanotron.optim.clip_grads import clip_grad_norm
    from nanotron.parallel.data_parallel.utils import sync_gradients_across_dp
    from nanotron.parallel.tied_parameters import sync_tied_weights_gradients
    from nanotron.trainer import mark_tied_parameters
    from recorder import paper
    if paper.is_loaded():
        answer_on_paper()
    context = context_of(ranks, tensor, rank)
    config, parallel = configs_of(run, ranks // tensor, tensor)
    if ranks // tensor > 1 and value(run, "parallel.zero_stage", 0) == 0:
        raise Unsupported("nanotron without ZeRO runs DDP with a hook of its own")
    with recorder.phase("load"):
        model = build_model(
            model_builder=lambda: LlamaForTraining(config=config, parallel_context=context, parallel_config=parallel),
            parallel_context=context, dtype=torch.bfloat16)
        mark_tied_parameters(model=model, parallel_context=context, parallel_config=parallel)
        model.module_id_to_prefix = {id(module): f"{name}." for name, module in model.named_modules()}
        model.module_id_to_prefix[id(model)] = ""
        optimizer, accumulator = optimizer_of(run, model, context)
    engine, whole = parallel.pp_engine, accumulator.backward

    def backward(losses):
        with recorder.phase("accumulated backward"):
            return whole([InPhase(recorder, loss) for loss in losses])

    def forward(**inputs):
        with recorder.phase("forward"):
            return model_forward(**inputs)

    accumulator.backward, model_forward, model.forward = backward, model.forward, forward
    if hasattr(optimizer, "_all_gather_params"):
        gather = optimizer._all_gather_params

        def in_its_phase():
            with recorder.phase("gather"):
                gather()
        optimizer._all_gather_params = in_its_phase
    ids, _ = batch(run, None)
    mask = torch.ones_like(ids, dtype=torch.bool)
    given = {"input_ids": ids, "input_mask": mask, "label_ids": ids, "label_mask": mask}
    micro_batches = value(run, "training.gradient_accumulation", 1)
    for _ in recorder.steps(model, [optimizer]):
        engine.train_batch_iter(model=model, pg=context.pp_pg, batch=iter([given] * micro_batches), nb_microbatches=micro_batches,
                                grad_accumulator=accumulator)
        with recorder.phase("optimizer"):
            sync_gradients_across_dp(module=model, dp_pg=context.dp_pg, reduce_op=torch.distributed.ReduceOp.AVG, reduce_scatter=False,
                                     grad_accumulator=accumulator)
            sync_tied_weights_gradients(module=model, parallel_context=context, grad_accumulator=accumulator)
            clip_grad_norm(mp_pg=context.mp_pg, named_parameters=list(model.get_named_params_with_correct_tied()),
                           grad_accumulator=accumulator, max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
