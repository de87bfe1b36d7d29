"""Megatron-core's own model, tensor and sequence parallelism, optimizers and schedules on one rank, without Transformer Engine and
Apex: its local layers (PyTorch's linear layers and norms, attention written out), and torch's AdamW under its optimizers.
"""

import os

import torch
from ranks import join
from training import Unsupported, batch, value


def config_of(run, tensor):
    from megatron.core.transformer.transformer_config import TransformerConfig
    model = run["model"]
    if model["model_type"] != "llama":
        raise Unsupported(f"model_type {model['model_type']} with megatron")
    mode = value(run, "recompute.mode", "none")
    recompute = {"none": {}, "full": {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1},
                 "selective": {"recompute_granularity": "selective"}}[mode]
    return TransformerConfig(
        num_layers=model["num_hidden_layers"], hidden_size=model["hidden_size"], num_attention_heads=model["num_attention_heads"],
        num_query_groups=model["num_key_value_heads"], ffn_hidden_size=model["intermediate_size"],
        kv_channels=model.get("head_dim", model["hidden_size"] // model["num_attention_heads"]),
        normalization="RMSNorm", layernorm_epsilon=1e-5, gated_linear_unit=True, activation_func=torch.nn.functional.silu,
        add_bias_linear=False, hidden_dropout=0.0, attention_dropout=0.0, bf16=True, params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16, tensor_model_parallel_size=tensor, sequence_parallel=tensor > 1 and value(
            run, "parallel.sequence_parallel", True),
        pipeline_model_parallel_size=value(run, "parallel.pipeline", 1),
        deallocate_pipeline_outputs=True,  # as Megatron-LM's training/arguments.py has it, core_transformer_config_from_args
        mtp_num_layers=value(run, "training.prediction_layers"),
        perform_initialization=False, use_cpu_initialization=False, gradient_accumulation_fusion=False,
        # compiled by PyTorch or Apex where those are there
        masked_softmax_fusion=False, bias_activation_fusion=False, bias_dropout_fusion=False, apply_rope_fusion=False,
        cross_entropy_loss_fusion=False, persist_layer_norm=False, **recompute)


def layer_spec(sequence_parallel):
    """Its local layers. Their norm is PyTorch's, which knows no sequence parallelism: here it says whose gradients are summed, as
    Apex's and Transformer Engine's do."""
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    spec = get_gpt_layer_local_spec(normalization="RMSNorm")
    if not sequence_parallel:
        return spec, None

    class Norm(torch.nn.RMSNorm):
        def __init__(self, config, hidden_size, eps=1e-5, **_):
            super().__init__(hidden_size, eps=eps, dtype=config.params_dtype)
            self.weight.sequence_parallel = True

    spec.submodules.input_layernorm = spec.submodules.pre_mlp_layernorm = Norm
    return spec, Norm


def prediction_spec(config, spec, norm):
    """Modules that predict further tokens; None where there are none, or not on this stage."""
    if config.mtp_num_layers is None:
        return None
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_mtp_block_spec
    found = get_gpt_mtp_block_spec(config, spec, use_transformer_engine=False)
    if found is not None and norm is not None:
        for module in found.layer_specs:
            module.submodules.enorm = module.submodules.hnorm = module.submodules.layer_norm = norm
    return found


def answer_on_paper():
    """What other ranks would send as Python objects is what this one sends."""
    def gathered(found, mine, group=None):
        found[:] = [mine] * len(found)
    torch.distributed.all_gather_object = gathered


def is_fsdp(run):
    return value(run, "parallel.strategy") == "megatron-fsdp" or value(run, "parallel.zero_stage", 0) >= 2


def wrap_in_fsdp(run, config, whole, wide):
    """Megatron-FSDP as Megatron-LM's training.py wraps it: units are transformer layers."""
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.distributed.fsdp.mcore_fsdp_adapter import FullyShardedDataParallel
    stage = value(run, "parallel.zero_stage", 3)
    ranks = value(run, "cluster.devices") // value(run, "parallel.tensor", 1)
    return FullyShardedDataParallel(config, DistributedDataParallelConfig(
        grad_reduce_in_fp32=wide, use_distributed_optimizer=True, use_megatron_fsdp=True,
        data_parallel_sharding_strategy=("no_shard", "optim", "optim_grads", "optim_grads_params")[stage],
        overlap_grad_reduce=value(run, "overlap.reduce", stage >= 2), overlap_param_gather=value(run, "overlap.gather", stage == 3),
        fsdp_double_buffer=value(run, "buckets.double_buffer", False),
        num_distributed_optimizer_instances=value(run, "parallel.replicate", 1),
        bucket_size=max(40_000_000, 1_000_000 * ranks) if value(run, "overlap.reduce", stage >= 2) else None), whole)


def train(recorder, run, rank):
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # its small fusions want Triton
    ranks, tensor = value(run, "cluster.devices"), value(run, "parallel.tensor", 1)
    pipeline = value(run, "parallel.pipeline", 1)
    data = ranks // tensor // pipeline
    join(ranks, rank * tensor * data)
    from megatron.core import parallel_state
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
    from megatron.core.models.gpt import GPTModel
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
    from recorder import paper
    if paper.is_loaded():
        answer_on_paper()
    parallel_state.initialize_model_parallel(
        tensor, pipeline, create_gloo_process_groups=False,
        num_distributed_optimizer_instances=value(run, "parallel.replicate", 1))
    model_parallel_cuda_manual_seed(1)
    config, model = config_of(run, tensor), run["model"]
    spec, norm = layer_spec(config.sequence_parallel)
    if norm is not None:
        from megatron.core.transformer import transformer_block
        transformer_block.LayerNormImpl = norm
    divided = value(run, "parallel.zero_stage", 0) >= 1
    wide = value(run, "training.precision") == "bf16-mixed-fp32-gradients" and value(run, "types.gradients") != "bf16"
    rows = -(-model["vocab_size"] // (128 * tensor)) * 128 * tensor
    sequence, micro_batch = value(run, "training.sequence_length"), value(run, "training.micro_batch", 1)
    with recorder.phase("load"):
        whole = GPTModel(
            config, spec, rows, sequence, position_embedding_type="rope",
            pre_process=parallel_state.is_pipeline_first_stage(), post_process=parallel_state.is_pipeline_last_stage(),
            rotary_base=int(model.get("rope_theta", 10000)), mtp_block_spec=prediction_spec(config, spec, norm),
            share_embeddings_and_output_weights=bool(model.get("tie_word_embeddings"))).cuda().bfloat16()
        if is_fsdp(run):
            wrapped = wrap_in_fsdp(run, config, whole, wide)
        else:
            wrapped = DistributedDataParallel(
                config, DistributedDataParallelConfig(grad_reduce_in_fp32=wide, use_distributed_optimizer=divided,
                                                      overlap_grad_reduce=False), whole)
        clip = float(value(run, "training.gradient_clip", True))
        optimizer = get_megatron_optimizer(
            OptimizerConfig(optimizer="adam", lr=1e-4, weight_decay=0.1, bf16=True, params_dtype=torch.bfloat16,
                            use_distributed_optimizer=divided, clip_grad=clip), [wrapped], use_gloo_process_groups=False)
        recorder.models = [whole]  # the wrapper calls its gradient buffers `buffers`
        recorder.more_states = lambda: held_by(wrapped)
    config.grad_scale_func = optimizer.scale_loss
    config.finalize_model_grads_func = finalize_model_grads
    if is_fsdp(run):
        config.no_sync_func = wrapped.no_sync
    run_schedule = get_forward_backward_func()

    reads_ids = parallel_state.is_pipeline_first_stage() or config.mtp_num_layers is not None and parallel_state.is_pipeline_last_stage()
    reads_labels = parallel_state.is_pipeline_last_stage()

    def forward_step(batches, module):
        # Its names go when it returns, as those of pretrain_gpt.py's do; a stage is given what it reads.
        ids, labels, positions = next(batches)
        output = module(ids, positions, None, labels=labels)
        return output, lambda losses: (losses.float().mean(), {})

    inner = getattr(optimizer, "chained_optimizers", [optimizer])
    for _ in recorder.steps(whole, [o.optimizer for o in inner]):
        # its schedules run the micro-batches forward and backward: one phase
        with recorder.phase("backward"):
            wrapped.zero_grad_buffer()
            optimizer.zero_grad()

            def one_batch():
                ids, labels = batch(run, None)
                positions = torch.arange(sequence, device="cuda").unsqueeze(0).expand_as(ids) if reads_ids else None
                return ids if reads_ids else None, labels if reads_labels else None, positions

            def batches():
                while True:
                    yield one_batch()

            run_schedule(forward_step_func=forward_step, data_iterator=batches(), model=[wrapped],
                         num_microbatches=value(run, "training.gradient_accumulation", 1), seq_length=sequence,
                         micro_batch_size=micro_batch, forward_only=False)
            recorder.inputs = []
        with recorder.phase("optimizer"):
            optimizer.step()


def held_by(wrapped):
    found = {}
    if hasattr(wrapped, "param_and_grad_buffer"):
        for group in wrapped.param_and_grad_buffer.parameter_groups:
            for name, pile in (("model_weight_buffer", "parameters"), ("main_weight_buffer", "optimizer_state"),
                               ("main_grad_buffer", "gradients"), ("hsdp_wbuf", "parameters"), ("hsdp_gbuf", "gradients")):
                data = getattr(getattr(group, name, None), "data", None)
                if data is not None:
                    found.setdefault(data.untyped_storage().data_ptr(), pile)
        return found
    for buffer in [*wrapped.buffers, *wrapped.expert_parallel_buffers]:
        for tensor, pile in ((buffer.grad_data, "gradients"), (buffer.param_data, "parameters")):
            if tensor is not None:
                found.setdefault(tensor.untyped_storage().data_ptr(), pile)
    return found
