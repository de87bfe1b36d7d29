"""Runs drawn at random from everything that is recorded on one device or on ranks that are not there, and their simpler neighbours.

A draw is made key by key: family and layers, shapes, precision, kernel, recomputation, optimizer and form, engine and ranks,
adapters. What cannot stand together (flash attention in fp32, a pipeline of a tied model) is not drawn; what our program refuses
by name is counted apart. The same seed and number give the same run, whatever was drawn before.
"""

import copy
import random

from cases import FAMILIES, MANY, NO_FLASH, ONE_DEVICE, SHORT, TARGET, changed

P, A, O, F = "training.precision", "training.attention", "training.optimizer", "training.optimizer_form"
# Families whose every layer, length and engine a draw may change; the others need a length or images of their own.
ENCODERS = ("bert-base",)
DECODERS = tuple(name for name in FAMILIES if name not in SHORT and name not in ("glm-4.7-flash", "qwen3.5-35b-a3b", "qwen3-next-80b-a3b")) + ("gpt2",)
TWO_STACKS = ("t5-small", "t5-v1_1-base")
DEPTHS = ("num_hidden_layers", "n_layer")
EXPERTS = ("mixtral", "qwen3-30b-a3b", "olmoe-1b-7b", "deepseek-v2-lite", "gpt-oss-20b", "minimax-m2", "dots.llm1")


def name_of_draw(seed, number):
    return f"random-{seed}-{number}"


def draw(seed, number):
    """Run `number` of `seed`."""
    dice = random.Random(f"{seed} {number}")
    family = dice.choices([dice.choice(DECODERS), "llama", dice.choice(ENCODERS), dice.choice(TWO_STACKS)], (62, 26, 6, 6))[0]
    run = copy.deepcopy(ONE_DEVICE)
    changes = {}
    if family != "llama":
        changes["model"] = copy.deepcopy(FAMILIES[family])
        changes[A] = NO_FLASH.get(family, "flash")
    run = changed(run, changes)
    shape(dice, family, run)
    engine = choose_engine(dice, family, run)
    choose_precision(dice, family, run, engine)
    choose_step(dice, family, run, engine)
    choose_recomputation(dice, family, run)
    if dice.random() < 0.2 and family not in ENCODERS + TWO_STACKS and engine not in ("pipeline", "tensor", "fsdp1"):
        choose_adapter(dice, run, engine)
    return run


def shape(dice, family, run):
    model, training = run["model"], run["training"]
    longest = 512 if family in ENCODERS else 1024 if family == "gpt2" else 2048
    training["sequence_length"] = dice.choice([n for n in (64, 128, 250, 333, 512, 777, 1000, 1024, 1536, 2048) if n <= longest])
    training["micro_batch"] = dice.choice((1, 1, 2, 3, 4)) * (2 if family in MANY else 1)
    if family in TARGET:
        training["target_sequence_length"] = dice.choice((64, 114, 128))
    if dice.random() < 0.4 and model["model_type"] != "phi3":  # whose padding is its last word
        model["vocab_size"] = dice.choice((8000, 15001, 32003))
    if family not in TWO_STACKS and "layer_types" not in model and not model.get("first_k_dense_replace"):
        depth = next(key for key in DEPTHS if key in model)
        model[depth] = dice.randint(1, 2 if family in EXPERTS else 5)
    if family == "llama" and dice.random() < 0.4:
        model["num_key_value_heads"] = dice.choice((1, 2, 32))
    if family == "llama" and dice.random() < 0.3:
        model["tie_word_embeddings"] = False
    if dice.random() < 0.3:
        training["gradient_accumulation"] = dice.choice((2, 3, 4))


def choose_engine(dice, family, run):
    many = dice.choice((2, 3, 8, 16, 64))
    kinds = {"alone": 45, "ddp": 10, "fsdp2": 22, "fsdp1": 8, "pipeline": 8 if family == "llama" else 0,
             "tensor": 4 if family == "llama" else 0}
    engine = dice.choices(list(kinds), list(kinds.values()))[0]
    if engine == "ddp":
        run["cluster"]["devices"] = many
    elif engine in ("fsdp1", "fsdp2"):
        run["engine"] = engine
        run["cluster"]["devices"] = many
        if dice.random() < 0.3:
            run["parallel"] = {"zero_stage": 2}
    elif engine == "tensor":
        run["engine"] = "fsdp2"
        run["cluster"]["devices"] = 2
        run["parallel"] = {"tensor": 2}
        run["model"]["tie_word_embeddings"] = False
        run["model"].pop("num_key_value_heads", None)
        run["model"]["num_key_value_heads"] = 8
    elif engine == "pipeline":
        run["engine"] = "fsdp2"
        run["cluster"]["devices"] = 4
        run["model"].update(tie_word_embeddings=False, num_hidden_layers=4)
        run["parallel"] = {"pipeline": 2, "schedule": dice.choice(("1f1b", "gpipe")), "pipeline_layout": [2, 2]}
        run["training"].update(gradient_accumulation=4, micro_batch=1)
    return engine


