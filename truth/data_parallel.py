"""Data parallelism as PyTorch has it: DistributedDataParallel, FullyShardedDataParallel, fully_shard."""

import contextlib

import torch
from ranks import fsdp_policy, join, shard
from training import Unsupported, build_model, build_optimizer, layers_of, multiply_in_8_bits, recompute, train, value


def train_ddp(recorder, run):
    dist = join(value(run, "cluster.devices"))
    from torch.nn.parallel import DistributedDataParallel
    # It compares shapes that other ranks would have sent.
    torch.nn.parallel.distributed._verify_param_shape_across_processes = lambda *a, **k: None
    with recorder.phase("load"):
        model = build_model(run).to("cuda")
        recorder.models = [model]
        recompute(run, model)
        megabytes = value(run, "buckets.ddp_bytes", 25 * 2**20) / 2**20
        wrapped = DistributedDataParallel(model, device_ids=[0], bucket_cap_mb=megabytes)
        recorder.models = [wrapped]

    def no_sync(last):
        return contextlib.nullcontext() if last else wrapped.no_sync()

    train(recorder, run, wrapped, build_optimizer(run, wrapped.parameters()), no_sync)
    dist.destroy_process_group()


def train_fsdp2(recorder, run):
    ranks = value(run, "cluster.devices")
    dist = join(ranks, 1 if value(run, "parallel.context", 1) > 2 else 0)  # of a ring the rank that has most (context_attention.cc)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy
    context = value(run, "parallel.context", 1)
    replicate = value(run, "parallel.replicate", 1)
    mesh = (init_device_mesh("cuda", (replicate, ranks // replicate), mesh_dim_names=("replicate", "shard"))
            if replicate > 1 else init_device_mesh("cuda", (ranks,)))
    policy = fsdp_policy(run, MixedPrecisionPolicy)
    how = {"mesh": mesh, "mp_policy": policy}
    offloads = value(run, "offload.parameters", "none") == "cpu"
    if offloads:
        how["offload_policy"] = CPUOffloadPolicy(pin_memory=value(run, "offload.pinned", True))
    after = value(run, "parallel.reshard_after_forward")
    if after in ("always", "never"):
        how["reshard_after_forward"] = after == "always"
    elif value(run, "parallel.zero_stage", 3) == 2:
        how["reshard_after_forward"] = False
    with recorder.phase("load"):
        with torch.device("meta"):
            model = build_model(run)
        multiply_in_8_bits(run, model)
        recompute(run, model)
        whole = model.get_base_model() if "adapter" in run else model
        shard(run, model, layers_of(model), how, whole.get_input_embeddings(), getattr(whole.base_model, "norm", None),
              whole.get_output_embeddings())
        model.to_empty(device="cpu" if offloads else "cuda")
        model.tie_weights()
        if offloads:  # parameters alone: buffers stay where the model computes
            for module in model.modules():
                for name, buffer in module.named_buffers(recurse=False):
                    setattr(module, name, buffer.to("cuda"))
        recorder.models = [model]
    layers = [*layers_of(model), model]

    def sync(last):
        model.set_requires_gradient_sync(last)
        return contextlib.nullcontext()

    no_sync = None if value(run, "parallel.sync_each_micro_batch", True) else sync
    around = loss = None
    if context > 1:
        mesh = init_device_mesh("cuda", (ranks // context, context), mesh_dim_names=("data", "context"))
        around, loss = parts_of_sequences(run, mesh["context"])
    train(recorder, run, model, build_optimizer(run, model.parameters()), no_sync, loss, around=around)
    dist.destroy_process_group()


def parts_of_sequences(run, mesh):
    """torch.distributed's context_parallel around forward and backward: what has positions is cut to this rank's part in place."""
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import set_rotate_method
    set_rotate_method({"allgather": "allgather", "ring": "alltoall"}[value(run, "parallel.context_method", "ring")])
    positions = []

    def around(stack, ids, labels):
        positions[:] = [torch.arange(ids.shape[1], device="cuda").unsqueeze(0)]
        buffers = [ids, labels, *positions]
        stack.enter_context(context_parallel(mesh, buffers=buffers, buffer_seq_dims=[1] * 3, no_restore_buffers=set(buffers)))

    def loss(model, ids, labels):
        # labels are shifted before they are cut
        return model(input_ids=ids, labels=labels, shift_labels=labels, position_ids=positions.pop()).loss

    return around, loss


def train_fsdp1(recorder, run):
    """The first FSDP: one flat parameter for each layer and one for what is left, the root."""
    import functools
    ranks = value(run, "cluster.devices")
    dist = join(ranks)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    replicate, keeps = value(run, "parallel.replicate", 1), value(run, "parallel.zero_stage", 3) == 2
    names = {(False, False): "FULL_SHARD", (False, True): "SHARD_GRAD_OP", (True, False): "HYBRID_SHARD", (True, True): "_HYBRID_SHARD_ZERO2"}
    how = {"device_mesh": init_device_mesh("cuda", (replicate, ranks // replicate), mesh_dim_names=("replicate", "shard"))
           if replicate > 1 else init_device_mesh("cuda", (ranks,))}
    with recorder.phase("load"):
        model = build_model(run)  # on the host; each unit goes to the device when it is wrapped
        recompute(run, model)
        kinds = {type(layer) for layer in layers_of(model)}
        wrapped = FullyShardedDataParallel(
            model, device_id=0, use_orig_params=True,
            cpu_offload=CPUOffload(offload_params=value(run, "offload.parameters", "none") == "cpu"), sharding_strategy=ShardingStrategy[names[replicate > 1, keeps]],
            mixed_precision=fsdp_policy(run, lambda p=None, r=None: MixedPrecision(param_dtype=p, reduce_dtype=r)),
            auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls=kinds), **how)
        recorder.models = [wrapped]
    clip = value(run, "training.gradient_clip", False)

    def sync(last):
        return contextlib.nullcontext() if last else wrapped.no_sync()

    no_sync = None if value(run, "parallel.sync_each_micro_batch", True) else sync
    train(recorder, run, wrapped, build_optimizer(run, wrapped.parameters()), no_sync, clip=wrapped.clip_grad_norm_ if clip else None)
    dist.destroy_process_group()


ENGINES = {"ddp": train_ddp, "fsdp1": train_fsdp1, "fsdp2": train_fsdp2}


def train_engine(recorder, run):
    if run["engine"] not in ENGINES:
        raise Unsupported(f"engine {run['engine']}")
    return ENGINES[run["engine"]](recorder, run)
