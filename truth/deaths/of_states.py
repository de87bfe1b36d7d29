"""Deaths of what a model and its optimizer hold: moments, gradients, master weights, copies, and the ways to hold them whole."""

import torch
import training
from cases import changed
from deaths.kind import gpt2, kind, llama, qwen3, run_of, train
from training import value

STEP = ("optimizer",)
PASS = ("forward", "backward")
SMALL_BUCKETS = {"buckets__reduce": 50_000_000, "buckets__gather": 50_000_000}


def few_tokens(shape, layers=(6, 12), length=(64, 128, 256), batch=1, hidden=(1536, 2048, 2560), **run):
    """A model whose states are most of what is alive."""
    vocabulary = (50257,) if shape is gpt2 else (8000, 16000, 32000)

    def draw(random):
        width = (1024, 1280, 1600) if shape is gpt2 else (1024, 1536, 2048) if shape is qwen3 else hidden
        return run_of(shape(random, layers=layers, hidden=width, vocabulary=vocabulary), random.choice(length), batch, **run)
    return draw


FP32 = {"training__precision": "fp32", "training__attention": "efficient"}
for name, shape, run in (
        ("llama-alone", llama, {"training__optimizer_form": "fused"}), ("gpt2-fp32", gpt2, {**FP32, "training__optimizer_form": "loop"}),
        ("qwen3-ddp", qwen3, {"devices": 8, "training__optimizer_form": "fused"}),
        ("llama-fsdp2", llama, {"devices": 2, "engine": "fsdp2", "training__optimizer_form": "fused"}),
        ("gpt2-autocast", gpt2, {"training__precision": "bf16-autocast", "training__optimizer_form": "fused"}),
        ("llama-fsdp1", llama, {"devices": 2, "engine": "fsdp1", "training__optimizer_form": "loop"})):
    kind(f"first-step-{name}", "optimizer_state_first_step", few_tokens(shape, **run), fix={"training.optimizer": "sgd", "training.optimizer_form": "foreach"}, window=STEP,
         failing=("optimizer_moments",), log="torchtitan" if "fsdp" in name else "trainer", observer=name in ("llama-alone", "qwen3-ddp", "llama-fsdp2"))

for name, shape, run in (("llama-fp32", llama, FP32), ("gpt2-alone", gpt2, {}), ("qwen3-ddp", qwen3, {"devices": 8}),
                         ("llama-fsdp2", llama, {"devices": 2, "engine": "fsdp2"}),
                         ("gpt2-adam", gpt2, {"training__optimizer": "adam", **FP32})):
    kind(f"foreach-{name}", "optimizer_temporaries", few_tokens(shape, **run), fix={"training.optimizer_form": "fused"}, window=STEP,
         failing=("temporary",), log="plain", observer=name in ("llama-fp32", "gpt2-alone", "llama-fsdp2"))


# ---- gradients ---------------------------------------------------------------------------------------------------------------

def zeroed_in_place(life, run, wrong):
    """zero_grad(set_to_none=False): the gradients of the last step are there while the next one runs forward."""
    if wrong:
        zero_grad = torch.optim.Optimizer.zero_grad
        torch.optim.Optimizer.zero_grad = lambda self, set_to_none=True: zero_grad(self, set_to_none=False)
    train(life, run, wrong)


def some_tokens(shape, **run):
    def draw(random):
        return run_of(shape(random, vocabulary=(8000,), layers=(4, 8)), random.choice((512, 1024)), random.choice((1, 2, 3)),
                      training__optimizer_form="fused", **run)
    return draw


for name, shape, run in (("llama-alone", llama, {}), ("gpt2-ddp", gpt2, {"devices": 8}), ("qwen3-alone", qwen3, {})):
    kind(f"gradients-kept-{name}", "gradients", some_tokens(shape, **run), live=zeroed_in_place, window=PASS, from_step=2,
         least={"gradients": 0.08}, observer=name != "gpt2-ddp")

for name, run in (("fsdp2", {"devices": 64, "engine": "fsdp2"}), ("fsdp1", {"devices": 8, "engine": "fsdp1"})):
    kind(f"gradients-no-sync-{name}", "gradients",
         few_tokens(llama, training__gradient_accumulation=4, parallel__sync_each_micro_batch=False, **run),
         fix={"parallel.sync_each_micro_batch": True}, window=PASS, log="torchtitan")
kind("gradients-zero1", "gradients", few_tokens(llama, devices=64, engine="deepspeed", parallel__zero_stage=1, training__gradient_accumulation=2,
                                                **SMALL_BUCKETS),
     fix={"parallel.zero_stage": 2}, window=PASS, log="engine")


