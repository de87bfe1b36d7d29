"""Adapters and quantised bases of a run file, as a user of PEFT and bitsandbytes would make them."""

import re

import torch


def quantise(model, base, double, compute):
    """Every linear module but the head becomes bitsandbytes' own; the weights are quantised on their way to the device."""
    import bitsandbytes as bnb
    for name, module in list(model.named_modules()):
        if type(module) is not torch.nn.Linear or name == "lm_head":
            continue
        bias = module.bias is not None
        if base == "nf4":
            new = bnb.nn.Linear4bit(module.in_features, module.out_features, bias, compute_dtype=compute,
                                    compress_statistics=double, quant_type="nf4", device="meta")
            new.weight = bnb.nn.Params4bit(module.weight.data, requires_grad=False, compress_statistics=double,
                                           quant_type="nf4", module=new)
        else:
            new = bnb.nn.Linear8bitLt(module.in_features, module.out_features, bias, has_fp16_weights=False,
                                      threshold=6.0, device="meta")
            new.weight = bnb.nn.Int8Params(module.weight.data, requires_grad=False, has_fp16_weights=False)
        new.bias = module.bias
        new.source_cls = type(module)
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, new)
    setattr(model, "is_loaded_in_4bit" if base == "nf4" else "is_loaded_in_8bit", True)


def adapt(adapter, model, compute):
    """`compute`: what products of quantised weights are computed in."""
    from peft import get_peft_model, prepare_model_for_kbit_training
    if adapter.get("base") in ("nf4", "int8"):
        quantise(model, adapter["base"], adapter.get("double_quantization", False), compute)
        if adapter.get("upcast", True):
            model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    return get_peft_model(model, config_of(adapter), autocast_adapter_dtype=adapter.get("type", "fp32") == "fp32")


def config_of(adapter, task="CAUSAL_LM"):
    """PEFT's own words for it."""
    from peft import LoraConfig
    targets = adapter.get("target_modules", "all-linear")
    if any("*" in target for target in targets):  # patterns of whole names are one regular expression
        targets = "|".join(re.escape(target).replace(r"\*", ".*") for target in targets)
    rank = adapter.get("rank", 8)
    return LoraConfig(
        r=rank, lora_alpha=adapter.get("alpha", rank), target_modules=targets,
        modules_to_save=adapter.get("saved_modules"), lora_dropout=float(adapter.get("dropout", 0.0)),
        use_dora=adapter.get("method") == "dora", task_type=task)
