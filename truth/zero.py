"""DeepSpeed's own engine on one rank: ZeRO stages 0 to 3 as `deepspeed.initialize` and its three calls run them.

    engine, optimizer = deepspeed.initialize(model, torch's optimizer, config)      load
    loss = engine(...)                                                              forward
    engine.backward(loss)                                                           backward
    engine.step()                                                                   optimizer, or nothing between micro-batches
"""

import os

import torch
from ranks import join
from training import loss_of, Unsupported, attention_kernel, batch, build_model, build_optimizer, recompute, value

TYPES = {  # precision -> parameters, and the type in which gradients are accumulated where it is another
    "bf16-mixed": (torch.bfloat16, None), "bf16-mixed-fp32-gradients": (torch.bfloat16, "fp32"),
    "fp16-mixed": (torch.float16, None), "fp32": (torch.float32, None)}


def config_of_engine(run):
    """The JSON of DeepSpeed that says what the run file says."""
    parameters, accumulated = TYPES[value(run, "training.precision")]
    table = {
        "train_micro_batch_size_per_gpu": value(run, "training.micro_batch", 1),
        "gradient_accumulation_steps": value(run, "training.gradient_accumulation", 1),
        "zero_allow_untested_optimizer": True,  # torch's own AdamW instead of kernels that are compiled on the spot
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
        "bf16": {"enabled": parameters == torch.bfloat16},
        # a fixed scale: one that moves with overflow would see what no kernel has written
        "fp16": {"enabled": parameters == torch.float16, "loss_scale": 1.0},
        "gradient_clipping": float(value(run, "training.gradient_clip", True)),
    }
    if accumulated:
        table["data_types"] = {"grad_accum_dtype": accumulated}
    stage = value(run, "parallel.zero_stage", 0)
    if stage:
        zero = {"stage": stage}
        names = {"buckets.reduce": "reduce_bucket_size", "buckets.gather": "allgather_bucket_size",
                 "buckets.prefetch": "stage3_prefetch_bucket_size", "buckets.persistence": "stage3_param_persistence_threshold",
                 "buckets.live": "stage3_max_live_parameters", "buckets.reuse": "stage3_max_reuse_distance",
                 "buckets.sub_group": "sub_group_size", "overlap.reduce": "overlap_comm"}
        zero.update({name: value(run, path) for path, name in names.items() if value(run, path) is not None})
        for path, name in {"offload.optimizer": "offload_optimizer", "offload.parameters": "offload_param"}.items():
            if value(run, path, "none") != "none":
                zero[name] = {"device": value(run, path), "pin_memory": value(run, "offload.pinned", True)}
        for path, name in {"parallel.quantized_gather": "zero_quantized_weights",
                           "parallel.quantized_reduce": "zero_quantized_gradients"}.items():
            if value(run, path, False):
                zero[name] = True
        if value(run, "parallel.secondary_shard", 1) > 1:
            zero["zero_hpz_partition_size"] = value(run, "parallel.secondary_shard")
        if value(run, "parallel.shard_group"):
            zero["mics_shard_size"] = value(run, "parallel.shard_group")
        table["zero_optimization"] = zero
    return table


def answer_on_paper():
    """What `steelyard rehearse` answers for DeepSpeed, and no more."""
    from recorder import paper
    paper.rehearsal("engines").of_deepspeed()


