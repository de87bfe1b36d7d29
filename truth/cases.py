"""The campaign's cases, one table. A case is a name and a steelyard run file; names are file names under records/.

A block is a base, and rows that change keys of it: `"llama-fp32": {"training.precision": "fp32"}`. A new case is a new row.
"""

import copy
import json
from pathlib import Path

PRESETS = Path(__file__).resolve().parent.parent / "data" / "models"


def model(preset, **changes):
    """A preset's config.json with fewer layers, or other changes."""
    return {**json.loads((PRESETS / f"{preset}.json").read_text())["config"], **changes}


def text(preset, **changes):
    """The language model of a preset that has a tower of vision besides."""
    return {**model(preset)["text_config"], **changes}


def changed(run, changes):
    run = copy.deepcopy(run)
    for path, value in changes.items():
        *folders, key = path.split(".")
        table = run
        for folder in folders:
            table = table.setdefault(folder, {})
        table[key] = value
    return run


LLAMA = model("llama-3.2-1b", num_hidden_layers=4)

ONE_DEVICE = {
    "model": LLAMA,
    "cluster": {"device": "h200-sxm", "devices": 1},
    "engine": "ddp",
    "implementation": "transformers",
    "training": {"sequence_length": 1024, "micro_batch": 2, "precision": "bf16-pure", "optimizer": "adamw",
                 "optimizer_form": "foreach", "attention": "flash"},
}

V = "environment.transformers"
P, A, O, F = "training.precision", "training.attention", "training.optimizer", "training.optimizer_form"
FULL = {"recompute.mode": "full"}
FROZEN = {"training.frozen": ["model.embed_tokens.*", "model.layers.0.*", "model.layers.1.*"],
          "model.vocab_size": 8000, "model.tie_word_embeddings": False}
ONE_LAYER = {"model.num_layers": 1, "model.num_decoder_layers": 1}  # of T5: no layer is given another's positions
PLAIN_HEADS = {"model.num_key_value_heads": 32}

SINGLE = {
    "llama": {},
    # precision, attention, recompute
    "llama-fp32": {P: "fp32", A: "efficient"},
    "llama-fp32-eager": {P: "fp32", A: "eager"},
    "llama-tf32": {P: "tf32", A: "efficient"},
    "llama-autocast": {P: "bf16-autocast"},
    "llama-autocast-eager": {P: "bf16-autocast", A: "eager"},
    "llama-autocast-efficient": {P: "bf16-autocast", A: "efficient"},
    "llama-eager": {A: "eager"},
    "llama-efficient": {A: "efficient"},
    "llama-full": FULL,
    "llama-full-eager": {**FULL, A: "eager"},
    "llama-full-efficient": {**FULL, A: "efficient"},
    "llama-full-autocast": {**FULL, P: "bf16-autocast"},
    "llama-full-fp32": {**FULL, P: "fp32", A: "efficient"},
    "llama-full-reentrant": {**FULL, "recompute.reentrant": True},
    "llama-full-reentrant-autocast": {**FULL, "recompute.reentrant": True, P: "bf16-autocast"},
    # what older code of transformers moved and widened before the loss; recorded beside that version alone
    "llama-transformers-4.44-full": {**FULL, V: "4.44"},
    "llama-transformers-4.44-full-autocast": {**FULL, V: "4.44", P: "bf16-autocast"},
    "llama-transformers-4.44-full-one-sequence": {**FULL, V: "4.44", "training.micro_batch": 1},
    "llama-transformers-4.47-full": {**FULL, V: "4.47"},
    # the efficient kernel knows no grouped heads
    "llama-no-grouping-efficient": {**PLAIN_HEADS, A: "efficient"},
    "llama-no-grouping-fp32": {**PLAIN_HEADS, P: "fp32", A: "efficient"},
    "llama-no-grouping-fp32-full": {**PLAIN_HEADS, **FULL, P: "fp32", A: "efficient"},
    "llama-no-grouping-autocast-efficient": {**PLAIN_HEADS, P: "bf16-autocast", A: "efficient"},
    "llama-no-grouping-small-vocabulary-efficient": {**PLAIN_HEADS, "model.vocab_size": 8000, A: "efficient"},
    # shapes: where another phase or another tensor holds the peak
    "llama-long": {"training.sequence_length": 8192, "training.micro_batch": 1},
    "llama-long-full": {**FULL, "training.sequence_length": 8192, "training.micro_batch": 1},
    "llama-long-autocast": {"training.sequence_length": 8192, "training.micro_batch": 1, P: "bf16-autocast"},
    "llama-odd": {"training.sequence_length": 1000, "training.micro_batch": 3},
    "llama-short": {"training.sequence_length": 128, "training.micro_batch": 1},
    "llama-batch-8": {"training.micro_batch": 8},
    "llama-16-layers": {"model.num_hidden_layers": 16},
    "llama-16-layers-full": {**FULL, "model.num_hidden_layers": 16},
    "llama-small-vocabulary": {"model.vocab_size": 8000},
    "llama-small-vocabulary-full": {**FULL, "model.vocab_size": 8000},
    "llama-small-vocabulary-autocast": {"model.vocab_size": 8000, P: "bf16-autocast"},
    "llama-small-vocabulary-fp32": {"model.vocab_size": 8000, P: "fp32", A: "efficient"},
    "llama-small-vocabulary-eager": {"model.vocab_size": 8000, A: "eager"},
    "llama-untied": {"model.tie_word_embeddings": False},
    "llama-no-grouping": PLAIN_HEADS,
    # optimizers
    "llama-adamw-fused": {F: "fused"},
    "llama-adamw-loop": {F: "loop"},
    "llama-adam": {O: "adam"},
    "llama-sgd": {O: "sgd"},
    "llama-momentum": {O: "momentum"},
    "llama-adafactor": {O: "adafactor", F: "loop"},
    "llama-adafactor-fp32": {O: "adafactor", F: "loop", P: "fp32", A: "efficient"},
    "llama-fp32-fused": {P: "fp32", A: "efficient", F: "fused"},
    "llama-fp32-loop": {P: "fp32", A: "efficient", F: "loop"},
    "llama-adamw-8bit": {O: "adamw-8bit", F: "fused"},
    "llama-adamw-8bit-fp32": {O: "adamw-8bit", F: "fused", P: "fp32", A: "efficient"},
    # some layers computed again
    "llama-every-2": {"recompute.mode": "every", "recompute.every": 2},
    "llama-every-3-small-vocabulary": {"recompute.mode": "every", "recompute.every": 3, "model.vocab_size": 8000},
    "llama-block-1-small-vocabulary": {"recompute.mode": "block", "recompute.layers": 1, "model.vocab_size": 8000},
    "llama-every-2-autocast": {"recompute.mode": "every", "recompute.every": 2, P: "bf16-autocast"},
    "llama-operators": {"recompute.mode": "operators"},
    "llama-operators-fp32": {"recompute.mode": "operators", P: "fp32", A: "efficient"},
    "llama-operators-small-vocabulary": {"recompute.mode": "operators", "model.vocab_size": 8000},
    "llama-every-4-16-layers": {"recompute.mode": "every", "recompute.every": 4, "model.num_hidden_layers": 16},
    # the lower half frozen
    "llama-frozen": FROZEN,
    "llama-frozen-full": {**FROZEN, **FULL},
    "llama-frozen-every-2": {**FROZEN, "recompute.mode": "every", "recompute.every": 2},
    "llama-frozen-autocast": {**FROZEN, P: "bf16-autocast"},
    # accumulation, clipping
    "llama-accumulation": {"training.gradient_accumulation": 4},
    "llama-accumulation-small-vocabulary": {"training.gradient_accumulation": 4, "model.vocab_size": 8000},
    "llama-accumulation-autocast": {"training.gradient_accumulation": 4, P: "bf16-autocast"},
    "llama-clip": {"training.gradient_clip": True},
    "llama-clip-fp32": {"training.gradient_clip": True, P: "fp32", A: "efficient"},
    "llama-clip-sgd": {"training.gradient_clip": True, O: "sgd"},
}