# ---- master weights, copies under autocast -----------------------------------------------------------------------------------

for name, run in (("zero1", {"devices": 1, "engine": "deepspeed", "parallel__zero_stage": 1, **SMALL_BUCKETS}),
                  ("zero2", {"devices": 1, "engine": "deepspeed", "parallel__zero_stage": 2, **SMALL_BUCKETS}),
                  ("zero3", {"devices": 1, "engine": "deepspeed", "parallel__zero_stage": 3, **SMALL_BUCKETS}),
                  ("megatron", {"devices": 1, "engine": "megatron"})):
    kind(f"master-{name}", "master_weights", few_tokens(llama, **run),
         fix={"cluster.devices": 64, **({"parallel.zero_stage": 1} if name == "megatron" else {})}, window=("load",),
         failing=("master_weights",), log="megatron" if name == "megatron" else "engine", from_step=0)


def copies(life):
    """Autocast's copies of weights: half of a weight's bytes, made in forward."""
    halves = {p.numel() * 2 for model in life.models for p in model.parameters() if p.dtype == torch.float32 and p.dim() == 2}
    for storage in life.storages:
        if life.phases[storage.phase].name in ("forward", "evaluation") and storage.requested in halves:
            storage.pile = "autocast_copies"


def evaluated(life, run, wrong):
    """A step of evaluation under autocast."""
    with life.phase("load"):
        model = training.build_model(run).to("cuda").eval()
        life.models = [model]
    context = training.autocast(run)
    for _ in life.steps(model, []):
        with life.phase("evaluation"), torch.no_grad(), context, training.attention_kernel(run):
            ids, labels = training.batch(run, model.config)
            loss = training.loss_of(model, ids, labels)
            del ids, labels, loss


HOME = {"fix": {"training.precision": "bf16-pure"}, "marked": copies, "least": {"autocast_copies": 0.12}}
LORA = {"adapter__method": "lora", "adapter__rank": 8, "training__precision": "bf16-autocast", "adapter__base": "fp32"}
kind("autocast-lora", "autocast_copies", few_tokens(llama, **LORA), **{**HOME, "fix": {"adapter.base": "bf16"}}, window=PASS)
kind("autocast-lora-ddp", "autocast_copies", few_tokens(qwen3, devices=8, **LORA), **{**HOME, "fix": {"adapter.base": "bf16"}}, window=PASS)
kind("autocast-evaluation", "autocast_copies", few_tokens(gpt2, training__precision="bf16-autocast"), live=evaluated, **HOME,
     window=("evaluation",), also=("evaluation_or_generation_cache",))
kind("autocast-in-backward", "autocast_copies",
     few_tokens(llama, training__precision="bf16-autocast", training__optimizer="sgd", training__optimizer_in_backward=True), **HOME, window=PASS)


# ---- whole where it should be divided ----------------------------------------------------------------------------------------

def undivided(changes):
    def live(life, run, wrong):
        train(life, changed(run, changes) if wrong else run, wrong)
    return live


def no_shard(life, run, wrong):
    if wrong:
        from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
        begin = FullyShardedDataParallel.__init__

        def whole(self, *words, **named):
            begin(self, *words, **{**named, "sharding_strategy": ShardingStrategy.NO_SHARD, "device_mesh": None})
        FullyShardedDataParallel.__init__ = whole
    train(life, run, wrong)


def never_sharded(life, run, wrong):
    if wrong:
        import data_parallel
        data_parallel.shard = lambda *words: None
    train(life, run, wrong)


TRAINS = ("forward", "backward", "optimizer")
REPLICATED = dict(window=TRAINS, also=("setting_ignored",), from_text=("optimizer_state_first_step", "model_too_large"))
kind("replicated-ddp", "parameters_replicated", few_tokens(llama, devices=8, engine="fsdp2"),
     live=undivided({"engine": "ddp", "training.precision": "bf16-autocast"}), **REPLICATED)
kind("replicated-fsdp1", "parameters_replicated", few_tokens(llama, devices=8, engine="fsdp1"), live=no_shard, **REPLICATED)
kind("replicated-fsdp2", "parameters_replicated", few_tokens(qwen3, devices=8, engine="fsdp2", training__attention="efficient"),
     live=never_sharded, **REPLICATED, log="torchtitan")
kind("replicated-mesh", "parameters_replicated", few_tokens(llama, devices=8, engine="fsdp2"),
     live=undivided({"parallel.replicate": 8}), **REPLICATED, log="torchtitan")
