#!/usr/bin/env python3
"""What torchtune's own configurations say of memory, as rows of src/formats/launch/torchtune_configs.def.

    torchtune_configs.py CHECKOUT > src/formats/launch/torchtune_configs.def

CHECKOUT is a checkout of github.com/pytorch/torchtune: recipes/configs/*/*.yaml. `tune run RECIPE --config NAME` takes one by its name.
"""
import json
import pathlib
import sys

import yaml

KEYS = ("batch_size gradient_accumulation_steps dtype optimizer_in_bwd enable_activation_checkpointing "
        "enable_activation_offloading ac_mode ac_option custom_sharded_layers fsdp_cpu_offload fsdp_reshard_after_forward "
        "data_parallel_replicate_dim data_parallel_shard_dim tensor_parallel_dim context_parallel_dim clip_grad_norm compile "
        "device enable_fp8_training").split()


def row(document):
    said = {"model": document["model"]}
    said["tokenizer"] = {"max_seq_len": (document.get("tokenizer") or {}).get("max_seq_len")}
    optimizer = document["optimizer"]
    said["optimizer"] = {key: optimizer[key] for key in ("_component_", "fused") if key in optimizer}
    if isinstance(document.get("loss"), dict):
        said["loss"] = {key: value for key, value in document["loss"].items() if key in ("_component_", "num_output_chunks")}
    if (document.get("dataset") or {}).get("packed"):
        said["dataset"] = {"packed": True}
    said.update({key: document[key] for key in KEYS if key in document})
    return said


def main(checkout):
    configs = pathlib.Path(checkout) / "recipes" / "configs"
    print("// torchtune's own configurations by name, by tools/torchtune_configs.py (recipes/configs, 0.7): CONFIG(name, what it says).")
    for path in sorted(configs.glob("*/*.yaml")):
        if path.parent.name == "dev":
            continue
        document = yaml.safe_load(path.read_text())
        if "batch_size" not in document or "optimizer" not in document or not isinstance(document.get("model"), dict):
            continue
        if "teacher_model" in document or "policy_model" in document:
            continue
        name = f"{path.parent.name}/{path.stem}"
        print(f'CONFIG("{name}", R"({json.dumps(row(document), separators=(",", ":"))})")')


main(sys.argv[1])
