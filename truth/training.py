"""A steelyard run file as an ordinary PyTorch training script: what a user would write for it, and nothing else."""

import contextlib
import copy

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Unsupported(Exception):
    pass


def value(run, path, otherwise=None):
    for key in path.split("."):
        if not isinstance(run, dict) or key not in run:
            return otherwise
        run = run[key]
    return run


def parameter_type(run):
    precision = value(run, "training.precision", "bf16-mixed")
    types = {"fp32": torch.float32, "tf32": torch.float32, "bf16-autocast": torch.float32, "bf16-pure": torch.bfloat16}
    if precision in types:
        return types[precision]
    if value(run, "engine") in ("fsdp2",) and precision in ("bf16-mixed", "bf16-mixed-fp32-gradients"):
        return torch.float32
    raise Unsupported(f"precision {precision} is not plain PyTorch with engine {value(run, 'engine')}")


def config_of(run):
    from transformers import AutoConfig
    table = copy.deepcopy(run["model"])
    kind = table.pop("model_type")
    for key in ("architectures", "torch_dtype", "dtype"):
        table.pop(key, None)
    config = AutoConfig.for_model(kind, **table)
    config.use_cache = False
    dropout = value(run, "training.dropout")
    if dropout is not None:
        for key in ("attention_dropout", "attn_pdrop", "resid_pdrop", "embd_pdrop", "hidden_dropout_prob",
                    "attention_probs_dropout_prob", "hidden_dropout"):
            if hasattr(config, key):
                setattr(config, key, float(dropout))
    return config


@contextlib.contextmanager
def without_initialisation():
    """Weights keep what their memory held: on paper nobody reads them, on a device only their size matters."""
    import torch.nn.init as init
    names = [n for n in dir(init) if n.endswith("_") and not n.startswith("_") and callable(getattr(init, n))]
    saved = {n: getattr(init, n) for n in names}
    for name in names:
        setattr(init, name, lambda tensor, *a, **k: tensor)
    from transformers import PreTrainedModel
    whole = PreTrainedModel.init_weights
    PreTrainedModel.init_weights = lambda self, *a, **k: self.tie_weights()
    try:
        yield
    finally:
        PreTrainedModel.init_weights = whole
        for name, function in saved.items():
            setattr(init, name, function)


def attention_kernel(run):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    name = value(run, "training.attention", "flash")
    if name == "eager":
        return contextlib.nullcontext()
    # "efficient" is what is left without flash: PyTorch itself falls to the math kernel where it must, as with grouped heads.
    return sdpa_kernel({"flash": [SDPBackend.FLASH_ATTENTION],
                        "efficient": [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]}[name])


def is_masked(config):
    return "MaskedLM" in " ".join(config.architectures or []) or config.model_type == "bert"


def build_model(run, kind=None):
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM
    config = config_of(run)
    eager = value(run, "training.attention", "flash") == "eager"
    head = AutoModelForMaskedLM if is_masked(config) else AutoModelForCausalLM
    with without_initialisation():
        model = head.from_config(config, dtype=kind or parameter_type(run), attn_implementation="eager" if eager else "sdpa")
    adapter = run.get("adapter")
    if adapter is not None:
        from peft import LoraConfig, get_peft_model
        targets = adapter.get("target_modules", "all-linear")
        model = get_peft_model(model, LoraConfig(
            r=adapter.get("rank", 8), lora_alpha=adapter.get("alpha", adapter.get("rank", 8)),
            target_modules=targets, modules_to_save=adapter.get("saved_modules"), lora_dropout=0.0, task_type="CAUSAL_LM"))
    model.train()
    return model


def recompute(run, model):
    mode = value(run, "recompute.mode", "none")
    if mode == "none":
        return
    if mode != "full":
        raise Unsupported(f"recompute.mode {mode} is not a switch of transformers")
    reentrant = bool(value(run, "recompute.reentrant", False))
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant:
        model.enable_input_require_grads()