FAMILIES = {
    "llama-2-7b": model("llama-2-7b", num_hidden_layers=2),
    "llama-3.1-8b": model("llama-3.1-8b", num_hidden_layers=2),
    "mistral-7b": model("mistral-7b-v0.1", num_hidden_layers=2),
    "qwen2.5-0.5b": model("qwen2.5-0.5b", num_hidden_layers=4),
    "qwen3-0.6b": model("qwen3-0.6b", num_hidden_layers=4),
    "gemma-2b": model("gemma-2b", num_hidden_layers=2),
    "gemma-2-2b": model("gemma-2-2b", num_hidden_layers=4),
    "gemma-3-1b": model("gemma-3-1b", num_hidden_layers=6),
    "gpt2": model("gpt2", n_layer=4),
    "pythia-410m": model("pythia-410m", num_hidden_layers=4),
    "gpt-j-6b": model("gpt-j-6b", n_layer=2),
    "opt-1.3b": model("opt-1.3b", num_hidden_layers=4),
    "bloom-560m": model("bloom-560m", n_layer=4),
    "falcon-7b": model("falcon-7b", num_hidden_layers=2),
    "phi-2": model("phi-2", num_hidden_layers=4),
    "nemotron-4-15b": model("nemotron-4-15b", num_hidden_layers=2, vocab_size=32000),
    "phi-4-mini": model("phi-4-mini", num_hidden_layers=4),
    "olmo-2-7b": model("olmo-2-7b", num_hidden_layers=2),
    "glm-4-9b": model("glm-4-9b-0414", num_hidden_layers=2),
    "starcoder2-3b": model("starcoder2-3b", num_hidden_layers=2),
    "smollm2-135m": model("smollm2-135m", num_hidden_layers=4),
    "smollm3-3b": model("smollm3-3b", num_hidden_layers=4),
    "afm-4.5b": model("afm-4.5b", num_hidden_layers=2, vocab_size=32000),
    "seed-oss-36b": model("seed-oss-36b", num_hidden_layers=2, vocab_size=32000),
    "olmo-3-7b": model("olmo-3-7b", num_hidden_layers=4, vocab_size=32000, sliding_window=256),
    "helium-1-2b": model("helium-1-2b", num_hidden_layers=3),
    "exaone-4.0-32b": model("exaone-4.0-32b", num_hidden_layers=4, vocab_size=32000, sliding_window=256),
    "exaone-4.0-1.2b": model("exaone-4.0-1.2b", num_hidden_layers=3, layer_types=["full_attention"] * 3),
    "stablelm-2-1.6b": model("stablelm-2-1.6b", num_hidden_layers=4),
    "ministral-3-3b": model("ministral-3-3b", num_hidden_layers=2),
    "granite-3.1-2b": model("granite-3.1-2b", num_hidden_layers=3),
    "hunyuan-0.5b": model("hunyuan-0.5b", num_hidden_layers=3),
    "ernie-4.5-0.3b": model("ernie-4.5-0.3b", num_hidden_layers=3),
    "olmoe-1b-7b": model("olmoe-1b-7b", num_hidden_layers=2),
    "minimax-m2": model("minimax-m2", num_hidden_layers=1, vocab_size=32000),
    "dots.llm1": model("dots.llm1", num_hidden_layers=2, vocab_size=32000),
    "glm-4.7-flash": model("glm-4.7-flash", num_hidden_layers=2, vocab_size=32000),
    "qwen3-next-80b-a3b": model("qwen3-next-80b-a3b", num_hidden_layers=4, vocab_size=32000),
    "qwen3.5-0.8b": text("qwen3.5-0.8b", num_hidden_layers=4),
    "qwen3.5-4b": text("qwen3.5-4b", num_hidden_layers=4, vocab_size=32000),
    "qwen3.5-35b-a3b": text("qwen3.5-35b-a3b", num_hidden_layers=4, vocab_size=32000),
    "mixtral": model("mixtral-8x7b", num_hidden_layers=2),
    "qwen3-30b-a3b": model("qwen3-30b-a3b", num_hidden_layers=2),
    "gpt-oss-20b": model("gpt-oss-20b", num_hidden_layers=2, layer_types=["sliding_attention", "full_attention"]),
    "deepseek-v2-lite": model("deepseek-v2-lite", num_hidden_layers=2),
    "bert-base": model("bert-base-uncased", num_hidden_layers=4),
    "vit-base": model("vit-base-patch16-224", num_hidden_layers=4),
    "clip-vision-base": model("clip-vit-base-patch16-vision", num_hidden_layers=4),
    "siglip-vision": model("siglip-so400m-patch14-896-gemma3", num_hidden_layers=2, image_size=224),
    "mt5": {**model("t5-v1_1-base", num_layers=2, num_decoder_layers=3), "model_type": "mt5", "d_model": 512, "d_ff": 1024, "num_heads": 6},
    "t5-small": model("t5-small", num_layers=3, num_decoder_layers=4),
    "t5-v1_1-base": model("t5-v1_1-base", num_layers=4, num_decoder_layers=3),
}
# Of these also what people run them under: eight devices that hold a share of the states each, and adapters.
WIDER = ("smollm3-3b", "afm-4.5b", "seed-oss-36b", "olmo-3-7b", "helium-1-2b", "exaone-4.0-32b", "exaone-4.0-1.2b", "stablelm-2-1.6b",
         "ministral-3-3b", "granite-3.1-2b", "hunyuan-0.5b", "ernie-4.5-0.3b", "olmoe-1b-7b", "qwen3.5-0.8b", "qwen3.5-4b")
SHORT = {"gpt2": 1024, "bert-base": 512, "vit-base": 197, "clip-vision-base": 197, "siglip-vision": 256, "t5-small": 512, "t5-v1_1-base": 512, "mt5": 512}
TARGET = {"t5-small": 128, "t5-v1_1-base": 128, "mt5": 128}  # tokens of the decoder, where it has a length of its own
MANY = {"vit-base": 32, "clip-vision-base": 32, "siglip-vision": 16, "t5-small": 8, "t5-v1_1-base": 8, "mt5": 8}  # sequences of a micro-batch
# Masks of sliding windows, soft caps and heads of two widths: the flash kernel has none of them.
NO_FLASH = {"gemma-2-2b": "eager", "gpt-oss-20b": "eager", "bloom-560m": "eager", "gpt-j-6b": "eager",
            "gemma-3-1b": "efficient", "olmo-3-7b": "efficient", "exaone-4.0-32b": "efficient", "falcon-7b": "efficient", "deepseek-v2-lite": "efficient",
            "t5-small": "efficient", "t5-v1_1-base": "efficient", "mt5": "efficient"}

# LLaVA: a tower whose last layer nobody reads, before a decoder.
def llava(text, tower, **changes):
    preset = model("llava-1.5-7b", **changes)
    return {**preset, "text_config": {**preset["text_config"], **text}, "vision_config": {**preset["vision_config"], **tower}}


LLAVA = llava({"num_hidden_layers": 2}, {"num_hidden_layers": 3})
LAST_LAYER, EARLY_LAYER = ({"model": llava({"num_hidden_layers": 2}, {"num_hidden_layers": 4}, vision_feature_layer=at)}
                           for at in (-1, -3))
WITH_CLASS_TOKEN = {"model": llava({"num_hidden_layers": 2}, {"num_hidden_layers": 3}, vision_feature_select_strategy="full")}
TIED_WORDS = {"model": llava({**model("qwen2-0.5b"), "num_hidden_layers": 2}, {"num_hidden_layers": 3}, tie_word_embeddings=True)}
TOWER_FROZEN = {"training.frozen": ["*vision_tower*"]}
FIRST_STAGE = {"training.frozen": ["*vision_tower*", "*language_model*", "lm_head*"]}  # the projector alone learns
LARGE_TOWER = {"training.micro_batch": 8, "model": llava(
    {"num_hidden_layers": 1, "vocab_size": 8000, "hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 8,
     "num_key_value_heads": 8}, {"num_hidden_layers": 6})}
VISION = {
    f"llava-{name}": {"model": LLAVA, **changes}
    for name, changes in {
        "frozen-tower": TOWER_FROZEN,
        "frozen-tower-full": {**TOWER_FROZEN, **FULL},
        "frozen-tower-autocast": {**TOWER_FROZEN, P: "bf16-autocast"},
        "frozen-tower-fp32": {**TOWER_FROZEN, P: "fp32", A: "efficient"},
        "frozen-tower-eager": {**TOWER_FROZEN, A: "eager"},
        "frozen-tower-one-image": {**TOWER_FROZEN, "training.micro_batch": 1},
        "frozen-tower-two-images": {**TOWER_FROZEN, "training.images_per_sequence": 2, "training.sequence_length": 2048},
        "frozen-tower-large": {**TOWER_FROZEN, **LARGE_TOWER},
        "frozen-tower-large-full": {**TOWER_FROZEN, **LARGE_TOWER, **FULL},
        "frozen-tower-large-autocast": {**TOWER_FROZEN, **LARGE_TOWER, P: "bf16-autocast"},
        "frozen-tower-accumulation": {**TOWER_FROZEN, "training.gradient_accumulation": 4},
        "projector": FIRST_STAGE,
        "projector-full": {**FIRST_STAGE, **FULL},
        "projector-autocast": {**FIRST_STAGE, P: "bf16-autocast"},
        **{f"lora-8{name}": {"adapter.rank": 8, "adapter.target_modules": ["*language_model*_proj"], **changes}
           for name, changes in {"": {}, "-autocast": {P: "bf16-autocast"}, "-full": {**FULL, "recompute.reentrant": False},
                                 "-attention": {"adapter.target_modules": ["*language_model*q_proj", "*language_model*v_proj"]},
                                 "-bf16": {"adapter.type": "bf16"}, "-large": LARGE_TOWER}.items()},
        "whole": {},
        "whole-one-image": {"training.micro_batch": 1},
        "whole-full": FULL,
        "whole-autocast": {P: "bf16-autocast"},
        "whole-large": {**LARGE_TOWER},
        "whole-large-full": {**LARGE_TOWER, **FULL},
        "whole-last-layer": LAST_LAYER,
        "whole-early-layer": EARLY_LAYER,
        "whole-early-layer-autocast": {**EARLY_LAYER, P: "bf16-autocast"},
        "whole-class-token": WITH_CLASS_TOKEN,
        "frozen-tower-class-token": {**TOWER_FROZEN, **WITH_CLASS_TOKEN},
        "frozen-tower-last-layer": {**TOWER_FROZEN, **LAST_LAYER},
        "frozen-tower-tied": {**TOWER_FROZEN, **TIED_WORDS},
        "frozen-tower-tied-full": {**TOWER_FROZEN, **TIED_WORDS, **FULL},
        "frozen-half-tower": {**EARLY_LAYER, "training.frozen": ["*vision_tower.embeddings*", "*vision_tower.pre_layrnorm*",
                                                                 "*vision_tower.encoder.layers.0.*"]},
        "frozen-tower-and-words": {"training.frozen": ["*vision_tower*", "*embed_tokens*"]},
        "frozen-tower-and-words-full": {"training.frozen": ["*vision_tower*", "*embed_tokens*"], **FULL},
        "frozen-tower-clip": {**TOWER_FROZEN, "training.gradient_clip": True},
        "frozen-tower-fsdp2-8-keep": {**TOWER_FROZEN, "engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed",
                                      "parallel.zero_stage": 2},
        **{f"{name}-fsdp2-8{kind}": {**changes, **more, "engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed"}
           for name, changes in {"whole": {}, "whole-large": LARGE_TOWER, "whole-early-layer": EARLY_LAYER}.items()
           for kind, more in {"": {}, "-full": FULL}.items()},
        "frozen-tower-ddp-8": {**TOWER_FROZEN, "cluster.devices": 8},
        "frozen-tower-fsdp2-8": {**TOWER_FROZEN, "engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed"},
        "frozen-tower-fsdp2-8-full": {**TOWER_FROZEN, **FULL, "engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed"},
        "projector-fsdp2-8": {**FIRST_STAGE, "engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed"},
        "frozen-tower-fsdp2-8-accumulation": {**TOWER_FROZEN, "engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed",
                                              "training.gradient_accumulation": 4},
    }.items()
}

