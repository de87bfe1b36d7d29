"""What a kind of death is: a script with a cause planted in it, and sizes drawn at random for each death of the kind.

    Kind("attention-scores-gpt2-eager", "attention_scores", draw, fix={"training.attention": "flash"}, ...)

`draw(random)` makes the run, as its run file says it. `live(life, run, wrong)` is the script; with `wrong` it has the planted error,
without it is what the run file says. The truth of a death is held to three runs: the wrong one on a device without end (what each
allocation was), the right one (`fix`, not `wrong`) on the same device, where it must fit, and the death itself, which must come in
the phase that the kind names. Nothing of what a reader of the evidence concludes goes into it.
"""

import copy
import dataclasses
import hashlib
from typing import Callable

import training
from cases import changed, model

UNTIED = {"tie_word_embeddings": False}


def train(life, run, wrong):
    training.train_one(life, run, run.get("_stage", 0))


@dataclasses.dataclass
class Kind:
    name: str
    category: str
    draw: Callable
    fix: object = dataclasses.field(default_factory=dict)  # keys of the run, or a function of the run that returns them
    live: Callable = train
    window: tuple = ()          # phases in which it dies; empty: anywhere
    from_step: int = 1
    steps: int = 3
    also: tuple = ()            # categories that are as right
    from_text: tuple = ()       # right where the text stands alone, without a configuration or a snapshot
    observer: bool = True       # the snapshot comes from an OOM observer; else from the except block
    log: str = "plain"
    ends: str = "memory"        # or "lives", "other": no death of memory
    environment: dict = dataclasses.field(default_factory=dict)
    share: tuple = (0.25, 0.85)  # how far between what the right run needs and what the wrong one does the device ends
    least: dict = dataclasses.field(default_factory=dict)  # class -> the share of what is alive that it must be
    failing: tuple = ()         # classes of the allocation that fails; empty: any
    marked: Callable = None     # names classes that lifetimes cannot tell

    def fixed(self, run):
        changes = self.fix(run) if callable(self.fix) else self.fix
        return changed(run, changes), changes


KINDS = {}


def kind(name, category, draw, **more):
    assert name not in KINDS, name
    KINDS[name] = Kind(name, category, draw, **more)


def half_of(name, kinds):
    """Which half a kind belongs to: of the kinds of a category, in the order of their names' sha256, every second one is for the test."""
    same = sorted((k.name for k in kinds.values() if k.category == kinds[name].category),
                  key=lambda each: hashlib.sha256(each.encode()).hexdigest())
    return ("development", "test")[same.index(name) % 2]


# ---- shapes ------------------------------------------------------------------------------------------------------------------

def llama(random, vocabulary=(8000, 16000, 32000), hidden=(1024, 1536, 2048, 2560), layers=(4, 8), **more):
    width = random.choice(hidden)
    heads = width // 64
    return model("llama-3.2-1b", hidden_size=width, intermediate_size=random.choice((2, 3, 4)) * width, num_attention_heads=heads,
                 num_key_value_heads=random.choice((heads, max(1, heads // 4))) if heads % 4 == 0 else heads,
                 num_hidden_layers=random.randint(*layers), vocab_size=random.choice(vocabulary), **{**UNTIED, **more})


def gpt2(random, hidden=(768, 1024, 1280, 1600), layers=(4, 8), vocabulary=(50257,), positions=4096, **more):
    width = random.choice(hidden)
    return model("gpt2", n_embd=width, n_head=width // 64, n_layer=random.randint(*layers), n_positions=positions, n_ctx=positions,
                 vocab_size=random.choice(vocabulary), **more)


def qwen3(random, vocabulary=(16000, 32000), layers=(4, 8), hidden=(1024, 1536, 2048), **more):
    width = random.choice(hidden)
    return model("qwen3-0.6b", hidden_size=width, intermediate_size=3 * width, num_hidden_layers=random.randint(*layers),
                 vocab_size=random.choice(vocabulary), **{**UNTIED, **more})


def bert(random, layers=(4, 8), hidden=(768, 1024, 1280), vocabulary=(30522,)):
    width = random.choice(hidden)
    return model("bert-base-uncased", hidden_size=width, intermediate_size=4 * width, num_attention_heads=width // 64,
                 num_hidden_layers=random.randint(*layers), vocab_size=random.choice(vocabulary), max_position_embeddings=4096)


def mixtral(random, layers=(2, 4), hidden=(1024, 1536), vocabulary=(8000, 32000)):
    width = random.choice(hidden)
    return model("mixtral-8x7b", hidden_size=width, intermediate_size=2 * width, num_attention_heads=width // 64,
                 num_key_value_heads=width // 256, num_hidden_layers=random.randint(*layers), vocab_size=random.choice(vocabulary))


def run_of(config, length, batch, devices=1, engine=None, **changes):
    """A run file. `changes`: keys of it, a dot written as two underscores."""
    run = {"model": config, "cluster": {"device": "h200-sxm", "devices": devices}, "engine": engine or "ddp",
           "implementation": "transformers",
           "training": {"sequence_length": length, "micro_batch": batch, "precision": "bf16-pure", "optimizer": "adamw",
                        "optimizer_form": "foreach", "attention": "flash"}}
    if engine in ("fsdp1", "fsdp2", "deepspeed"):
        run["training"]["precision"] = "bf16-mixed"
    if engine == "deepspeed":
        run["training"]["optimizer_form"] = "fused"
    if engine == "megatron":
        run["implementation"] = "megatron"
        run["training"].update(precision="bf16-mixed-fp32-gradients", attention="eager", kernels="local", gradient_accumulation=2)
    return changed(run, {key.replace("__", "."): value for key, value in changes.items()})


def copied(run):
    return copy.deepcopy(run)