def build_optimizer(run, parameters):
    name = value(run, "training.optimizer", "adamw")
    form = value(run, "training.optimizer_form", "foreach")
    how = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}[form]
    parameters = [p for p in parameters if p.requires_grad]
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.1, **how)
    if name == "adam":
        return torch.optim.Adam(parameters, lr=1e-4, **how)
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=1e-4, **how)
    if name == "momentum":
        return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9, **how)
    if name == "adafactor":
        from transformers.optimization import Adafactor
        return Adafactor(parameters, lr=1e-4, scale_parameter=False, relative_step=False)
    if name == "muon":
        raise Unsupported("muon: torch.optim.Muon takes matrices only")
    raise Unsupported(f"optimizer {name}")


def autocast(run):
    if value(run, "training.precision") == "bf16-autocast":
        return torch.autocast("cuda", torch.bfloat16)
    return contextlib.nullcontext()


def batch(run, config):
    b, s = value(run, "training.micro_batch", 1), value(run, "training.sequence_length")
    ids = torch.zeros(b, s, dtype=torch.int64, device="cuda")
    return ids, ids.clone()


def loss_of(model, ids, labels):
    """As transformers' Trainer: the output object, and with it the logits, is gone when the loss is there."""
    return model(input_ids=ids, labels=labels).loss


def train_single(recorder, run):
    """One device, no engine."""
    torch.backends.cuda.matmul.allow_tf32 = value(run, "training.precision") == "tf32"
    with recorder.phase("load"):
        model = build_model(run).to("cuda")
        recorder.models = [model]
    recompute(run, model)
    train(recorder, run, model, build_optimizer(run, model.parameters()))


def train(recorder, run, model, optimizer, no_sync=None, loss=None):
    accumulation = value(run, "training.gradient_accumulation", 1)
    clip = value(run, "training.gradient_clip", False)
    loss = loss or loss_of
    config = getattr(model, "module", model).config
    with attention_kernel(run):
        for _ in recorder.steps(model, optimizer):
            for micro in range(accumulation):
                last = micro == accumulation - 1
                with recorder.phase("forward"):
                    ids, labels = batch(run, config)
                    recorder.inputs = [ids, labels]
                    context = no_sync(last) if no_sync else contextlib.nullcontext()
                    with context:
                        with autocast(run):
                            value_of_loss = loss(model, ids, labels)
                        if accumulation > 1:
                            value_of_loss = value_of_loss / accumulation
                with recorder.phase("backward"):
                    with no_sync(last) if no_sync else contextlib.nullcontext():
                        value_of_loss.backward()
                    recorder.inputs = []
                    del value_of_loss, ids, labels
            with recorder.phase("optimizer"):
                if clip:
                    torch.nn.utils.clip_grad_norm_(
                        [p for p in model.parameters() if p.requires_grad], 1.0 if clip is True else float(clip))
                optimizer.step()
                optimizer.zero_grad()


# ---- several devices: this process is one rank; the others are never started, collectives return at once ---------------------