# Two towers that learn from one another. The large ones have vocabularies so small that activations are the peak.
def pair(preset, text, vision, **changes):
    whole = model(preset, **changes)
    return {**whole, "text_config": {**whole["text_config"], **text}, "vision_config": {**whole["vision_config"], **vision}}


# torch's fully_shard and DeepSpeed stop at CLIP's scale, a parameter without dimensions.
FEW = {"num_hidden_layers": 3}, {"num_hidden_layers": 2}
NARROW = {"num_hidden_layers": 3, "vocab_size": 8000}, {"num_hidden_layers": 2, "image_size": 448}  # where activations are the peak
OF_SMALL_ONES = {"one", "accumulation", "clipped", "adamw-fused", "adamw-loop", "many-autocast"}
PAIRS = {
    "-".join(filter(None, (name, kind))): {"model": config, "training.sequence_length": tokens, "training.micro_batch": 32, **changes}
    for name, config, tokens in (
        ("clip", pair("clip-vit-base-patch32", *FEW), 77),
        ("clip-large", pair("clip-vit-large-patch14", *NARROW), 77),
        ("siglip", pair("siglip-base-patch16-224", *FEW), 64),
        ("siglip-so400m", pair("siglip-so400m-patch14-384", *FEW), 64))
    for kind, changes in {
        "": {},
        "fp32": {P: "fp32", A: "efficient"},
        "autocast": {P: "bf16-autocast"},
        "full": FULL,
        "autocast-full": {P: "bf16-autocast", **FULL},
        "eager": {A: "eager"},
        "eager-full": {A: "eager", **FULL},
        "efficient": {A: "efficient"},
        "many": {"training.micro_batch": 200},
        "many-autocast": {"training.micro_batch": 200, P: "bf16-autocast"},
        "one": {"training.micro_batch": 1},
        "accumulation": {"training.gradient_accumulation": 4},
        "clipped": {"training.gradient_clip": True},
        "adamw-fused": {F: "fused"},
        "adamw-loop": {F: "loop"},
        "ddp-8": {"cluster.devices": 8},
        "fsdp2-8": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed"},
        "fsdp2-8-full": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", **FULL},
        **{f"deepspeed-{stage}-8": {"engine": "deepspeed", "cluster.devices": 8, P: "bf16-mixed", "parallel.zero_stage": stage}
           for stage in (1, 2)},
    }.items()
    if not (name.startswith("clip") and changes.get("engine")) and not ("-" in name and kind in OF_SMALL_ONES)
}

ENGINES = {
    "ddp-2": {"engine": "ddp", "cluster.devices": 2},
    "ddp-8": {"engine": "ddp", "cluster.devices": 8},
    "ddp-8-small-vocabulary": {"engine": "ddp", "cluster.devices": 8, "model.vocab_size": 8000},
    "ddp-8-autocast": {"engine": "ddp", "cluster.devices": 8, P: "bf16-autocast"},
    "ddp-8-accumulation": {"engine": "ddp", "cluster.devices": 8, "training.gradient_accumulation": 4},
    "ddp-8-full": {"engine": "ddp", "cluster.devices": 8, **FULL},
    "ddp-8-clip": {"engine": "ddp", "cluster.devices": 8, "training.gradient_clip": True},
    **{f"fsdp2-{n}{name}": {"engine": "fsdp2", "cluster.devices": n, P: "bf16-mixed", **changes}
       for n in (2, 8, 64)
       for name, changes in {
           "": {},
           "-fp32-gradients": {P: "bf16-mixed-fp32-gradients"},
           "-full": FULL,
           "-small-vocabulary": {"model.vocab_size": 8000},
           "-small-vocabulary-fp32-gradients": {"model.vocab_size": 8000, P: "bf16-mixed-fp32-gradients"},
       }.items()},
    "fsdp2-8-fp32": {"engine": "fsdp2", "cluster.devices": 8, P: "fp32", A: "efficient"},
    "fsdp2-8-never": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", "parallel.reshard_after_forward": "never"},
    "fsdp2-8-always": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", "parallel.reshard_after_forward": "always"},
    "fsdp2-8-accumulation": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", "training.gradient_accumulation": 4},
    "fsdp2-8-clip": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", "training.gradient_clip": True},
    "fsdp2-8-fused": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", F: "fused"},
    "fsdp2-16-replicate-2": {"engine": "fsdp2", "cluster.devices": 16, P: "bf16-mixed", "parallel.replicate": 2},
    "fsdp2-3": {"engine": "fsdp2", "cluster.devices": 3, P: "bf16-mixed"},
    "fsdp2-8-operators": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", "recompute.mode": "operators"},
    "fsdp2-8-16-layers-full": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", **FULL, "model.num_hidden_layers": 16,
                               "model.vocab_size": 8000},
    "fsdp2-8-qwen3": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", "model": FAMILIES["qwen3-0.6b"]},
}

# torchao's 8-bit products; without compilation each step of their casts is a tensor of its own
FLOAT8 = {
    f"fsdp2-8-{recipe}{name}": {"engine": "fsdp2", "cluster.devices": 8, P: f"fp8-{recipe}", **changes}
    for recipe in ("tensorwise", "rowwise")
    for name, changes in {
        "": {},
        "-small-vocabulary": {"model.vocab_size": 8000},
        "-small-vocabulary-full": {"model.vocab_size": 8000, **FULL},
        "-long": {"model.vocab_size": 8000, "training.sequence_length": 8192, "training.micro_batch": 1},
        "-qwen3": {"model": FAMILIES["qwen3-0.6b"]},
    }.items()
}

FSDP1 = {
    **{f"fsdp1-{n}{name}": {"engine": "fsdp1", "cluster.devices": n, P: "bf16-mixed", **changes}
       for n in (2, 8, 64)
       for name, changes in {"": {}, "-full": FULL, "-small-vocabulary": {"model.vocab_size": 8000}}.items()},
    **{f"fsdp1-8-{name}": {"engine": "fsdp1", "cluster.devices": 8, P: "bf16-mixed", **changes}
       for name, changes in {
           "fp32-gradients": {P: "bf16-mixed-fp32-gradients"},
           "fp32": {P: "fp32", A: "efficient"},
           "keep": {"parallel.zero_stage": 2},
           "keep-small-vocabulary": {"parallel.zero_stage": 2, "model.vocab_size": 8000},
           "accumulation": {"training.gradient_accumulation": 4},
           "clip": {"training.gradient_clip": True},
       }.items()},
    "fsdp1-16-replicate-2": {"engine": "fsdp1", "cluster.devices": 16, P: "bf16-mixed", "parallel.replicate": 2},
    "fsdp1-16-replicate-2-keep": {"engine": "fsdp1", "cluster.devices": 16, P: "bf16-mixed", "parallel.replicate": 2,
                                  "parallel.zero_stage": 2},
    # the second one replicated, too
    "fsdp2-16-replicate-2-small-vocabulary": {"engine": "fsdp2", "cluster.devices": 16, P: "bf16-mixed", "parallel.replicate": 2,
                                              "model.vocab_size": 8000},
    "fsdp2-64-replicate-8-fp32-gradients": {"engine": "fsdp2", "cluster.devices": 64, P: "bf16-mixed-fp32-gradients",
                                            "parallel.replicate": 8},
    "fsdp2-16-replicate-2-accumulation": {"engine": "fsdp2", "cluster.devices": 16, P: "bf16-mixed", "parallel.replicate": 2,
                                          "training.gradient_accumulation": 4},
}

# no_sync: whole gradients wait for the last micro-batch, as Trainer and Accelerate have it
WAITING = {
    f"{engine}-8-no-sync{name}": {"engine": engine, "cluster.devices": 8, P: "bf16-mixed", "parallel.sync_each_micro_batch": False,
                                  "training.gradient_accumulation": 4, **changes}
    for engine in ("fsdp1", "fsdp2")
    for name, changes in {
        "": {},
        "-small-vocabulary": {"model.vocab_size": 8000},
        "-two": {"model.vocab_size": 8000, "training.gradient_accumulation": 2},
        "-fp32-gradients": {"model.vocab_size": 8000, P: "bf16-mixed-fp32-gradients"},
        "-keep-full": {"model.vocab_size": 8000, "parallel.zero_stage": 2, **FULL},
    }.items()
}

