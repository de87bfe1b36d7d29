"""Deaths of what forward keeps: activations, logits, attention written out, the longest batch."""

import training
import zero
from cases import changed
from deaths.kind import bert, gpt2, kind, llama, qwen3, run_of, train
from training import value

FULL = {"recompute.mode": "full"}
MOSTLY = {"activations": 0.45}
PASS = ("forward", "backward")


def many_tokens(random, most=16384):
    length = random.choice((1024, 2048, 4096))
    return length, max(1, random.randint(most // 2, most) // length)


def with_tokens(shape, vocabulary, most=16384, short=None, **run):
    def draw(random):
        length, batch = many_tokens(random, most)
        if short:
            length, batch = short, max(1, length * batch // short)
        return run_of(shape(random, vocabulary=vocabulary), length, batch, **run)
    return draw


SMALL = (4000, 8000)
for name, shape, run in (
        ("llama-alone", llama, {}), ("gpt2-autocast", gpt2, {"training__precision": "bf16-autocast"}),
        ("qwen3-ddp", qwen3, {"devices": 8}), ("llama-fsdp2", llama, {"devices": 8, "engine": "fsdp2"}),
        ("llama-fsdp1", llama, {"devices": 2, "engine": "fsdp1"}),
        ("gpt2-zero2", gpt2, {"devices": 8, "engine": "deepspeed", "parallel__zero_stage": 2, "buckets__reduce": 50_000_000,
                              "buckets__gather": 50_000_000}),
        ("llama-zero3", llama, {"devices": 64, "engine": "deepspeed", "parallel__zero_stage": 3}),
        ("bert-alone", bert, {})):
    kind(f"activations-{name}", "activations", with_tokens(shape, SMALL, short=512 if shape is bert else None, **run), fix=FULL,
         window=PASS, least=MOSTLY, log="engine" if "zero" in name else "torchtitan" if "fsdp2" in name else "plain",
         observer=name in ("llama-alone", "llama-fsdp2", "gpt2-zero2", "bert-alone"), from_text=("longest_batch",))


def half_batch(run):
    return {"training.micro_batch": value(run, "training.micro_batch") // 2}


def large_vocabulary(shape, vocabulary, layers=(1, 2), most=16384, short=None, **run):
    def draw(random):
        length, batch = many_tokens(random, most)
        if short:
            length, batch = short, max(2, length * batch // short)
        return run_of(shape(random, vocabulary=vocabulary, layers=layers, hidden=(512, 768, 1024)), length, max(2, batch), **run)
    return draw


LARGE = (128256, 151936, 256000)
for name, shape, run in (
        ("llama-alone", llama, {}), ("qwen3-ddp", qwen3, {"devices": 8}), ("llama-fsdp2", llama, {"devices": 8, "engine": "fsdp2"}),
        ("llama-zero1", llama, {"devices": 8, "engine": "deepspeed", "parallel__zero_stage": 1, "buckets__reduce": 50_000_000,
                                "buckets__gather": 50_000_000}),
        ("gpt2-autocast", gpt2, {"training__precision": "bf16-autocast"}), ("bert-alone", bert, {}),
        ("qwen3-fsdp1", qwen3, {"devices": 64, "engine": "fsdp1"}), ("llama-fp32", llama, {"training__precision": "fp32",
                                                                                         "training__attention": "efficient"})):
    kind(f"logits-{name}", "logits", large_vocabulary(shape, LARGE, short=512 if shape is bert else None, **run), fix=half_batch,
         window=PASS, from_text=("activations",), log="engine" if "zero" in name else "torchtitan" if "fsdp2" in name else "trainer",
         observer="alone" in name or "zero" in name)


def written_out(shape, lengths=(2048, 3072, 4096), most=1, **run):
    def draw(random):
        return run_of(shape(random, vocabulary=SMALL, layers=(2, 5)), random.choice(lengths), random.randint(1, most),
                      training__attention="eager", **run)
    return draw


for name, shape, run in (
        ("llama-alone", llama, {}), ("gpt2-alone", gpt2, {}), ("bert-ddp", bert, {"devices": 2}),
        ("llama-fsdp2", llama, {"devices": 8, "engine": "fsdp2"}), ("gpt2-autocast", gpt2, {"training__precision": "bf16-autocast"}),
        ("qwen3-zero2", qwen3, {"devices": 8, "engine": "deepspeed", "parallel__zero_stage": 2, "buckets__reduce": 50_000_000,
                                "buckets__gather": 50_000_000})):
    kind(f"attention-{name}", "attention_scores", written_out(shape, **run), fix={"training.attention": "flash"}, window=PASS,
         least={"activations": 0.4}, from_text=("activations",), log="engine" if "zero" in name else "trainer",
         observer=name in ("llama-alone", "bert-ddp", "llama-fsdp2"))


# ---- one batch is longer than the others -------------------------------------------------------------------------------------

def of_lengths(module, life, lengths):
    """Batches of the lengths of a data set, one after the other. The log says how many tokens there were."""
    make = training.batch

    def batch(run, config):
        length = lengths[min(life.step, len(lengths)) - 1]
        life.log.tokens = length * value(run, "training.micro_batch")
        return make({**run, "training": {**run["training"], "sequence_length": length}}, config)
    module.batch = batch


def longest(life, run, wrong):
    lengths = run["_lengths"]
    for module in (training, zero):
        of_lengths(module, life, lengths if wrong else [min(each, value(run, "_cap")) for each in lengths])
    train(life, run, wrong)


def varied(shape, most=4096, **run):
    def draw(random):
        longest_length = random.randint(most // 2, most) // 8 * 8
        usual = longest_length // random.choice((3, 4, 5))
        lengths = [random.randint(usual // 2, usual) // 8 * 8 for _ in range(random.randint(4, 7))]
        at = random.randint(3, len(lengths) - 1)
        made = run_of(shape(random, vocabulary=(8000, 16000, 32000)), longest_length, random.choice((2, 4)), **run)
        return {**made, "_lengths": [*lengths[:at], longest_length, *lengths[at:]], "_cap": usual, "_at": at + 1}
    return draw


for name, shape, run in (("llama-alone", llama, {}), ("gpt2-autocast", gpt2, {"training__precision": "bf16-autocast"}),
                         ("qwen3-fsdp2", qwen3, {"devices": 8, "engine": "fsdp2"}),
                         ("llama-zero2", llama, {"devices": 8, "engine": "deepspeed", "parallel__zero_stage": 2,
                                                 "buckets__reduce": 50_000_000, "buckets__gather": 50_000_000}),
                         ("bert-ddp", bert, {"devices": 2})):
    kind(f"longest-{name}", "longest_batch", varied(shape, **run), fix={}, live=longest, window=PASS, from_step=2, steps=9,
         from_text=("activations", "logits"), log="engine" if "zero" in name else "plain", observer=name != "gpt2-autocast")


# ---- a setting that the run file has and the script has not ------------------------------------------------------------------

def not_recomputed(life, run, wrong):
    """The run asks for checkpoints, the script never switches them on."""
    if wrong:
        import data_parallel
        training.recompute = data_parallel.recompute = zero.recompute = lambda *words: None
    train(life, run, wrong)


def other_than_said(changes):
    def live(life, run, wrong):
        if wrong and changes == "no adapter":
            run = {name: table for name, table in run.items() if name != "adapter"}
        elif wrong:
            run = changed(run, changes)
        train(life, run, wrong)
    return live


IGNORED = dict(window=(*PASS, "optimizer"), from_text=("activations", "attention_scores", "gradients", "optimizer_state_first_step", "longest_batch"))
kind("ignored-recompute-alone", "setting_ignored", with_tokens(llama, SMALL, recompute__mode="full"), live=not_recomputed, **IGNORED)
kind("ignored-recompute-fsdp2", "setting_ignored", with_tokens(qwen3, SMALL, recompute__mode="full", devices=8, engine="fsdp2"),
     live=not_recomputed, **IGNORED, log="torchtitan")
kind("ignored-recompute-zero2", "setting_ignored",
     with_tokens(llama, SMALL, recompute__mode="full", devices=8, engine="deepspeed", parallel__zero_stage=2, buckets__reduce=50_000_000,
                 buckets__gather=50_000_000), live=not_recomputed, **IGNORED, log="engine")
kind("ignored-flash", "setting_ignored", with_tokens(gpt2, SMALL, most=4096), live=other_than_said({"training.attention": "eager"}), **IGNORED)
kind("ignored-bf16", "setting_ignored", with_tokens(llama, SMALL, most=4096),
     live=other_than_said({"training.precision": "fp32", "training.attention": "efficient"}), **IGNORED)
kind("ignored-lora", "setting_ignored", with_tokens(llama, SMALL, most=1024, short=256, adapter__method="lora", adapter__rank=8),
     live=other_than_said("no adapter"), **IGNORED)
kind("ignored-accumulation", "setting_ignored", with_tokens(qwen3, SMALL, most=2048, short=512, training__gradient_accumulation=8),
     live=lambda life, run, wrong: other_than_said({"training.micro_batch": 8 * value(run, "training.micro_batch"),
                                                    "training.gradient_accumulation": 1})(life, run, wrong), **IGNORED)
