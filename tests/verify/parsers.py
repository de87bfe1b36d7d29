#!/usr/bin/env python3
"""Each engine's own reader of its configuration, one function an engine; run in a process of its own.

parsers.py ENGINE < what `steelyard export ENGINE RUN --json` prints            exit 0: the engine takes it

Every reader here is the engine's: where it ignores what it does not know, the names are compared with its own, too.
"""

import json
import os
import pathlib
import re
import shlex
import sys

from absent import absent

DEVICES = 8


def deepspeed(files):
    import deepspeed.comm as comm
    from deepspeed.runtime import config as module

    comm.is_initialized = lambda: True
    for name in ("get_world_size", "get_rank"):
        setattr(comm, name, lambda group=None, answer=DEVICES if name == "get_world_size" else 0: answer)
    module.dist = comm
    config = module.DeepSpeedConfig(json.loads(files["ds_config.json"]))
    assert config.train_batch_size == DEVICES * config.train_micro_batch_size_per_gpu * config.gradient_accumulation_steps


def accelerate(files):
    import yaml
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils import FullyShardedDataParallelPlugin

    for name, text in files.items():
        pathlib.Path(name).write_text(text)
    load_config_from_file("accelerate.yaml")
    parser = launch_command_parser()
    known = {action.dest for action in parser._actions}
    document = yaml.safe_load(files["accelerate.yaml"])
    for section in ("fsdp_config", "parallelism_config"):
        unknown = set(document.get(section, {})) - known
        assert not unknown, f"{section}: {unknown}"
    arguments, _, _ = _validate_launch_command(parser.parse_args(["--config_file", "accelerate.yaml", "train.py"]))
    assert arguments.num_processes == DEVICES
    if document["distributed_type"] == "FSDP":
        # The plugin reads what the launcher writes into the environment.
        from accelerate.utils.launch import prepare_multi_gpu_env

        os.environ.update(prepare_multi_gpu_env(arguments))
        # Asks for a device to put weights on.
        os.environ.update(FSDP_SYNC_MODULE_STATES="false", FSDP_CPU_RAM_EFFICIENT_LOADING="false")
        plugin = FullyShardedDataParallelPlugin()
        assert plugin.fsdp_version == document["fsdp_config"]["fsdp_version"]


def trainer(files):
    import dataclasses

    from transformers import HfArgumentParser, TrainingArguments

    words = shlex.split(files["launch.sh"].split("train.py", 1)[1].replace("\\\n", " "))
    known = {field.name for field in dataclasses.fields(TrainingArguments)}
    # Of TRL's SFTConfig and ModelConfig, or of the script.
    others = {"model_name_or_path", "max_length", "attn_implementation", "dtype"}
    kept, at = [], 0
    while at < len(words):
        name = words[at].removeprefix("--")
        assert name in known | others, f"unknown argument {name}"
        if name in known:
            kept += words[at:at + 2]
        at += 2
    HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(kept + ["--output_dir", "out", "--use_cpu", "True"])


def trl(files):
    from trl import ModelConfig, SFTConfig, TrlParser

    words = shlex.split(files["launch.sh"].split("train.py", 1)[1].replace("\\\n", " "))
    TrlParser((SFTConfig, ModelConfig)).parse_args_and_config([*words, "--output_dir", "out", "--use_cpu", "True"],
                                                              fail_with_unknown_args=True)


def torchtitan(files):
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims

    pathlib.Path("torchtitan.toml").write_text(files["torchtitan.toml"])
    config = ConfigManager().parse_args(["--job.config_file", "torchtitan.toml"])
    degrees = config.parallelism
    ParallelDims(dp_shard=degrees.data_parallel_shard_degree, dp_replicate=degrees.data_parallel_replicate_degree,
                 cp=degrees.context_parallel_degree, tp=degrees.tensor_parallel_degree,
                 pp=degrees.pipeline_parallel_degree, ep=degrees.expert_parallel_degree,
                 etp=degrees.expert_tensor_parallel_degree, world_size=DEVICES)
    import torchtitan.protocols.train_spec as specs

    flavors = specs.get_train_spec(config.model.name).model_args
    assert config.model.flavor in flavors, f"no flavor {config.model.flavor}"


def axolotl(files):
    import yaml
    from axolotl.utils.schemas.config import AxolotlInputConfig

    document = yaml.safe_load(files["axolotl.yaml"])
    plugins = {key for key in document if key.startswith("liger_")}
    unknown = set(document) - set(AxolotlInputConfig.model_fields) - plugins
    assert not unknown, f"keys that Axolotl ignores: {unknown}"
    AxolotlInputConfig(**document)
    # The same with what a machine can do, as its command asks it.
    from axolotl.utils.config import validate_config
    from axolotl.utils.dict import DictDefault

    validate_config(DictDefault(dict(document, datasets=[{"path": "text", "type": "alpaca"}])),
                    capabilities={"bf16": True, "fp8": True, "n_gpu": DEVICES, "n_node": 1, "compute_capability": "sm_90"},
                    env_capabilities={"torch_version": "2.11.0"})


def llama_factory(files):
    import yaml

    # As torchrun starts it, one process; it takes DeepSpeed's file only so.
    os.environ.update(DISABLE_VERSION_CHECK="1", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1",
                      MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    for name, text in files.items():
        pathlib.Path(name).write_text(text)
    from llamafactory.hparams import parser

    # What the file leaves to be edited, and a machine without GPUs.
    document = dict(yaml.safe_load(files["llama_factory.yaml"]), output_dir="out", dataset="identity", use_cpu=True)
    import transformers.training_args

    transformers.training_args.is_torch_bf16_gpu_available = lambda: True
    parser.get_train_args(document)


def nanotron(files):
    import dataclasses

    pathlib.Path("nanotron.yaml").write_text(files["nanotron.yaml"])
    with absent("flash_attn", "torchtyping", "datatrove", "boto3", "s3fs", "apex", "triton", "functorch"):
        from nanotron.config import get_config_from_file

        config = get_config_from_file("nanotron.yaml")
    degrees = config.parallelism
    assert degrees.dp * degrees.pp * degrees.tp * degrees.context_parallel_size == DEVICES
    assert dataclasses.is_dataclass(config.model.model_config)


def megatron(files):
    import typing

    import typing_extensions

    typing.override = typing_extensions.override  # before Python 3.12
    import torch

    array = re.search(r"ARGUMENTS=\((.*?)\n\)", files["launch.sh"], re.S).group(1)
    sys.argv = ["pretrain_gpt.py", *shlex.split(array, comments=True)]
    os.environ.update(WORLD_SIZE=str(DEVICES), RANK="0", CUDA_DEVICE_MAX_CONNECTIONS="1")
    torch.cuda.get_device_capability = lambda *_: (9, 0)  # several checks ask for it: an H100
    torch.cuda.get_device_properties = lambda *_: type("H100", (), {"major": 9, "minor": 0, "total_memory": 80 << 30})
    from megatron.training.argument_utils import core_transformer_config_from_args
    from megatron.training.arguments import parse_args, validate_args

    arguments = parse_args()
    validate_args(arguments)
    # Looks for Transformer Engine, which needs CUDA to be built.
    arguments.apply_rope_fusion = False
    core_transformer_config_from_args(arguments)


READERS = {"deepspeed": deepspeed, "accelerate": accelerate, "trainer": trainer, "trl": trl, "torchtitan": torchtitan,
           "axolotl": axolotl, "llama-factory": llama_factory, "nanotron": nanotron, "megatron": megatron}

if __name__ == "__main__":
    READERS[sys.argv[1]](json.load(sys.stdin)["files"])