UNTIED = {"model.tie_word_embeddings": False}
TENSOR = {
    **{f"tensor-{n}": {"engine": "fsdp2", "cluster.devices": n, "parallel.tensor": n, **UNTIED} for n in (2, 4, 8)},
    "tensor-2-full": {"engine": "fsdp2", "cluster.devices": 2, "parallel.tensor": 2, **UNTIED, **FULL},
    "tensor-2-small-vocabulary": {"engine": "fsdp2", "cluster.devices": 2, "parallel.tensor": 2, **UNTIED,
                                  "model.vocab_size": 8000},
    "tensor-2-tied": {"engine": "fsdp2", "cluster.devices": 2, "parallel.tensor": 2},
    "tensor-2-replicated-norms": {"engine": "fsdp2", "cluster.devices": 2, "parallel.tensor": 2, **UNTIED, F: "loop",
                                  "parallel.sequence_parallel": False},
    "tensor-2-data-4-apart": {"engine": "fsdp2", "cluster.devices": 8, "parallel.tensor": 2, P: "bf16-mixed", **UNTIED,
                              "wrap.ends": "apart"},
    "tensor-2-data-4": {"engine": "fsdp2", "cluster.devices": 8, "parallel.tensor": 2, P: "bf16-mixed", **UNTIED},
}