def join(ranks, rank=0):
    """A process group of any size with the real NCCL backend; on paper over a NCCL that sends nothing."""
    import os
    import torch.distributed as dist
    os.environ.setdefault("TORCH_NCCL_ENABLE_MONITORING", "0")
    os.environ.update(LOCAL_RANK="0", RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", store=answering_store() if rank else dist.HashStore(), rank=rank, world_size=ranks)
    return dist


def answering_store():
    """A store in which the other ranks have already written what this one waits for."""
    import torch.distributed as dist

    class Answering(dist.Store):
        def __init__(self):
            super().__init__()
            self.table = {}

        def set(self, key, value):
            self.table[key] = value if isinstance(value, bytes) else str(value).encode()

        def get(self, key):
            return self.table.get(key, b"\x01" * 128)

        def add(self, key, amount):
            self.table[key] = str(int(self.table.get(key, b"0")) + amount).encode()
            return int(self.table[key])

        def wait(self, keys, timeout=None):
            return None

        def check(self, keys):
            return True

        def delete_key(self, key):
            return self.table.pop(key, None) is not None

        def num_keys(self):
            return len(self.table)

        def clone(self):
            return self

    store = Answering()
    KEPT.append(store)  # C++ holds it, and would find its Python part gone
    return store


KEPT = []


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
    dist = join(ranks)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    replicate = value(run, "parallel.replicate", 1)
    mesh = (init_device_mesh("cuda", (replicate, ranks // replicate), mesh_dim_names=("replicate", "shard"))
            if replicate > 1 else init_device_mesh("cuda", (ranks,)))
    policy = fsdp_policy(run, MixedPrecisionPolicy)
    how = {"mesh": mesh, "mp_policy": policy}
    after = value(run, "parallel.reshard_after_forward")
    if after in ("always", "never"):
        how["reshard_after_forward"] = after == "always"
    elif value(run, "parallel.zero_stage", 3) == 2:
        how["reshard_after_forward"] = False
    with recorder.phase("load"):
        with torch.device("meta"):
            model = build_model(run)
        recompute(run, model)
        for layer in layers_of(model):
            fully_shard(layer, **how)
        fully_shard(model, **how)
        model.to_empty(device="cuda")
        model.tie_weights()
        recorder.models = [model]
    layers = [*layers_of(model), model]

    def sync(last):
        model.set_requires_gradient_sync(last)
        return contextlib.nullcontext()

    accumulates = value(run, "training.gradient_accumulation", 1) > 1
    no_sync = sync if accumulates and value(run, "overlap.no_sync", False) else None
    train(recorder, run, model, build_optimizer(run, model.parameters()), no_sync)
    dist.destroy_process_group()


def train_tensor(recorder, run):
    """PyTorch's own tensor parallelism, with its sequence parallelism and loss parallelism, as torchtitan plans it for Llama."""
    ranks, tensor = value(run, "cluster.devices"), value(run, "parallel.tensor")
    dist = join(ranks)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
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
            policy = fsdp_policy(run, MixedPrecisionPolicy)
            for layer in layers_of(model):
                fully_shard(layer, mesh=mesh["data"], mp_policy=policy)
            fully_shard(model, mesh=mesh["data"], mp_policy=policy)
        model.to_empty(device="cuda")
        recorder.models = [model]

    def loss(model, ids, labels):
        # The model would count the hidden states of this rank.
        positions = torch.zeros(1, ids.shape[1], dtype=torch.int64, device="cuda") if sequence else None
        return model(input_ids=ids, labels=labels, position_ids=positions).loss

    with loss_parallel():
        train(recorder, run, model, build_optimizer(run, model.parameters()), loss=loss)


class Stage(torch.nn.Module):
    """One pipeline stage of a Llama: the modules of transformers that torchtitan would keep of the whole model."""

    def __init__(self, model, first, last, layers):
        super().__init__()
        whole = model.model
        self.config = model.config
        self.embed_tokens = whole.embed_tokens if first else None
        self.layers = torch.nn.ModuleList(whole.layers[i] for i in layers)
        self.rotary_emb = whole.rotary_emb
        self.norm, self.lm_head = (whole.norm, model.lm_head) if last else (None, None)

    def forward(self, x):
        if self.embed_tokens is not None:
            x = self.embed_tokens(x)
        positions = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
        tables = self.rotary_emb(x, positions)
        for layer in self.layers:
            x = layer(x, position_embeddings=tables, position_ids=positions, attention_mask=None)
        if self.norm is not None:
            x = self.lm_head(self.norm(x))
        return x


def schedule_of(run):
    """The class, and which of `count` stages a rank holds: loops start again at the first rank, a V comes back from the last."""
    from torch.distributed import pipelining
    from torch.distributed.pipelining import schedules
    one, loop, v = (lambda rank, ranks, count: [rank], lambda rank, ranks, count: list(range(rank, count, ranks)),
                    lambda rank, ranks, count: [rank, count - 1 - rank])
    return {
        "1f1b": (pipelining.Schedule1F1B, one),
        "gpipe": (pipelining.ScheduleGPipe, one),
        "interleaved": (pipelining.ScheduleInterleaved1F1B, loop),
        "looped-bfs": (pipelining.ScheduleLoopedBFS, loop),
        "zb-h1": (pipelining.ScheduleInterleavedZeroBubble, loop),
        "zb-v": (pipelining.ScheduleZBVZeroBubble, v),
        "dualpipe-v": (schedules.ScheduleDualPipeV, v),
    }[value(run, "parallel.schedule", "1f1b")]


def train_pipeline(recorder, run, rank):
    """torch.distributed.pipelining: one rank with its stages; what it would receive is there at once."""
    ways, ranks = value(run, "parallel.pipeline"), value(run, "cluster.devices")
    stages = ways * value(run, "parallel.virtual_pipeline", 1)
    micro_batches = value(run, "training.gradient_accumulation", ways)
    data = ranks // ways
    dist = join(ranks, rank * data)
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cuda", (ways, data), mesh_dim_names=("pipeline", "data"))
    from torch.distributed.pipelining import PipelineStage
    b, s = value(run, "training.micro_batch", 1), value(run, "training.sequence_length")
    schedule, stages_of = schedule_of(run)
    indices = stages_of(rank, ways, stages)
    with recorder.phase("load"):
        with torch.device("meta"):
            whole = build_model(run)
        recompute(run, whole)
        count = len(layers_of(whole)) // stages
        parts = [Stage(whole, i == 0, i == stages - 1, range(i * count, (i + 1) * count)).train() for i in indices]
        del whole
        for model in parts:
            if data > 1:
                from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
                how = {"mesh": mesh["data"], "mp_policy": fsdp_policy(run, MixedPrecisionPolicy), "reshard_after_forward": False}
                for layer in model.layers:
                    fully_shard(layer, **how)
                fully_shard(model, **how)
            model.to_empty(device="cuda")
        held = parts[0] if len(parts) == 1 else torch.nn.ModuleList(parts)
        recorder.models = [held]
    config = parts[0].config
    kind = torch.bfloat16 if value(run, "training.precision").startswith("bf16") else torch.float32
    hidden = torch.empty(b, s, config.hidden_size, dtype=kind, device="meta")
    tokens = torch.empty(b, s, dtype=torch.int64, device="meta")
    logits = torch.empty(b, s, config.vocab_size, dtype=kind, device="meta")

    def loss(output, target):
        return torch.nn.functional.cross_entropy(output.float().flatten(0, 1), target.flatten(0, 1))

    local = [PipelineStage(part, index, stages, torch.device("cuda"), input_args=(tokens if index == 0 else hidden,),
                           output_args=(logits if index == stages - 1 else hidden,), group=mesh["pipeline"].get_group())
             for part, index in zip(parts, indices)]
    pipeline = schedule(local[0] if stages == ways else local, micro_batches, loss_fn=loss)
    first, last = 0 in indices, stages - 1 in indices
    optimizer = build_optimizer(run, held.parameters())
    del parts, model
    with attention_kernel(run):
        for _ in recorder.steps(held, optimizer):
            # forward and backward of the micro-batches alternate: one phase
            with recorder.phase("backward"):
                ids = torch.zeros(b * micro_batches, s, dtype=torch.int64, device="cuda")
                labels = ids.clone()
                recorder.inputs = [ids, labels]
                losses = []
                pipeline.step(*([ids] if first else []), **({"target": labels, "losses": losses} if last else {}),
                              return_outputs=False)  # as torchtitan
                recorder.inputs = []
                del ids, labels, losses
            with recorder.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad()


def fsdp_policy(run, policy):
    return {
        "bf16-mixed": policy(torch.bfloat16, torch.bfloat16),
        "bf16-mixed-fp32-gradients": policy(torch.bfloat16, torch.float32),
        "fp32": policy(),
        "bf16-pure": policy(),
    }[value(run, "training.precision")]


def layers_of(model):
    for owner in model.modules():
        for name in ("layers", "h", "layer"):
            layers = getattr(owner, name, None)
            if isinstance(layers, torch.nn.ModuleList):
                return list(layers)
    raise Unsupported("no list of layers in this model")


def packages_of(run):
    """Whose versions a record names beside PyTorch's."""
    return ("transformers", "accelerate", "peft", *(("deepspeed",) if run["engine"] == "deepspeed" else ()))


def train_one(recorder, run, rank=0):
    if value(run, "parallel.pipeline", 1) > 1:
        return train_pipeline(recorder, run, rank)
    if value(run, "parallel.tensor", 1) > 1:
        return train_tensor(recorder, run)
    if run["engine"] == "deepspeed":
        import zero
        return zero.train(recorder, run)
    if value(run, "cluster.devices", 1) == 1:
        return train_single(recorder, run)
    engines = {"ddp": train_ddp, "fsdp2": train_fsdp2}
    if run["engine"] not in engines:
        raise Unsupported(f"engine {run['engine']}")
    return engines[run["engine"]](recorder, run)