def quantise_on_paper(devices_per_node):
    """ZeRO++'s kernels are compiled on the device: here tensors of the sizes that csrc/quantization/pt_binding.cpp takes for their
    results (symmetric: one fp32 scale a group; two codes of 4 bits a byte), and nothing is computed. A machine has as many devices
    as the run says."""
    import types
    from deepspeed.accelerator import get_accelerator
    from deepspeed.ops.op_builder import QuantizerBuilder

    def scales(groups):
        return torch.empty((groups, 1), dtype=torch.float32, device="cuda")

    def last_divided(tensor, by):
        return torch.empty((*tensor.shape[:-1], tensor.shape[-1] // by), dtype=torch.int8, device="cuda")

    def quantize(values, groups, bits, kind):
        held = scales(groups)
        return last_divided(values, 8 // bits), held

    def dequantize(codes, held, groups, bits, kind):
        return torch.empty((*codes.shape[:-1], codes.shape[-1] * (8 // bits)), dtype=torch.float16, device="cuda")

    def swizzle_quant(values, groups, bits, kind, pipeline, nodes, devices):
        held = scales(groups)
        return torch.empty((values.numel() * bits // 8,), dtype=torch.int8, device="cuda"), held

    def quantized_reduction(codes, held, groups, groups_out, bits, kind, devices):
        held = scales(groups_out)
        return last_divided(codes, devices), held

    QuantizerBuilder.load = lambda self, *a: types.SimpleNamespace(
        Symmetric=0, quantize=quantize, dequantize=dequantize, swizzle_quant=swizzle_quant,
        quantized_reduction=quantized_reduction)
    accelerator = type(get_accelerator())
    accelerator.device_count = lambda self: devices_per_node


def build_own_optimizer(run, parameters):
    """DeepSpeed's own fused kernel, or torch's loops; on the host torch's, whose states are the same."""
    if value(run, "offload.optimizer", "none") != "none":
        return torch.optim.AdamW([p for p in parameters if p.requires_grad], lr=1e-4, weight_decay=0.1)
    if value(run, "training.optimizer_form", "fused") == "fused" and value(run, "training.optimizer", "adamw") == "adamw":
        from deepspeed.ops.adam import FusedAdam
        return FusedAdam([p for p in parameters if p.requires_grad], lr=1e-4, weight_decay=0.1)
    return build_optimizer(run, parameters)


def held_by(engine):
    """Addresses of what DeepSpeed holds beside the module, by pile."""
    found = {}

    def put(tensors, pile):
        for tensor in tensors:
            if isinstance(tensor, (list, tuple)):
                put(tensor, pile)
            elif isinstance(tensor, dict):
                put(tensor.values(), pile)
            elif isinstance(tensor, torch.Tensor) and tensor.is_cuda and tensor.untyped_storage().data_ptr():
                found.setdefault(tensor.untyped_storage().data_ptr(), pile)

    put([p.ds_tensor for p in engine.module.parameters() if hasattr(p, "ds_tensor")], "parameters")
    optimizer = engine.optimizer
    for names, pile in ((("bit16_groups_flat", "fp16_groups_flat", "bf16_groups_flat", "fp16_partitioned_groups_flat"), "parameters"),
                        (("averaged_gradients", "fp32_groups_gradients_flat", "grad_partitions_flat_buffer",
                          "averaged_gradients"), "gradients"),
                        (("single_partition_of_fp32_groups", "fp32_groups_flat", "fp32_groups_flat_partition",
                          "fp32_partitioned_groups_flat", "fp32_groups"), "optimizer_state"),
                        (("ipg_buffer", "_DeepSpeedZeroOptimizer_Stage3__ipg_bucket_flat_buffer"), "communication")):
        for name in names:
            put([getattr(optimizer, name, None)], pile)
    return found


def train(recorder, run):
    os.environ["DS_ACCELERATOR"] = "cuda"
    stage = value(run, "parallel.zero_stage", 0)
    join(value(run, "cluster.devices"))
    import deepspeed
    from recorder import paper
    deepspeed.logger.setLevel("ERROR")
    if paper.is_loaded():
        answer_on_paper()
        if value(run, "parallel.quantized_gather", False) or value(run, "parallel.quantized_reduce", False):
            quantise_on_paper(value(run, "cluster.devices_per_node", 8))
    if value(run, "training.kernels") == "liger":
        import liger_kernel.transformers  # noqa: F401 - PEFT comes with it, and its default arguments are not zero.Init's to move
    precision = value(run, "training.precision")
    if precision not in TYPES:
        raise Unsupported(f"precision {precision} is not DeepSpeed's")
    kind = TYPES[precision][0]
    config = config_of_engine(run)
    with recorder.phase("load"):
        if stage == 3:
            whole = deepspeed.zero.MiCS_Init if value(run, "parallel.shard_group") else deepspeed.zero.Init
            with whole(config_dict_or_path=config, dtype=kind):
                model = build_model(run, kind)
        else:
            model = build_model(run, kind)
        recompute(run, model)
        engine, *_ = deepspeed.initialize(model=model, optimizer=build_own_optimizer(run, model.parameters()), config=config)
        base = getattr(engine.optimizer, "optimizer", engine.optimizer)
        recorder.more_states = lambda: held_by(engine)
        recorder.models, recorder.optimizers = [model], [base]
    accumulation = value(run, "training.gradient_accumulation", 1)
    with attention_kernel(run):
        for _ in recorder.steps(model, base):
            for micro in range(accumulation):
                with recorder.phase("forward"):
                    ids, labels = batch(run, model.config)
                    recorder.inputs = [ids, labels]
                    loss = loss_of(engine, ids, labels)
                with recorder.phase("backward"):
                    engine.backward(loss)
                    recorder.inputs = []
                    del loss, ids, labels
                    if micro < accumulation - 1:
                        engine.step()
            with recorder.phase("optimizer"):
                engine.step()