kind("replicated-zero", "parameters_replicated", few_tokens(llama, devices=64, engine="deepspeed", parallel__zero_stage=3),
     live=undivided({"parallel.zero_stage": 0}), **REPLICATED, log="engine")


# ---- loading -----------------------------------------------------------------------------------------------------------------

def on_the_device_first(life, run, wrong):
    """The whole model goes to the device before the engine divides it."""
    if wrong:
        import data_parallel
        build = data_parallel.build_model

        def built(*words):
            with torch.device("cpu"):
                return build(*words).to("cuda")
        data_parallel.build_model = built
    train(life, run, wrong)


def loaded_checkpoint(life, run, wrong):
    """The checkpoint's tensors are read to the device, beside the model's own."""
    build = training.build_model

    def built(*words):
        model = build(*words)
        if wrong:
            model = model.to("cuda")
            state = {name: torch.empty(p.shape, dtype=p.dtype, device="cuda") for name, p in model.state_dict().items()}
            model.load_state_dict(state)
        return model
    training.build_model = built
    train(life, run, wrong)


LOAD = dict(window=("load",), from_step=0, from_text=("model_too_large",))
kind("load-fsdp2", "load_full_model", few_tokens(llama, devices=8, engine="fsdp2"), live=on_the_device_first, **LOAD)
kind("load-fsdp1", "load_full_model", few_tokens(gpt2, devices=64, engine="fsdp1"), live=on_the_device_first, **LOAD)
kind("load-qwen3-fsdp2", "load_full_model", few_tokens(qwen3, devices=64, engine="fsdp2"), live=on_the_device_first, **LOAD, log="torchtitan")
kind("load-twice", "load_full_model", few_tokens(llama, training__optimizer="sgd", training__optimizer_in_backward=True), live=loaded_checkpoint,
     **LOAD)

SHARDED = {"cluster.devices": 64, "engine": "fsdp2", "training.precision": "bf16-mixed", "training.attention": "flash"}
for name, shape, run in (("llama-fp32", llama, FP32), ("gpt2-alone", gpt2, FP32), ("qwen3-ddp", qwen3, {"devices": 8}),
                         ("llama-alone", llama, {})):
    kind(f"too-large-{name}", "model_too_large", few_tokens(shape, layers=(24, 36) if shape is gpt2 else (12, 20), **run), fix=SHARDED, window=("load",), from_step=0,
         share=(0.3, 0.8), from_text=("load_full_model",), also=("parameters_replicated",) if "ddp" in name else ())


# ---- gathered whole ----------------------------------------------------------------------------------------------------------

def wrapped(life, run, wrong):
    """`wrap.policy = "none"`: one unit for the whole model."""
    if value(run, "wrap.policy", "block") == "none":
        import data_parallel
        shard = data_parallel.shard
        data_parallel.shard = lambda run, model, layers, *rest: shard(run, model, [], *rest)
        data_parallel.layers_of = lambda model: []
    train(life, run, wrong)


GATHER = dict(window=PASS, log="torchtitan")
BLOCK = {"wrap.policy": "block"}
kind("gather-root-fsdp2", "all_gather_or_bucket", few_tokens(llama, devices=64, engine="fsdp2", wrap__policy="none"), fix=BLOCK, live=wrapped, **GATHER)
kind("gather-root-fsdp1", "all_gather_or_bucket", few_tokens(qwen3, devices=64, engine="fsdp1", wrap__policy="none"), fix=BLOCK, live=wrapped, **GATHER)
kind("gather-never-resharded", "all_gather_or_bucket",
     few_tokens(llama, devices=64, engine="fsdp2", parallel__reshard_after_forward="never"), fix={"parallel.reshard_after_forward": "always"}, **GATHER)
SMALL = {"buckets.reduce": 20_000_000, "buckets.gather": 20_000_000}
for stage in (1, 2):
    kind(f"bucket-zero{stage}", "all_gather_or_bucket",
         few_tokens(llama, layers=(2, 4), devices=8, engine="deepspeed", parallel__zero_stage=stage, buckets__reduce=500_000_000,
                    buckets__gather=500_000_000), fix=SMALL, window=PASS, log="engine")
kind("gather-zero3", "all_gather_or_bucket",
     few_tokens(llama, devices=64, engine="deepspeed", parallel__zero_stage=3, buckets__prefetch=1_000_000_000, buckets__reduce=20_000_000),
     fix={"buckets.prefetch": 10_000_000, "buckets.live": 10_000_000, "buckets.reuse": 0}, window=PASS, log="engine")