PIPELINE = {  # a name ends with its stage
    f"pipeline-{n}-{schedule}{name}-stage-{stage}": {
        "engine": "fsdp2", "implementation": "transformers", "cluster.devices": 2 * n, "parallel.pipeline": n, P: "bf16-mixed",
        "parallel.schedule": schedule, "parallel.pipeline_layout": [4 // n] * n, "training.gradient_accumulation": 2 * n,
        "training.micro_batch": 1, **UNTIED, **changes}
    for n in (2, 4) for schedule in ("1f1b", "gpipe")
    for name, changes in {"": {}, "-full": FULL}.items() for stage in range(n)
}

# The embedding is a group of its own, and so are the last norm and the head.
ENDS = {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", "wrap.ends": "apart"}
APART = {
    **{f"fsdp2-8-apart{name}": {**ENDS, **UNTIED, **changes} for name, changes in {
        "": {}, "-full": FULL, "-small-vocabulary": {"model.vocab_size": 8000},
        "-small-vocabulary-full": {"model.vocab_size": 8000, **FULL},
        "-fp32-gradients": {P: "bf16-mixed-fp32-gradients"}, "-accumulation": {"training.gradient_accumulation": 4},
        "-no-sync": {"training.gradient_accumulation": 4, "parallel.sync_each_micro_batch": False},
        "-no-sync-fp32-gradients": {"training.gradient_accumulation": 2, "parallel.sync_each_micro_batch": False,
                                    P: "bf16-mixed-fp32-gradients", "model.vocab_size": 8000},
        "-never": {"parallel.reshard_after_forward": "never"}, "-always": {"parallel.reshard_after_forward": "always"},
        "-always-small-vocabulary": {"parallel.reshard_after_forward": "always", "model.vocab_size": 8000},
        "-clip": {"training.gradient_clip": True}, "-replicate-2": {"parallel.replicate": 2},
        "-fp32": {P: "fp32", A: "efficient"}, "-short": {"training.sequence_length": 128, "training.micro_batch": 1},
        "-short-full": {"training.sequence_length": 128, "training.micro_batch": 1, **FULL},
        "-frozen": FROZEN, "-frozen-embedding": {"training.frozen": ["model.embed_tokens.*"]},
        "-offload": {"offload.parameters": "cpu", "offload.optimizer": "cpu", "training.sequence_length": 128},
    }.items()},
    "fsdp2-8-apart-tied": ENDS, "fsdp2-8-apart-tied-full": {**ENDS, **FULL},
    "fsdp2-8-apart-tied-short": {**ENDS, "training.sequence_length": 128, "training.micro_batch": 1},
    "fsdp2-8-always-untied": {**ENDS, **UNTIED, "wrap.ends": "root", "parallel.reshard_after_forward": "always",
                              "training.sequence_length": 128},
    "fsdp2-8-short-untied": {**ENDS, **UNTIED, "wrap.ends": "root", "training.sequence_length": 128},
}

# Several stages on a rank: with bf16-mixed each is divided over two data ranks, with bf16-pure each rank holds its stages whole.
CHUNKED = {
    f"pipeline-{n}-{schedule}{name}-stage-{rank}": {
        "engine": "fsdp2", "implementation": "transformers", "parallel.pipeline": n, "parallel.virtual_pipeline": 2,
        "parallel.schedule": schedule, "parallel.pipeline_layout": [2] * n, "model.num_hidden_layers": 2 * n,
        "training.gradient_accumulation": 2 * n, "training.micro_batch": 1, **UNTIED, **changes, "cluster.devices": n * data}
    for schedule in ("interleaved", "looped-bfs", "zb-h1", "zb-v", "dualpipe-v")
    for name, changes, data in (("", {P: "bf16-mixed"}, 2), ("-whole", {P: "bf16-pure"}, 1), ("-full", {P: "bf16-pure", **FULL}, 1))
    for n in (2, 4) for rank in ((0, 1) if n == 2 else (0, 3))
}

APART.update({  # the same where stages are
    name.replace("-stage-", "-apart-stage-"): {**changes, "wrap.ends": "apart"}
    for name, changes in {**PIPELINE, **CHUNKED}.items()
    if name in ("pipeline-2-1f1b-stage-0", "pipeline-2-1f1b-stage-1", "pipeline-4-1f1b-full-stage-0", "pipeline-4-1f1b-full-stage-3",
                "pipeline-4-gpipe-stage-3", "pipeline-2-interleaved-stage-0", "pipeline-2-interleaved-stage-1",
                "pipeline-4-zb-v-stage-0", "pipeline-2-dualpipe-v-stage-0", "pipeline-4-looped-bfs-stage-3")})

DEEPSPEED = {
    f"deepspeed-{stage}-{n}{name}": {"engine": "deepspeed", "cluster.devices": n, "parallel.zero_stage": stage, P: "bf16-mixed",
                                     F: "fused", **changes}
    for stage in (0, 1, 2, 3)
    for n, name, changes in (
        (2, "", {}), (8, "", {}), (64, "", {}),
        (8, "-small-vocabulary", {"model.vocab_size": 8000}),
        (8, "-accumulation", {"training.gradient_accumulation": 4}),
        (8, "-fp32", {P: "fp32", A: "efficient"}),
        (8, "-fp16", {P: "fp16-mixed"}),
        (8, "-full", FULL),
        (8, "-foreach", {F: "foreach"}),
        *(((8, "-fp32-gradients", {P: "bf16-mixed-fp32-gradients"}),
           (8, "-small-buckets", {"buckets.reduce": 50_000_000, "buckets.gather": 50_000_000}),
           (8, "-overlap", {"overlap.reduce": True}),
           (8, "-overlap-small-buckets", {"overlap.reduce": True, "buckets.reduce": 50_000_000, "buckets.gather": 50_000_000}))
          if stage else ()))
}

CONTEXT = {
    f"context-{n}-{method}{name}": {"engine": "fsdp2", "cluster.devices": n, "parallel.context": n, "parallel.context_method": method,
                                    "training.sequence_length": 8192, "training.micro_batch": 1, P: "bf16-mixed", **changes}
    for n in (2, 4, 8) for method in ("ring", "allgather")
    for name, changes in {"": {}, "-full": FULL, "-small-vocabulary": {"model.vocab_size": 8000},
                          # the ring itself holds the peak
                          "-attention": {"model.vocab_size": 8000, "model.intermediate_size": 1024},
                          "-attention-two": {"model.vocab_size": 8000, "model.intermediate_size": 1024, "training.micro_batch": 2},
                          "-attention-no-grouping": {"model.vocab_size": 8000, "model.intermediate_size": 1024, **PLAIN_HEADS},
                          "-attention-efficient": {"model.vocab_size": 8000, "model.intermediate_size": 1024, **PLAIN_HEADS, A: "efficient"},
                          "-attention-efficient-two": {"model.vocab_size": 8000, "model.intermediate_size": 1024, **PLAIN_HEADS, A: "efficient",
                                                       "training.micro_batch": 2},
                          }.items()
    if method == "ring" or "attention" not in name
}

# Needs SCALING_SOURCE (scaling_engine.py). Its norms are torch's operators; Megatron's and flash-attn's fused ones are not its own.
SCALING = {
    f"scaling-{name}": {"engine": "scaling", "implementation": "scaling", P: "bf16-mixed", "training.gradient_accumulation": 2,
                        "training.micro_batch": 1, "model.num_key_value_heads": 32, **UNTIED, **changes}
    for name, changes in {
        "1": {"cluster.devices": 1},
        "1-grouped": {"cluster.devices": 1, "model.num_key_value_heads": 8},
        "1-micro-batch-2": {"cluster.devices": 1, "training.micro_batch": 2, "training.gradient_accumulation": 4},
        "1-full": {"cluster.devices": 1, **FULL},
        "1-small-vocabulary": {"cluster.devices": 1, "model.vocab_size": 8000},
        "data-8": {"cluster.devices": 8},
        "data-8-zero": {"cluster.devices": 8, "parallel.zero_stage": 1},
        "data-8-zero-small-vocabulary": {"cluster.devices": 8, "parallel.zero_stage": 1, "model.vocab_size": 8000},
        "tensor-2": {"cluster.devices": 2, "parallel.tensor": 2, "parallel.sequence_parallel": False},
        "tensor-2-sequence": {"cluster.devices": 2, "parallel.tensor": 2, "parallel.sequence_parallel": True},
        "tensor-2-sequence-full": {"cluster.devices": 2, "parallel.tensor": 2, "parallel.sequence_parallel": True, **FULL},
        "tensor-2-data-4-zero": {"cluster.devices": 8, "parallel.tensor": 2, "parallel.sequence_parallel": True,
                                 "parallel.zero_stage": 1},
        "tensor-2-small-vocabulary": {"cluster.devices": 2, "parallel.tensor": 2, "parallel.sequence_parallel": True,
                                      "model.vocab_size": 8000},
    }.items()
}

PREDICTION = {"training.prediction_layers": 1}
LIGER = {
    f"liger-{name}": {"training.kernels": "liger", "training.loss": "fused-linear", **changes}
    for name, changes in {
        "llama": {}, "llama-full": FULL, "llama-untied": UNTIED, "llama-small-vocabulary": {"model.vocab_size": 8000},
        "llama-autocast": {P: "bf16-autocast"}, "llama-autocast-full": {P: "bf16-autocast", **FULL},
        "llama-autocast-untied": {P: "bf16-autocast", **UNTIED},
        "llama-accumulation": {"training.gradient_accumulation": 4},
        "llama-autocast-accumulation": {P: "bf16-autocast", "training.gradient_accumulation": 4},
        "llama-plain-loss": {"training.loss": "plain"}, "llama-autocast-plain-loss": {P: "bf16-autocast", "training.loss": "plain"},
        "llama-fused-loss": {"training.loss": "fused"},
        "llama-fp32": {P: "fp32", A: "efficient"},
        "qwen3": {"model": model("qwen3-0.6b", num_hidden_layers=4)},
        "ddp-8": {"cluster.devices": 8},
        **{f"fsdp2-8{kind}": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", **more}
           for kind, more in {"": {}, "-full": FULL, "-untied": UNTIED, "-accumulation": {"training.gradient_accumulation": 4},
                              "-untied-full": {**UNTIED, **FULL}}.items()},
        **{f"fsdp1-8{kind}": {"engine": "fsdp1", "cluster.devices": 8, P: "bf16-mixed", **more}
           for kind, more in {"": {}, "-untied-full": {**UNTIED, **FULL}}.items()},
        **{f"deepspeed-{stage}-8{kind}": {"engine": "deepspeed", "cluster.devices": 8, "parallel.zero_stage": stage, P: "bf16-mixed",
                                         **more}
           for stage in (1, 2, 3) for kind, more in {"": {}, "-untied-full": {**UNTIED, **FULL}}.items()},
        # What the product adds into changed in 0.8.1 and 0.8.3.
        **{f"{version}-llama{kind}": {"environment.liger-kernel": version, **more} for version in ("0.8.0", "0.8.1")
           for kind, more in {"": {}, "-autocast": {P: "bf16-autocast"}, "-fp32": {P: "fp32", A: "efficient"}}.items()},
    }.items()
}

# Without Transformer Engine and Apex: attention is written out, Adam is torch's.
MEGATRON = {
    f"megatron-{name}": {"engine": "megatron", "implementation": "megatron", P: "bf16-mixed-fp32-gradients", A: "eager",
                         "training.kernels": "local",
                         "training.gradient_accumulation": 2, "training.micro_batch": 1, **UNTIED, **changes}
    for name, changes in {
        "1": {"cluster.devices": 1},
        "data-8": {"cluster.devices": 8},
        "data-8-distributed": {"cluster.devices": 8, "parallel.zero_stage": 1},
        "tensor-2-distributed": {"cluster.devices": 8, "parallel.tensor": 2, "parallel.zero_stage": 1},
        **{f"fsdp-{stage}-{n}{name}": {"cluster.devices": n, "parallel.strategy": "megatron-fsdp", "parallel.zero_stage": stage, **changes}
           for stage, n, name, changes in (
               (3, 8, "", {}), (2, 8, "", {}), (1, 8, "", {}), (3, 2, "", {}), (3, 64, "", {}),
               (3, 8, "-full", FULL), (2, 8, "-full", FULL),
               (3, 8, "-small-vocabulary", {"model.vocab_size": 8000}), (2, 8, "-small-vocabulary", {"model.vocab_size": 8000}),
               (1, 8, "-small-vocabulary", {"model.vocab_size": 8000}),
               (3, 8, "-small-vocabulary-full", {"model.vocab_size": 8000, **FULL}),
               (3, 8, "-one", {"training.gradient_accumulation": 1}), (3, 8, "-gradients-16", {"types.gradients": "bf16"}),
               (3, 16, "-replicate-2", {"parallel.replicate": 2}),
               (3, 8, "-double-buffer", {"buckets.double_buffer": True, "model.vocab_size": 8000}))},
        "tensor-4": {"cluster.devices": 4, "parallel.tensor": 4},
        "tensor-8-distributed": {"cluster.devices": 64, "parallel.tensor": 8, "parallel.zero_stage": 1},
        "tensor-2-replicated-norms": {"cluster.devices": 2, "parallel.tensor": 2, "parallel.sequence_parallel": False},
        "tensor-2-full": {"cluster.devices": 2, "parallel.tensor": 2, **FULL},
        "tensor-2-selective": {"cluster.devices": 2, "parallel.tensor": 2, "recompute.mode": "selective"},
        "tensor-2-small-vocabulary": {"cluster.devices": 2, "parallel.tensor": 2, "model.vocab_size": 8000},
        "prediction-1": {"cluster.devices": 1, **PREDICTION},
        "prediction-1-small-vocabulary": {"cluster.devices": 1, **PREDICTION, "model.vocab_size": 8000},
        "prediction-1-full": {"cluster.devices": 1, **PREDICTION, **FULL, "model.vocab_size": 8000},
        "prediction-1-selective": {"cluster.devices": 1, **PREDICTION, "recompute.mode": "selective", "model.vocab_size": 8000},
        "prediction-1-tied": {"cluster.devices": 1, **PREDICTION, "model.tie_word_embeddings": True},
        "prediction-2": {"cluster.devices": 1, "training.prediction_layers": 2},
        "prediction-1-data-8-distributed": {"cluster.devices": 8, "parallel.zero_stage": 1, **PREDICTION},
        "prediction-1-tensor-2": {"cluster.devices": 2, "parallel.tensor": 2, **PREDICTION},
        "prediction-1-tensor-2-small-vocabulary": {"cluster.devices": 2, "parallel.tensor": 2, **PREDICTION, "model.vocab_size": 8000},
        "prediction-1-tensor-2-full": {"cluster.devices": 2, "parallel.tensor": 2, **PREDICTION, **FULL, "model.vocab_size": 8000},
        **{f"prediction-1-pipeline-2-stage-{stage}": {
            "cluster.devices": 2, "parallel.pipeline": 2, **PREDICTION, "training.gradient_accumulation": 4} for stage in (0, 1)},
        **{f"tensor-2-pipeline-2{more}-stage-{stage}": {
            "cluster.devices": 8, "parallel.tensor": 2, "parallel.pipeline": 2, "parallel.zero_stage": 1,
            "training.gradient_accumulation": 4, **extra}
           for more, extra in {"": {}, "-full": FULL}.items() for stage in (0, 1)},
    }.items()
}

LORA = {
    "lora-8": {"adapter.rank": 8},
    "lora-64": {"adapter.rank": 64},
    "lora-8-attention": {"adapter.rank": 8, "adapter.target_modules": ["q_proj", "v_proj"]},
    "lora-8-full": {"adapter.rank": 8, **FULL, "recompute.reentrant": False},
    "lora-8-every-2": {"adapter.rank": 8, "recompute.mode": "every", "recompute.every": 2, "recompute.reentrant": False},
    "lora-8-small-vocabulary": {"adapter.rank": 8, "model.vocab_size": 8000},
    "lora-8-dropout": {"adapter.rank": 8, "adapter.dropout": 0.1, "model.vocab_size": 8000},
    "lora-8-bf16": {"adapter.rank": 8, "adapter.type": "bf16", "model.vocab_size": 8000},
    "lora-8-autocast": {"adapter.rank": 8, P: "bf16-autocast", "model.vocab_size": 8000},
    "dora-8": {"adapter.rank": 8, "adapter.method": "dora", "model.vocab_size": 8000},
}

NF4 = {"adapter.rank": 8, "adapter.base": "nf4", "model.vocab_size": 8000}
QLORA = {
    "qlora-8": {**NF4, A: "efficient"},
    "qlora-8-double": {**NF4, "adapter.double_quantization": True, A: "efficient"},
    "qlora-8-short": {**NF4, "training.sequence_length": 512, A: "efficient"},
    "qlora-8-plain": {**NF4, "adapter.upcast": False},
    "qlora-8-plain-double": {**NF4, "adapter.upcast": False, "adapter.double_quantization": True},
    "qlora-8-autocast": {**NF4, P: "bf16-autocast"},
    "qlora-8-full": {**NF4, "adapter.upcast": False, **FULL, "recompute.reentrant": False},
    "qlora-8-dora": {**NF4, "adapter.upcast": False, "adapter.method": "dora"},
    "lora-8-int8": {**NF4, "adapter.base": "int8", "adapter.upcast": False},
}

# LoRA beside experts: PEFT adapts their stacked tensors, where they were linear modules before transformers 5.
SPARSE = {"mixtral": "flash", "qwen3-30b-a3b": "flash", "olmoe-1b-7b": "flash", "deepseek-v2-lite": "efficient", "minimax-m2": "flash",
          "dots.llm1": "flash", "glm-4.7-flash": "flash", "qwen3-next-80b-a3b": "flash", "qwen3.5-35b-a3b": "flash",
          "qwen1.5-moe-a2.7b": "flash", "gpt-oss-20b": "eager"}
EXPERT_LORA = {"adapter.method": "lora", "adapter.rank": 8}
WITHOUT_REENTRY = {**FULL, "recompute.reentrant": False}
EXPERT_ADAPTERS = {
    **{f"lora-8-{name}": {**EXPERT_LORA, "model": {**FAMILIES.get(name, model("qwen1.5-moe-a2.7b", num_hidden_layers=2)), "vocab_size": 8000}, A: kernel}
       for name, kernel in SPARSE.items()},
    **{f"lora-8-{name}-{kind}": {**EXPERT_LORA, "model": {**FAMILIES[name], "vocab_size": 8000}, A: SPARSE[name], **changes}
       for name in ("mixtral", "qwen3-30b-a3b", "deepseek-v2-lite")
       for kind, changes in {
           "full": WITHOUT_REENTRY, "autocast": {P: "bf16-autocast"}, "bf16": {"adapter.type": "bf16"},
           "attention": {"adapter.target_modules": ["q_proj", "o_proj"]}, "fp32": {P: "fp32", A: "efficient"},
           "experts": {"adapter.target_modules": ["w1", "w2", "w3"] if name == "mixtral" else ["gate_proj", "up_proj", "down_proj"]},
           "down": {"adapter.target_modules": ["q_proj", "w2"] if name == "mixtral" else ["q_proj", "down_proj"]},
           "router": {"adapter.target_modules": ["q_proj", "gate"]},
           "accumulation": {"training.gradient_accumulation": 4},
           "ddp-8": {"cluster.devices": 8}, "fsdp2-8": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed"},
           "nf4": {"adapter.base": "nf4", "adapter.upcast": False}}.items()
       if name != "deepseek-v2-lite" or kind in ("full", "autocast", "experts")},
}

# Trainer's fp16 and Accelerate's: autocast, and a GradScaler around loss and step.
HALF = {P: "fp16-autocast"}
SCALED = {
    **{f"scaled{name}": {**HALF, **changes} for name, changes in {
        "": {}, "-eager": {A: "eager"}, "-full": {**FULL, "recompute.reentrant": False}, "-fused": {F: "fused"}, "-loop": {F: "loop"},
        "-accumulation": {"training.gradient_accumulation": 4}, "-clipped": {"training.gradient_clip": 1.0},
        "-clipped-fused": {"training.gradient_clip": 1.0, F: "fused"}, "-small-vocabulary": {"model.vocab_size": 8000},
        "-small-vocabulary-clipped": {"model.vocab_size": 8000, "training.gradient_clip": 1.0},
        "-sgd": {O: "sgd"}, "-short": {"training.sequence_length": 32, "training.micro_batch": 1}}.items()},
    "scaled-ddp-8": {**HALF, "cluster.devices": 8}, "scaled-lora-8": {**HALF, "adapter.rank": 8, "model.vocab_size": 8000},
    "scaled-lora-8-base-bf16": {**HALF, "adapter.rank": 8, "adapter.base": "bf16", "model.vocab_size": 8000},
    "scaled-qlora-8-full": {**NF4, **HALF, **FULL, "recompute.reentrant": False},
}

# What random draws found to differ, each at its smallest (random_runs.py).
FEW_LAYERS = {"model": text("llama-4-scout-17b-16e", num_hidden_layers=1, vocab_size=8000, num_local_experts=4, layer_types=["full_attention"],
                            no_rope_layers=[1], moe_layers=[0])} if "text_config" in model("llama-4-scout-17b-16e") else {
    "model": model("llama-4-scout-17b-16e", num_hidden_layers=1, vocab_size=8000, num_local_experts=4)}
EVERY_2, BLOCK_1 = {"recompute.mode": "every", "recompute.every": 2}, {"recompute.mode": "block", "recompute.layers": 1}
FOUND = {
    **{f"found-bert-{name}": {"model": FAMILIES["bert-base"], "training.sequence_length": 512, **changes}
       for name, changes in {"eager": {A: "eager"}, "eager-fp16": {A: "eager", P: "fp16-autocast"}, "eager-full": {A: "eager", **FULL},
                             "fp16": {P: "fp16-autocast"}, "small-vocabulary": {"model.vocab_size": 8000}}.items()},
    **{f"found-bloom-{name}": {"model": FAMILIES["bloom-560m"], A: "eager", **changes}
       for name, changes in {"every-2": EVERY_2, "block-1": BLOCK_1, "fp32-full": {P: "fp32", **FULL},
                             "long-full": {"training.sequence_length": 2048, "model.vocab_size": 8000, **FULL}}.items()},
    **{f"found-llama4{name}": {**FEW_LAYERS, A: "efficient", **changes}
       for name, changes in {"": {}, "-full": FULL, "-autocast": {P: "bf16-autocast"}}.items()},
    **{f"found-pipeline-2-1f1b-fp32-gradients-stage-{stage}": {**PIPELINE[f"pipeline-2-1f1b-stage-{stage}"], P: "bf16-mixed-fp32-gradients"}
       for stage in (0, 1)},
    **{f"found-int8-{name}": {**NF4, "adapter.base": "int8", "adapter.upcast": False, **changes}
       for name, changes in {"full": WITHOUT_REENTRY, "every-2": {**EVERY_2, "recompute.reentrant": False},
                             "autocast": {P: "bf16-autocast"}}.items()},
    **{f"found-lora-fsdp2-8{name}": {"adapter.rank": 8, "engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", **changes}
       for name, changes in {"": {}, "-full": WITHOUT_REENTRY, "-small-vocabulary": {"model.vocab_size": 8000}}.items()},
    **{f"found-adafactor-{name}": {"model": FAMILIES[name], O: "adafactor", F: "loop", A: NO_FLASH.get(name, "flash")}
       for name in ("gpt2", "qwen3-0.6b", "smollm2-135m", "phi-2")},
    "found-one-head-one-sequence": {"model": FAMILIES["gemma-2b"], "training.micro_batch": 1, "model.vocab_size": 8000},
    "found-one-head-one-sequence-eager": {"model": FAMILIES["gemma-2b"], "training.micro_batch": 1, "model.vocab_size": 8000, A: "eager"},
    **{f"found-loop-{name}": {"model": FAMILIES[name], F: "loop", A: NO_FLASH.get(name, "flash")} for name in ("gpt2", "qwen3-0.6b", "phi-2")},
    "found-qwen1.5-moe": {"model": model("qwen1.5-moe-a2.7b", num_hidden_layers=2, vocab_size=8000)},
    "found-qwen1.5-moe-full": {"model": model("qwen1.5-moe-a2.7b", num_hidden_layers=2, vocab_size=8000), **FULL},
}

# torchtune's own model code and loop. One key/value head: expanded, and copied all the same.
SMALL = {"model.vocab_size": 8000}
SENT = {"offload.activations": "cpu"}
IN_BACKWARD = {"training.optimizer_in_backward": True}
OF_TORCHTUNE = {"adapter.rank": 8, "adapter.type": "bf16", "adapter.target_modules": [
    "q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}
TORCHTUNE = {
    f"torchtune-{name}": {"implementation": "torchtune", F: "fused", **changes}
    for name, changes in {
        "llama": {},
        "small-vocabulary": SMALL,
        "full": FULL,
        "full-small-vocabulary": {**FULL, **SMALL},
        "chunked": {"training.loss": "chunked"},
        "chunked-full": {**FULL, "training.loss": "chunked"},
        "chunked-small-vocabulary": {"training.loss": "chunked", **SMALL},
        "chunked-odd": {"training.loss": "chunked", "training.sequence_length": 1000, "training.micro_batch": 3},
        "no-grouping": PLAIN_HEADS,
        "no-grouping-small-vocabulary": {**PLAIN_HEADS, **SMALL},
        "no-grouping-full-small-vocabulary": {**PLAIN_HEADS, **SMALL, **FULL},
        "one-head-small-vocabulary": {"model.num_key_value_heads": 1, **SMALL},
        "untied": {"model.tie_word_embeddings": False},
        "untied-chunked": {"model.tie_word_embeddings": False, "training.loss": "chunked"},
        "one-sequence": {"training.micro_batch": 1, "training.sequence_length": 4096},
        "accumulation": {"training.gradient_accumulation": 4},
        "accumulation-chunked-full": {"training.gradient_accumulation": 4, **FULL, "training.loss": "chunked", **SMALL},
        "foreach": {F: "foreach", **SMALL},
        "clip": {"training.gradient_clip": True, **SMALL, **FULL},
        "adamw-8bit": {O: "adamw-8bit", "training.loss": "chunked", **FULL},
        "in-backward": {**IN_BACKWARD, **FULL, "training.loss": "chunked"},
        "in-backward-small-vocabulary": {**IN_BACKWARD, **FULL, **SMALL},
        "in-backward-8bit": {**IN_BACKWARD, **FULL, "training.loss": "chunked", O: "adamw-8bit"},
        "offload": {**SENT, **FULL, "training.loss": "chunked"},
        "offload-small-vocabulary": {**SENT, **FULL, **SMALL},
        "offload-untied": {**SENT, **FULL, "training.loss": "chunked", "model.tie_word_embeddings": False},
        "offload-in-backward": {**SENT, **FULL, **IN_BACKWARD, "training.loss": "chunked"},
        "offload-lora-8": {**SENT, **FULL, **OF_TORCHTUNE, "training.loss": "chunked"},
        "offload-qlora-8": {**SENT, **FULL, **OF_TORCHTUNE, "adapter.base": "nf4", **SMALL},
        "lora-8": OF_TORCHTUNE,
        "lora-8-small-vocabulary": {**OF_TORCHTUNE, **SMALL},
        "lora-8-full": {**OF_TORCHTUNE, **FULL, **SMALL},
        "lora-8-chunked-full": {**OF_TORCHTUNE, **FULL, "training.loss": "chunked"},
        "lora-64": {**OF_TORCHTUNE, "adapter.rank": 64, **SMALL},
        "lora-8-attention": {**OF_TORCHTUNE, "adapter.target_modules": ["q_proj", "v_proj"], **SMALL},
        "lora-8-dropout": {**OF_TORCHTUNE, "adapter.dropout": 0.1, **SMALL},
        "qlora-8": {**OF_TORCHTUNE, "adapter.base": "nf4", **SMALL},
        "qlora-8-full": {**OF_TORCHTUNE, "adapter.base": "nf4", **FULL, **SMALL},
        "qlora-8-chunked-full": {**OF_TORCHTUNE, "adapter.base": "nf4", **FULL, "training.loss": "chunked"},
        "qlora-8-attention": {**OF_TORCHTUNE, "adapter.base": "nf4", "adapter.target_modules": ["q_proj", "v_proj"], **SMALL},
    }.items()
}

# What waits on the host, what is kept twice, and what is stepped at once.
CPU = {"offload.optimizer": "cpu"}
BOTH = {**CPU, "offload.parameters": "cpu"}
SECOND = {"engine": "deepspeed", "cluster.devices": 16, "parallel.zero_stage": 3, P: "bf16-mixed", F: "fused"}
SMALL = {"model.vocab_size": 8000}
SHORT_SEQUENCES = {"training.sequence_length": 128, "training.micro_batch": 1}
GATHERED_IN_8, REDUCED_IN_4 = {"parallel.quantized_gather": True}, {"parallel.quantized_reduce": True}
ELSEWHERE = {
    **{f"deepspeed-{stage}-8-offload{name}": {"engine": "deepspeed", "cluster.devices": 8, "parallel.zero_stage": stage,
                                              P: "bf16-mixed", **CPU, **changes}
       for stage in (1, 2, 3)
       for name, changes in {"": {}, "-small-vocabulary": {"model.vocab_size": 8000},
                             "-accumulation": {"training.gradient_accumulation": 4}}.items()},
    **{f"deepspeed-3-8-offload-both{name}": {"engine": "deepspeed", "cluster.devices": 8, "parallel.zero_stage": 3, P: "bf16-mixed",
                                             **BOTH, **changes}
       for name, changes in {"": {}, "-small-vocabulary": {"model.vocab_size": 8000}, "-full": FULL}.items()},
    "deepspeed-3-16-secondary-8": {**SECOND, "parallel.secondary_shard": 8},
    "deepspeed-3-16-secondary-4-small-vocabulary": {**SECOND, "parallel.secondary_shard": 4, "model.vocab_size": 8000},
    **{f"deepspeed-3-{n}-quantized-{name}": {**SECOND, "cluster.devices": n, "cluster.devices_per_node": 8, **changes}
       for n, name, changes in (
           (8, "gather-short", {**GATHERED_IN_8, **SHORT_SEQUENCES}),
           (8, "gather", GATHERED_IN_8), (8, "gather-small-vocabulary", {**GATHERED_IN_8, **SMALL}),
           (8, "gather-full", {**GATHERED_IN_8, **FULL}), (8, "gather-fp16", {**GATHERED_IN_8, P: "fp16-mixed"}),
           (8, "reduce", REDUCED_IN_4), (16, "reduce", REDUCED_IN_4), (16, "reduce-small-vocabulary", {**REDUCED_IN_4, **SMALL}),
           (16, "reduce-accumulation", {**REDUCED_IN_4, "training.gradient_accumulation": 4}),
           (16, "both", {**GATHERED_IN_8, **REDUCED_IN_4}), (64, "both-full", {**GATHERED_IN_8, **REDUCED_IN_4, **FULL}),
           (16, "both-secondary-8", {**GATHERED_IN_8, **REDUCED_IN_4, "parallel.secondary_shard": 8}),
           (16, "both-secondary-8-small-vocabulary", {**GATHERED_IN_8, **REDUCED_IN_4, **SMALL, "parallel.secondary_shard": 8}))},
    "deepspeed-3-16-shard-group-8": {**SECOND, "parallel.shard_group": 8},
    **{f"{engine}-8-offload{name}": {"engine": engine, "cluster.devices": 8, P: "bf16-mixed", **BOTH, **changes}
       for engine in ("fsdp1", "fsdp2")
       for name, changes in {"": {}, "-small-vocabulary": {"model.vocab_size": 8000}, "-full": FULL,
                             "-accumulation": {"training.gradient_accumulation": 4},
                             "-fp32-gradients": {P: "bf16-mixed-fp32-gradients"}}.items()},
    "llama-offload-activations": {"offload.activations": "cpu"},
    "llama-offload-activations-small-vocabulary": {"offload.activations": "cpu", "model.vocab_size": 8000},
    "llama-offload-activations-full": {"offload.activations": "cpu", "model.vocab_size": 8000, **FULL},
    "llama-in-backward": {"training.optimizer_in_backward": True},
    "llama-in-backward-small-vocabulary": {"training.optimizer_in_backward": True, "model.vocab_size": 8000},
    "llama-in-backward-fused": {"training.optimizer_in_backward": True, "model.vocab_size": 8000, F: "fused"},
    "llama-in-backward-8bit": {"training.optimizer_in_backward": True, "model.vocab_size": 8000, O: "adamw-8bit", F: "fused"},
}

# What a short hour on a GPU should say first: each precision, kernel, optimizer and recomputation once.
FIRST_ON_A_GPU = ("llama", "llama-autocast", "llama-fp32", "llama-full", "llama-adamw-fused", "llama-adamw-loop", "llama-eager",
                  "llama-efficient", "llama-accumulation", "llama-clip", "llama-every-2", "llama-sgd", "llama-adafactor",
                  "llama-adamw-8bit", "llama-long", "llama-16-layers", "family-gpt2", "family-qwen3-0.6b", "family-gemma-2b",
                  "family-mixtral", "lora-8")
# Once more with expandable segments: what is allocated is the same, what is reserved is not.
EXPANDABLE = (
    "llama", "llama-full", "llama-autocast", "llama-long", "llama-16-layers-full", "llama-small-vocabulary",
    "llama-accumulation", "llama-batch-8", "llama-adamw-8bit", "ddp-8", "fsdp1-8", "fsdp1-8-full", "fsdp2-8",
    "fsdp2-8-full", "fsdp2-8-16-layers-full", "fsdp2-8-small-vocabulary", "fsdp2-8-fp32-gradients", "fsdp2-64",
    "deepspeed-1-8", "deepspeed-2-8", "deepspeed-2-8-full", "deepspeed-3-8", "deepspeed-3-8-full",
    "deepspeed-3-8-small-vocabulary", "tensor-2", "tensor-4", "context-2-ring", "context-4-allgather",
    "pipeline-4-1f1b-stage-0", "pipeline-4-1f1b-full-stage-3", "pipeline-4-interleaved-stage-0",
    "pipeline-4-zb-v-stage-0", "pipeline-2-dualpipe-v-stage-1", "megatron-1", "megatron-data-8",
    "megatron-data-8-distributed", "megatron-fsdp-2-8", "megatron-fsdp-3-8", "megatron-fsdp-3-8-full",
    "megatron-tensor-2-distributed", "megatron-tensor-2-full", "megatron-tensor-2-selective",
    "megatron-tensor-2-pipeline-2-stage-0", "megatron-tensor-8-distributed")
# cuDNN's kernel, which is not there on paper.
CUDNN = {
    "llama-cudnn": {}, "llama-cudnn-full": FULL, "llama-cudnn-autocast": {P: "bf16-autocast"},
    "llama-cudnn-full-autocast": {**FULL, P: "bf16-autocast"}, "llama-cudnn-no-grouping": PLAIN_HEADS,
    "llama-cudnn-long": {"training.sequence_length": 8192, "training.micro_batch": 1},
    "llama-cudnn-odd": {"training.sequence_length": 1000, "training.micro_batch": 3},
    "llama-cudnn-short": {"training.sequence_length": 128, "training.micro_batch": 1},
    "llama-cudnn-small-vocabulary": {"model.vocab_size": 8000},
    "llama-cudnn-small-vocabulary-full": {**FULL, "model.vocab_size": 8000},
    "llama-cudnn-16-layers-full": {**FULL, "model.num_hidden_layers": 16},
    "llama-cudnn-every-2": {"recompute.mode": "every", "recompute.every": 2},
    "llama-cudnn-gpt2": {"model": FAMILIES["gpt2"]}, "llama-cudnn-qwen3": {"model": FAMILIES["qwen3-0.6b"]},
}
SEQUENCES = {"llama", "llama-cudnn", "llama-short", "llama-full", "llama-autocast", "fsdp2-8", "gpt2"}


# TRL's trainers: pairs of sequences, and a second model that scores them (preference.py).
DPO = {"training.method": "dpo", "training.micro_batch": 1}
PREFERENCE = {
    "dpo": DPO,
    "dpo-full": {**DPO, **FULL},
    "dpo-autocast": {**DPO, P: "bf16-autocast"},
    "dpo-two": {**DPO, "training.micro_batch": 2},
    "dpo-long": {**DPO, "training.sequence_length": 4096},
    "dpo-accumulation": {**DPO, "training.gradient_accumulation": 4},
    "dpo-precomputed": {**DPO, "training.reference": "precomputed"},
    "dpo-lora": {**DPO, "adapter.method": "lora", "adapter.rank": 16},
    "dpo-lora-full": {**DPO, "adapter.method": "lora", "adapter.rank": 16, **FULL},
    "dpo-lora-autocast": {**DPO, "adapter.method": "lora", "adapter.rank": 16, P: "bf16-autocast"},
    "dpo-full-autocast": {**DPO, **FULL, P: "bf16-autocast"},
    "dpo-fp32": {**DPO, P: "fp32", A: "efficient"},
    "dpo-small-vocabulary": {**DPO, "model.vocab_size": 8000},
    "dpo-untied": {**DPO, "model.tie_word_embeddings": False},
    "dpo-clipped": {**DPO, "training.gradient_clip": True},
    "dpo-qwen3-0.6b": {**DPO, "model": FAMILIES["qwen3-0.6b"]},
    **{f"dpo-plain{name}": {**DPO, "training.loss": "plain", **changes}
       for name, changes in {"": {}, "-autocast": {P: "bf16-autocast"}, "-full": FULL, "-two": {"training.micro_batch": 2},
                             "-lora": {"adapter.method": "lora", "adapter.rank": 16}}.items()},
    "dpo-ddp-8": {**DPO, "engine": "ddp", "cluster.devices": 8},
    **{f"dpo-deepspeed-{stage}-8": {**DPO, "engine": "deepspeed", "cluster.devices": 8, P: "bf16-mixed", "parallel.zero_stage": stage}
       for stage in (1, 2)},
    "dpo-fsdp2-8": {**DPO, "engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed"},
    "dpo-lora-fsdp2-8": {**DPO, "engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", "adapter.method": "lora", "adapter.rank": 16},
    "dpo-untied-fsdp2-8": {**DPO, "engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", "model.tie_word_embeddings": False},
    "dpo-untied-deepspeed-3-8": {**DPO, "engine": "deepspeed", "cluster.devices": 8, P: "bf16-mixed", "parallel.zero_stage": 3,
                                 "model.tie_word_embeddings": False},
    "dpo-fsdp1-8": {**DPO, "engine": "fsdp1", "cluster.devices": 8, P: "bf16-mixed"},
    "dpo-deepspeed-3-8": {**DPO, "engine": "deepspeed", "cluster.devices": 8, P: "bf16-mixed", "parallel.zero_stage": 3},
}

LORA_16 = {"adapter.method": "lora", "adapter.rank": 16}
# Every method with the same variations; `more` are its own.
METHODS = {
    "rm": {"training.method": "rm", "training.micro_batch": 1},
    "kto": {"training.method": "kto", "training.micro_batch": 2},
    "orpo": {"training.method": "orpo", "training.micro_batch": 1},
    "cpo": {"training.method": "cpo", "training.micro_batch": 1},
    "simpo": {"training.method": "cpo", "training.micro_batch": 1, "training.likelihood_of_chosen": False},
}
VARIED = {
    "": {}, "-full": FULL, "-autocast": {P: "bf16-autocast"}, "-full-autocast": {**FULL, P: "bf16-autocast"}, "-many": {"training.micro_batch": 4},
    "-accumulation": {"training.gradient_accumulation": 4}, "-lora": LORA_16, "-lora-autocast": {**LORA_16, P: "bf16-autocast"},
    "-lora-full": {**LORA_16, **FULL}, "-untied": {"model.tie_word_embeddings": False}, "-small-vocabulary": {"model.vocab_size": 8000},
    "-untied-fsdp2-8": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", "model.tie_word_embeddings": False},
    "-ddp-8": {"engine": "ddp", "cluster.devices": 8}, "-fsdp2-8": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed"},
    **{f"-deepspeed-{stage}-8": {"engine": "deepspeed", "cluster.devices": 8, P: "bf16-mixed", "parallel.zero_stage": stage} for stage in (1, 2, 3)},
}
GRPO = {"training.method": "grpo", "training.micro_batch": 2, "training.prompt_length": 512, "generation.engine": "elsewhere"}
ASKED = {"training.reference": "model"}
# Others are not recorded: what the device would count of their masks, the device on paper does not know.
PREFERENCE.update({
    "grpo": GRPO, "grpo-reference": {**GRPO, **ASKED}, "grpo-many": {**GRPO, "training.micro_batch": 8},
    "grpo-reference-autocast": {**GRPO, **ASKED, P: "bf16-autocast"},
    "grpo-ddp-8": {**GRPO, "engine": "ddp", "cluster.devices": 8},
    "grpo-fsdp2-8": {**GRPO, "engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed"},
    "grpo-deepspeed-2-8": {**GRPO, "engine": "deepspeed", "cluster.devices": 8, P: "bf16-mixed", "parallel.zero_stage": 2},
})
# CPO's loss is ORPO's but for numbers of each token: some of the variations do. KTO is not weighed with ZeRO-3.
CHOSEN = {"cpo": ("", "-full", "-autocast", "-many", "-untied-fsdp2-8", "-ddp-8", "-fsdp2-8", "-deepspeed-2-8"),
          "simpo": ("", "-full", "-autocast", "-many", "-lora", "-untied-fsdp2-8", "-fsdp2-8"),
          "kto": tuple(name for name in VARIED if name != "-deepspeed-3-8")}
PREFERENCE.update({f"{method}{name}": {**run, **changes} for method, run in METHODS.items() for name, changes in VARIED.items()
                   if name in CHOSEN.get(method, VARIED)})


def cases():
    table = {}
    for name, changes in SINGLE.items():
        table[name] = changed(ONE_DEVICE, changes)
    for name, changes in CUDNN.items():
        table[name] = changed(ONE_DEVICE, {**changes, A: "cudnn"})
    for name, config in FAMILIES.items():
        run = changed(ONE_DEVICE, {"model": config, "training.sequence_length": SHORT.get(name, 1024),
                                   "training.micro_batch": MANY.get(name, 2),
                                   A: NO_FLASH.get(name, "flash")})
        if name in TARGET:
            run = changed(run, {"training.target_sequence_length": TARGET[name]})
        table[f"family-{name}"] = run
        table[f"family-{name}-full"] = changed(run, FULL)
        table[f"family-{name}-autocast"] = changed(run, {P: "bf16-autocast"})
    for name in WIDER:
        run = table[f"family-{name}"]
        on_eight = {"cluster.devices": 8, P: "bf16-mixed"}
        table[f"family-{name}-fsdp2-8"] = changed(run, {"engine": "fsdp2", **on_eight})
        table[f"family-{name}-deepspeed-3-8"] = changed(run, {"engine": "deepspeed", "parallel.zero_stage": 3, **on_eight})
        table[f"family-{name}-lora"] = changed(run, {"adapter.method": "lora", "adapter.rank": 16})
    vision = table["family-vit-base"]
    table["family-vit-base-eager"] = changed(vision, {A: "eager"})
    table["family-vit-base-efficient"] = changed(vision, {A: "efficient"})
    table["family-vit-base-fp32"] = changed(vision, {A: "efficient", P: "fp32"})
    table["family-vit-base-fsdp2-8"] = changed(vision, {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed"})
    for stage in (1, 2, 3):
        table[f"family-vit-base-deepspeed-{stage}-8"] = changed(vision, {"engine": "deepspeed", "cluster.devices": 8, P: "bf16-mixed",
                                                                        "parallel.zero_stage": stage})
    for name in ("clip-vision-base", "siglip-vision"):
        table[f"family-{name}-eager"] = changed(table[f"family-{name}"], {A: "eager"})
        table[f"family-{name}-fp32"] = changed(table[f"family-{name}"], {A: "efficient", P: "fp32"})
    for name, more in (("t5-small", {"eager": {A: "eager"}, "fp32": {P: "fp32"}, "eager-full": {A: "eager", **FULL},
                                     "eager-fp32": {A: "eager", P: "fp32"}, "eager-autocast": {A: "eager", P: "bf16-autocast"},
                                     "no-dropout": {"training.dropout": 0}, "autocast-full": {P: "bf16-autocast", **FULL},
                                     "long": {"training.sequence_length": 2048, "training.target_sequence_length": 512},
                                     "unaligned": {"training.sequence_length": 500, "training.target_sequence_length": 114},
                                     "accumulation": {"training.gradient_accumulation": 4},
                                     "one-layer": ONE_LAYER, "one-layer-full": {**ONE_LAYER, **FULL},
                                     "one-layer-eager-full": {**ONE_LAYER, **FULL, A: "eager"},
                                     "one-sequence": {"training.micro_batch": 1},
                                     "one-sequence-full": {"training.micro_batch": 1, **FULL},
                                     "one-sequence-fp32-full": {"training.micro_batch": 1, P: "fp32", **FULL},
                                     "ddp-8": {"cluster.devices": 8},
                                     **{f"deepspeed-{stage}-8": {"engine": "deepspeed", "cluster.devices": 8, P: "bf16-mixed",
                                                                 "parallel.zero_stage": stage} for stage in (1, 2, 3)},
                                     "fsdp1-8": {"engine": "fsdp1", "cluster.devices": 8, P: "bf16-mixed"},
                                     "fsdp2-8": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed"},
                                     "fsdp2-8-full": {"engine": "fsdp2", "cluster.devices": 8, P: "bf16-mixed", **FULL}}),
                       ("t5-v1_1-base", {"eager": {A: "eager"}, "fp32": {P: "fp32"}, "fp32-full": {P: "fp32", **FULL}})):
        for kind, changes in more.items():
            table[f"family-{name}-{kind}"] = changed(table[f"family-{name}"], changes)
    for name, changes in {**ENGINES, **FLOAT8, **FSDP1, **WAITING, **TENSOR, **PIPELINE, **CHUNKED, **APART, **DEEPSPEED, **CONTEXT, **MEGATRON, **SCALING,
                          **ELSEWHERE, **VISION, **PAIRS, **LIGER, **PREFERENCE}.items():
        table[name] = changed(ONE_DEVICE, changes)
    for name, changes in {**LORA, **QLORA, **EXPERT_ADAPTERS, **FOUND, **SCALED, **TORCHTUNE}.items():
        table[name] = changed(ONE_DEVICE, changes)
    for name in EXPANDABLE:
        kind, stage, number = name.partition("-stage-")
        table[f"{kind}-expandable{stage}{number}"] = changed(table[name], {"environment.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
    return table


def stage_of(name):
    return int(name.rsplit("-stage-", 1)[1]) if "-stage-" in name else 0