def choose_precision(dice, family, run, engine):
    training = run["training"]
    if engine in ("fsdp1", "fsdp2", "pipeline"):
        training["precision"] = dice.choice(("bf16-mixed", "bf16-mixed", "bf16-mixed-fp32-gradients", "fp32"))
    elif engine == "tensor":
        training["precision"] = "bf16-pure"
    else:
        training["precision"] = dice.choice(("bf16-pure", "bf16-autocast", "fp32", "fp16-autocast"))
    eager_only = NO_FLASH.get(family) == "eager"
    kernel = training["attention"]
    if not eager_only and dice.random() < 0.35 and engine != "tensor":
        kernel = dice.choice(("eager", "efficient"))
    if training["precision"] == "fp32" and kernel == "flash":
        kernel = "efficient"
    training["attention"] = kernel


def choose_step(dice, family, run, engine):
    training = run["training"]
    name = dice.choices(("adamw", "adam", "sgd", "momentum", "adafactor"), (60, 8, 8, 8, 8 if engine in ("alone", "ddp") else 0))[0]
    training["optimizer"] = name
    training["optimizer_form"] = "loop" if name == "adafactor" else dice.choices(("foreach", "fused", "loop"), (50, 30, 20))[0]
    if training["optimizer_form"] == "fused" and name in ("sgd", "momentum") and engine in ("fsdp2", "tensor", "pipeline"):
        training["optimizer_form"] = "foreach"  # DTensor has none
    if dice.random() < 0.3 and engine not in ("pipeline", "tensor"):
        training["gradient_clip"] = True


def choose_recomputation(dice, family, run):
    mode = dice.choices(("none", "full", "every", "block"), (50, 30, 10, 10))[0]
    depth = next((run["model"][key] for key in DEPTHS if key in run["model"]), 3)
    if mode == "none" or (mode in ("every", "block") and depth < 3):
        return
    run["recompute"] = {"mode": mode}
    if mode == "every":
        run["recompute"]["every"] = dice.choice((2, 3))
    elif mode == "block":
        run["recompute"]["layers"] = 1


def choose_adapter(dice, run, engine):
    adapter = {"method": "lora", "rank": dice.choice((4, 8, 16, 64))}
    if run["training"]["precision"] == "fp32" or engine in ("fsdp1", "fsdp2") or run["model"]["model_type"] == "gpt2":
        pass  # adapters.quantise() leaves GPT-2's Conv1D as it is, and transformers does not
    elif dice.random() < 0.35:
        adapter["base"] = dice.choice(("nf4", "int8"))
        adapter["upcast"] = False
    if run.get("recompute"):
        run["recompute"]["reentrant"] = False
    run["adapter"] = adapter


# Simpler values, the most telling first: a difference that stays where one is taken did not need the other.
SIMPLER = (
    ("adapter", None), ("recompute", None), ("training.gradient_accumulation", None), ("training.gradient_clip", None), (F, "foreach"),
    (O, "adamw"), ("parallel.zero_stage", None), ("cluster.devices", 8), ("cluster.devices", 2), ("cluster.devices", 1), ("adapter.base", None),
    (P, "bf16-pure"), (P, "bf16-mixed"), (A, "flash"), (A, "efficient"), ("training.micro_batch", 1), ("training.micro_batch", 2),
    ("training.sequence_length", 1024), ("training.sequence_length", 512), ("model.vocab_size", 32000), ("model.num_hidden_layers", 1),
    ("model.num_hidden_layers", 2), ("model.n_layer", 1), ("model.n_layer", 2), ("model.num_key_value_heads", 8), ("recompute.mode", "full"),
    ("adapter.rank", 8),
)


def simpler(run):
    """Every neighbour of a run that is simpler in one key."""
    for at, (path, value) in enumerate(SIMPLER):
        *folders, key = path.split(".")
        neighbour = copy.deepcopy(run)
        table = neighbour
        for folder in folders:
            table = table.get(folder) if isinstance(table, dict) else None
        if not isinstance(table, dict) or key not in table or table[key] == value:
            continue
        before = [other for earlier, other in SIMPLER[:at] if earlier == path]
        if isinstance(value, str) and table[key] in before:
            continue  # simple enough, and back again would never end
        if value is None:
            del table[key]
        elif isinstance(value, int) and not isinstance(table[key], bool) and value > table[key] and path != "model.vocab_size":
            continue
        else:
            table[key] = value
        if path == "cluster.devices" and value == 1:
            if run["engine"] != "ddp":
                continue
        yield neighbour
