"""Deaths of the loop around the step: what is kept from step to step, evaluation, saving, pieces, experts, stages."""

import collections
import random as of_python

import torch
import training
import zero
from deaths.kind import gpt2, kind, llama, mixtral, qwen3, run_of, train
from training import loss_of, value

PASS = ("forward", "backward")
TRAINS = (*PASS, "optimizer")
SMALL = (4000, 8000)
SMALL_BUCKETS = {"buckets__reduce": 50_000_000, "buckets__gather": 50_000_000}


def few(shape, most=2048, **run):
    def draw(random):
        length = random.choice((256, 512, 1024))
        settings = dict(run)
        vocabulary = settings.pop("vocabulary", SMALL)
        return run_of(shape(random, vocabulary=vocabulary, layers=(3, 6)), length, max(1, random.randint(most // 2, most) // length), **settings)
    return draw


# ---- kept from step to step --------------------------------------------------------------------------------------------------

def with_loss(function):
    """The script's own loss in place of training.py's."""
    training.loss_of = zero.loss_of = function


def losses_in_a_list(life, run, wrong):
    """The loss of another batch is watched beside the training, and kept with its graph: nobody runs backward on it."""
    watched = []

    def step(model, ids, labels):
        loss = loss_of(model, ids, labels)
        other = loss_of(model, ids[:1], labels[:1])
        watched.append(other if wrong else other.item())
        return loss
    with_loss(step)
    train(life, run, wrong)


def running_sum(life, run, wrong):
    """backward(retain_graph=True), and the sum of all losses keeps every step's graph."""
    total = [torch.zeros((), device="cuda")]
    backward = torch.Tensor.backward

    def step(model, ids, labels):
        loss = loss_of(model, ids, labels)
        total[0] = total[0] + (loss if wrong else loss.detach())
        return loss
    if wrong:
        torch.Tensor.backward = lambda self, *words, **named: backward(self, *words, **{**named, "retain_graph": True})
    with_loss(step)
    train(life, run, wrong)


def outputs_in_a_list(life, run, wrong):
    """Predictions are kept on the device for a metric that is computed at the end."""
    predictions = []

    def step(model, ids, labels):
        output = model(input_ids=ids, labels=labels)
        predictions.append(output.logits.detach() if wrong else output.logits.argmax(-1).cpu())
        if wrong:
            life.kept = [("kept_by_the_script", predictions)]
        return output.loss
    with_loss(step)
    train(life, run, wrong)


def hidden_states_in_a_hook(life, run, wrong):
    captured = []

    def step(model, ids, labels):
        if not captured:
            captured.append(None)
            for layer in training.layers_of(model):
                layer.register_forward_hook(lambda module, given, output: captured.append(output) if wrong else None)
        return loss_of(model, ids, labels)
    with_loss(step)
    train(life, run, wrong)


LEAK = dict(window=TRAINS, from_step=3, steps=12, share=(0.2, 0.8))
kind("leak-losses-llama", "leak_or_kept_graph", few(llama), live=losses_in_a_list, **LEAK)
kind("leak-losses-ddp", "leak_or_kept_graph", few(gpt2, devices=8), live=losses_in_a_list, **LEAK, observer=False)
kind("leak-sum-qwen3", "leak_or_kept_graph", few(qwen3), live=running_sum, **LEAK, log="trainer")
kind("leak-outputs-fsdp2", "leak_or_kept_graph", few(llama, devices=8, engine="fsdp2", vocabulary=(32000,)), live=outputs_in_a_list, **LEAK, log="torchtitan")
kind("leak-outputs-gpt2", "leak_or_kept_graph", few(gpt2, vocabulary=(50257,)), live=outputs_in_a_list, **LEAK)
kind("leak-hook-llama", "leak_or_kept_graph", few(llama), live=hidden_states_in_a_hook, **LEAK, observer=False)
kind("leak-hook-zero2", "leak_or_kept_graph", few(llama, devices=8, engine="deepspeed", parallel__zero_stage=2, **SMALL_BUCKETS),
     live=hidden_states_in_a_hook, **LEAK, log="engine")


# ---- evaluation, generation --------------------------------------------------------------------------------------------------

def evaluating(work):
    """After the second step the model is evaluated by `work(model, run, life, wrong)`."""
    def live(life, run, wrong):
        def between(step):
            if step == 2:
                model = getattr(life.models[0], "module", life.models[0])
                model.eval()
                with life.phase("evaluation"), training.attention_kernel(run), training.autocast(run):
                    work(model, run, life, wrong)
                model.train()
        life.between = between
        train(life, run, wrong)
    return live


@torch.no_grad()
def generate(model, run, life, wrong):
    """Prompts are read in pieces, then a few tokens are written; keys and values stay in the cache."""
    from transformers import DynamicCache
    cache = DynamicCache(config=model.config)
    batch, piece = (64 if wrong else 2), 128
    for at in range(0, 1536, piece):
        ids = torch.zeros(batch, piece, dtype=torch.int64, device="cuda")
        model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        life.kept = [("cache", [t for layer in cache.layers for t in (layer.keys, layer.values)])]
    for _ in range(4):
        model(input_ids=ids[:, :1], past_key_values=cache, use_cache=True, logits_to_keep=1)
    life.kept = []


@torch.no_grad()
def gather_predictions(model, run, life, wrong):
    """As an evaluation loop that keeps the logits of all batches on the device until its end."""
    found = []
    for _ in range(24):
        ids, labels = training.batch(run, model.config)
        output = model(input_ids=ids, labels=labels)
        found.append(output.logits if wrong else output.logits.argmax(-1))
        life.kept = [("kept_by_the_script", found if wrong else [])]
        del output
    life.kept = []


def with_graph(model, run, life, wrong):
    """A larger batch, and nobody says no_grad."""
    times = 6 if wrong else 1
    ids, labels = training.batch({**run, "training": {**run["training"], "micro_batch": times * value(run, "training.micro_batch")}}, model.config)
    loss = loss_of(model, ids, labels)
    del loss


def evaluation_classes(life):
    for storage in life.storages:
        if life.phases[storage.phase].name == "evaluation" and storage.pile in ("", "temporary"):
            storage.pile = "cache"


def own_keys(shape):
    """Every head has its keys: the kernels that take a mask know no grouped heads."""
    def config(random, **how):
        found = shape(random, **how)
        return {**found, "num_key_value_heads": found["num_attention_heads"]}
    return config


EVALUATION = dict(window=("evaluation",), share=(0.3, 0.9), marked=evaluation_classes)
kind("evaluation-cache-llama", "evaluation_or_generation_cache", few(own_keys(llama), most=1024, training__attention="efficient"), live=evaluating(generate), **EVALUATION)
kind("evaluation-cache-ddp", "evaluation_or_generation_cache", few(own_keys(qwen3), most=1024, devices=8, training__attention="efficient"), live=evaluating(generate), **EVALUATION)
kind("evaluation-logits-gpt2", "evaluation_or_generation_cache", few(gpt2, vocabulary=(50257,)), live=evaluating(gather_predictions), **EVALUATION,
     from_text=("logits", "leak_or_kept_graph"))
kind("evaluation-logits-fsdp2", "evaluation_or_generation_cache", few(llama, vocabulary=(32000,), devices=8, engine="fsdp2"),
     live=evaluating(gather_predictions), **EVALUATION, log="torchtitan", from_text=("logits", "leak_or_kept_graph"))
kind("evaluation-graph-llama", "evaluation_or_generation_cache", few(llama), live=evaluating(with_graph), **EVALUATION,
     from_text=("activations", "longest_batch"), also=("longest_batch",))


# ---- saving ------------------------------------------------------------------------------------------------------------------

def saving(work):
    """After the second step the checkpoint is written by `work`."""
    def live(life, run, wrong):
        def between(step):
            if step == 2 and wrong:
                with life.phase("checkpoint"):
                    work(life.models[0], life)
        life.between = between
        train(life, run, wrong)
    return live


def full_tensors(model, life):
    state = {name: p.full_tensor() for name, p in model.state_dict().items() if hasattr(p, "full_tensor")}
    torch.cuda.synchronize()
    del state


def full_state_of_fsdp1(model, life):
    from torch.distributed.fsdp import FullyShardedDataParallel
    with FullyShardedDataParallel.summon_full_params(model, writeback=False):
        state = {name: p.detach().clone() for name, p in model.named_parameters()}
    del state


def gathered_by_zero3(model, life):
    import deepspeed
    with deepspeed.zero.GatheredParameters(list(model.parameters())):
        state = {name: p.detach().clone() for name, p in model.named_parameters()}
    del state


def states_of(shape, **run):
    def draw(random):
        return run_of(shape(random, vocabulary=(16000, 32000), layers=(8, 12), hidden=(1536, 2048)), 128, 1, **run)
    return draw


SAVING = dict(window=("checkpoint",), share=(0.3, 0.9))
kind("saving-fsdp2", "full_checkpoint_on_rank0", states_of(llama, devices=64, engine="fsdp2"), live=saving(full_tensors), **SAVING, log="torchtitan")
kind("saving-qwen3-fsdp2", "full_checkpoint_on_rank0", states_of(qwen3, devices=8, engine="fsdp2"), live=saving(full_tensors), **SAVING)
kind("saving-fsdp1", "full_checkpoint_on_rank0", states_of(llama, devices=8, engine="fsdp1"), live=saving(full_state_of_fsdp1), **SAVING)
kind("saving-zero3", "full_checkpoint_on_rank0", states_of(llama, devices=64, engine="deepspeed", parallel__zero_stage=3, buckets__reduce=20_000_000,
                                                           buckets__prefetch=10_000_000, buckets__live=10_000_000),
     live=saving(gathered_by_zero3), **SAVING, log="engine")


# ---- quantised weights made wide again ---------------------------------------------------------------------------------------

def merging(life, run, wrong):
    """After the second step the quantised base is made 16 bits wide, to merge the adapter into it."""
    def between(step):
        if step == 2 and wrong:
            import bitsandbytes.functional as functional
            with life.phase("merge"), torch.no_grad():
                merged = {}
                for name, module in life.models[0].named_modules():
                    weight = getattr(module, "weight", None)
                    if hasattr(weight, "quant_state"):
                        merged[name] = functional.dequantize_4bit(weight.data, weight.quant_state)
                        life.kept = [("dequantised", list(merged.values()))]
    life.between = between
    train(life, run, wrong)


def quantised(shape, **run):
    def draw(random):
        return run_of(shape(random, vocabulary=(8000,), layers=(8, 12), hidden=(2048,)), 256, 1, adapter__method="lora", adapter__rank=8,
                      adapter__base="nf4", training__precision="bf16-autocast", **run)
    return draw


def widened(life):
    for storage in life.storages:
        if life.phases[storage.phase].name in ("merge",) and storage.pile in ("", "temporary"):
            storage.pile = "dequantised"


MERGE = dict(live=merging, window=("merge",), share=(0.3, 0.9), marked=widened)
kind("dequantised-llama", "quantization_dequant", quantised(llama), **MERGE)
kind("dequantised-qwen3", "quantization_dequant", quantised(qwen3), **MERGE)
kind("dequantised-ddp", "quantization_dequant", quantised(llama, devices=2), **MERGE, observer=False)


# ---- pieces ------------------------------------------------------------------------------------------------------------------

def in_pieces(life, run, wrong):
    """Batches of many lengths, and features of the last ones in a buffer on the device: blocks of many sizes live side by side."""
    draw = of_python.Random(run["_seed"])
    make = training.batch

    def batch(run, config):
        length = draw.randrange(128, value(run, "training.sequence_length"), 8)
        life.log.tokens = length * value(run, "training.micro_batch")
        return make({**run, "training": {**run["training"], "sequence_length": length}}, config)
    training.batch = batch
    buffer = collections.deque(maxlen=run["_kept"])

    def step(model, ids, labels):
        output = model(input_ids=ids, labels=labels, output_hidden_states=True)
        buffer.append([each.detach().clone() for each in output.hidden_states[-2:]])
        life.kept = [("kept_by_the_script", [t for each in buffer for t in each])]
        return output.loss
    with_loss(step)
    train(life, run, wrong)


def pieces(shape, **run):
    def draw(random):
        made = run_of(shape(random, vocabulary=SMALL, layers=(3, 6)), random.choice((2048, 3072, 4096)), random.choice((1, 2, 4)), **run)
        return {**made, "_seed": random.getrandbits(30), "_kept": random.randint(6, 16)}
    return draw


PIECES = dict(live=in_pieces, fix={"_allocator": "expandable_segments:True"}, steps=30, from_step=2)
for name, shape, run in (("llama", llama, {}), ("gpt2", gpt2, {}), ("qwen3-autocast", qwen3, {"training__precision": "bf16-autocast"}),
                         ("llama-fp32", llama, {"training__precision": "fp32", "training__attention": "efficient"})):
    kind(f"pieces-{name}", "fragmentation", pieces(shape, **run), **PIECES)


# ---- experts -----------------------------------------------------------------------------------------------------------------

class Experts(torch.nn.Module):
    """A layer of experts over eight ranks: tokens travel to the ranks of their experts and back."""

    def __init__(self, width, inner, ranks, received):
        super().__init__()
        self.ranks, self.received = ranks, received
        self.router = torch.nn.Linear(width, ranks, bias=False)
        self.gate, self.up = torch.nn.Linear(width, inner, bias=False), torch.nn.Linear(width, inner, bias=False)
        self.down = torch.nn.Linear(inner, width, bias=False)

    def forward(self, x):
        from torch.distributed.nn.functional import all_to_all_single
        tokens = x.shape[0]
        here = self.received(tokens)
        self.router(x).softmax(-1)
        sent, got = split(tokens, self.ranks), split(here, self.ranks)
        inside = all_to_all_single(x.new_empty(here, x.shape[1]), x, got, sent)
        done = self.down(torch.nn.functional.silu(self.gate(inside)) * self.up(inside))
        return x + all_to_all_single(x.new_empty(tokens, x.shape[1]), done, sent, got)


def split(count, ranks):
    return [count // ranks + (index < count % ranks) for index in range(ranks)]


def experts(life, run, wrong):
    """A small model of experts, one on each rank. A router that has not learnt to balance sends most tokens to this rank's."""
    from ranks import join
    dist = join(value(run, "cluster.devices"))
    model, load = run["model"], run["_load"]

    def received(tokens):
        share = load[min(life.step, len(load)) - 1] if wrong else 1.0
        return int(tokens * share)
    with life.phase("load"):
        layers = torch.nn.Sequential(torch.nn.Embedding(model["vocab_size"], model["hidden_size"]),
                                     *(Experts(model["hidden_size"], model["intermediate_size"], value(run, "cluster.devices"), received)
                                       for _ in range(model["num_hidden_layers"])),
                                     torch.nn.Linear(model["hidden_size"], model["vocab_size"], bias=False)).to("cuda", torch.bfloat16)
        life.models = [layers]
    optimizer = training.build_optimizer(run, layers.parameters())
    for step in life.steps(layers, optimizer):
        share = load[min(step, len(load)) - 1] if wrong else 1.0
        life.log.say(f"[rank0] moe: tokens per expert max/mean {share:.2f}, here {int(share * value(run, 'training.sequence_length') * value(run, 'training.micro_batch'))}")
        with life.phase("forward"):
            ids, labels = training.batch(run, None)
            life.inputs = [ids, labels]
            loss = torch.nn.functional.cross_entropy(layers(ids.flatten()), labels.flatten())
        with life.phase("backward"):
            loss.backward()
            del loss, ids, labels
            life.inputs = []
        with life.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
    dist.destroy_process_group()


def routed(sudden):
    def draw(random):
        worst = random.uniform(3.0, 6.0)
        steps = random.randint(4, 7)
        load = [1.0 + random.uniform(-0.1, 0.2) + (0 if sudden else (worst - 1) * at / steps) for at in range(steps)] + [worst]
        run = run_of(mixtral(random, vocabulary=(8000,)), 1024, random.choice((4, 8)), devices=8, engine="megatron", parallel__expert=8,
                     training__optimizer_form="fused", training__precision="bf16-mixed", training__gradient_accumulation=1)
        return {**run, "_load": load}
    return draw


ROUTED = dict(live=experts, window=PASS, from_step=2, steps=9, from_text=("activations",))
kind("experts-sudden", "moe_imbalance", routed(True), **ROUTED, also=("longest_batch",))
kind("experts-growing", "moe_imbalance", routed(False), **ROUTED)


# ---- stages ------------------------------------------------------------------------------------------------------------------

def stages(count, batches, engine="fsdp2", **run):
    def draw(random):
        config = llama(random, vocabulary=SMALL, layers=(count, count), hidden=(1024, 1536, 2048))
        config["num_hidden_layers"] = count * random.choice((1, 2))
        made = run_of(config, random.choice((512, 1024, 2048) if engine == "fsdp2" else (256, 512)), random.choice((1, 2, 4) if engine == "fsdp2" else (1, 2)), devices=count, engine=engine, parallel__pipeline=count,
                      **({"parallel__schedule": "1f1b", "training__precision": "bf16-pure",
                          "parallel__pipeline_layout": [config["num_hidden_layers"] // count] * count} if engine == "fsdp2" else {}), **run)
        made["training"]["gradient_accumulation"] = batches * count
        return {**made, "_stages": list(range(count))}
    return draw


STAGES = dict(fix=lambda run: {"_stage": value(run, "parallel.pipeline") - 1}, window=("backward",), from_text=("activations",))
kind("stages-4", "pipeline_first_stage", stages(4, 2), **STAGES, log="megatron")
kind("stages-2", "pipeline_first_stage", stages(2, 4), **STAGES, log="megatron")
kind("stages-megatron", "pipeline_first_stage", stages(4, 2, engine="megatron"), **STAGES, log="megatron")
