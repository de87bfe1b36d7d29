#!/usr/bin/env python3
"""Has the engines' own parsers load what `steelyard export` writes; prints a table, one line an engine.

verify_exports.py --binary build/release/steelyard [--megatron-lm FOLDER]       (make verify)

Run by a Python that has tests/verify/requirements.txt. An engine that is not installed is reported as missing,
and the script fails; what an engine refuses is shown with its own words.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

RUNS = {
    "deepspeed": ["llama-3.1-8b --zero-stage 2", "llama-3.1-8b --zero-stage 3 --recompute-mode full",
                  "llama-2-7b --zero-stage 1 --precision fp16-mixed", "llama-3.2-1b --zero-stage 3 --micro-batch 4",
                  "qwen2.5-7b --zero-stage 1 --precision bf16-mixed-fp32-gradients"],
    "accelerate": ["llama-3.1-8b --engine fsdp2", "llama-3.1-8b --engine fsdp1 --zero-stage 2",
                   "llama-3.2-1b --engine ddp --precision bf16-autocast", "llama-3.1-8b --engine deepspeed --zero-stage 3",
                   "llama-3.1-8b --engine fsdp2 --zero-stage 2 --recompute-mode full"],
    "trainer": ["llama-3.1-8b --engine fsdp2", "llama-3.2-1b --engine ddp --precision bf16-autocast --optimizer adamw-8bit",
                "llama-3.2-1b --engine ddp --precision fp32 --recompute-mode full"],
    "torchtitan": ["llama-3.1-8b --recompute-mode full", "llama-3.1-70b --tensor 8 --recompute-mode full",
                   "llama-3.1-8b --recompute-mode every --recompute-every 2", "llama-3.1-8b --zero-stage 2 --compile",
                   "llama-3.1-8b --precision bf16-pure"],
    "axolotl": ["llama-3.1-8b --engine fsdp2", "llama-3.2-1b --engine ddp --precision bf16-autocast",
                "llama-3.1-8b --engine deepspeed --zero-stage 3 --recompute-mode full",
                "llama-3.2-1b --engine ddp --precision bf16-autocast --adapter-method lora --adapter-rank 16 --adapter-base nf4",
                "llama-3.2-1b --engine ddp --precision bf16-autocast --adapter-method dora --adapter-rank 8"],
    "nanotron": ["llama-3.2-1b", "llama-3.1-8b --tensor 8 --zero-stage 1"],
    "megatron": ["llama-3.1-8b --tensor 2 --zero-stage 1", "llama-3-70b --tensor 8 --recompute-mode full",
                 "gpt3-13b --tensor 4 --pipeline 2 --gradient-accumulation 8"],
}


def deepspeed_reads(files):
    import deepspeed.comm as comm
    from deepspeed.runtime.config import DeepSpeedConfig

    comm.is_initialized = lambda: True
    for name in ("get_world_size", "get_rank"):
        setattr(comm, name, lambda group=None, answer=8 if name == "get_world_size" else 0: answer)
    import deepspeed.runtime.config as module

    module.dist = comm
    config = DeepSpeedConfig(json.loads(files["ds_config.json"]))
    assert config.train_batch_size == 8 * config.train_micro_batch_size_per_gpu * config.gradient_accumulation_steps


def accelerate_reads(files):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    for name, text in files.items():
        pathlib.Path(name).write_text(text)
    load_config_from_file("accelerate.yaml")
    parser = launch_command_parser()
    known = {action.dest for action in parser._actions}
    import yaml

    document = yaml.safe_load(files["accelerate.yaml"])
    for section in ("fsdp_config", "parallelism_config"):
        unknown = set(document.get(section, {})) - known
        assert not unknown, f"{section}: {unknown}"
    arguments, _, _ = _validate_launch_command(parser.parse_args(["--config_file", "accelerate.yaml", "train.py"]))
    assert arguments.num_processes == 8


def trainer_reads(files):
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


def torchtitan_reads(files):
    pathlib.Path("torchtitan.toml").write_text(files["torchtitan.toml"])
    from torchtitan.config import ConfigManager

    ConfigManager().parse_args(["--job.config_file", "torchtitan.toml"])


def axolotl_reads(files):
    import yaml
    from axolotl.utils.schemas.config import AxolotlInputConfig

    document = yaml.safe_load(files["axolotl.yaml"])
    plugins = {key for key in document if key.startswith("liger_")}
    unknown = set(document) - set(AxolotlInputConfig.model_fields) - plugins
    assert not unknown, f"keys that Axolotl ignores: {unknown}"
    AxolotlInputConfig(**document)


def nanotron_reads(files):
    # The released package is older than its repository; the configuration's dataclasses are enough.
    import dacite
    import yaml
    from nanotron.config import Config

    document = yaml.safe_load(files["nanotron.yaml"])
    dacite.from_dict(Config, document, config=dacite.Config(strict=True, check_types=False))


def megatron_reads(files):
    import typing

    import typing_extensions

    typing.override = typing_extensions.override  # Python 3.11
    from megatron.training.arguments import parse_args

    array = re.search(r"ARGUMENTS=\((.*?)\n\)", files["launch.sh"], re.S).group(1)
    sys.argv = ["pretrain_gpt.py", *shlex.split(array, comments=True)]
    os.environ.update(WORLD_SIZE="8", RANK="0")
    parse_args()


PACKAGES = {"trainer": "transformers", "megatron": "megatron-core"}


def check(engine, binary, run, arguments):
    """One export, one parser, in a process of its own; what went wrong, or nothing."""
    target = "accelerate" if engine == "trainer" else engine
    command = [binary, "export", target, *run.split()[:1], "--on", "8xh100-sxm-80gb", "--sequence-length", "2048",
               *run.split()[1:], "--json"]
    exported = subprocess.run(command, capture_output=True, text=True)
    if exported.returncode != 0:
        return exported.stderr or exported.stdout
    environment = dict(os.environ)
    if engine == "megatron" and arguments.megatron_lm:
        environment["PYTHONPATH"] = arguments.megatron_lm + os.pathsep + environment.get("PYTHONPATH", "")
    with tempfile.TemporaryDirectory() as folder:
        read = subprocess.run([sys.executable, "-W", "ignore", str(pathlib.Path(__file__).resolve()), "--read", engine],
                              input=exported.stdout, capture_output=True, text=True, cwd=folder, env=environment)
    return "" if read.returncode == 0 else (read.stderr.strip().splitlines() or ["no word"])[-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary")
    parser.add_argument("--megatron-lm", default=os.environ.get("MEGATRON_LM"))
    parser.add_argument("--read")
    parser.add_argument("--engine", action="append")
    arguments = parser.parse_args()
    if arguments.read:
        globals()[arguments.read + "_reads"](json.load(sys.stdin)["files"])
        return 0
    binary = str(pathlib.Path(arguments.binary).resolve())
    failed = 0
    print(f"{'engine':<12} {'version':<10} {'accepted':>8}")
    for engine in arguments.engine or RUNS:
        package = PACKAGES.get(engine, engine)
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            version = "source" if engine == "megatron" and arguments.megatron_lm else ""
        if engine == "megatron" and not arguments.megatron_lm:
            print(f"{engine:<12} {version:<10} {'-':>8}  needs a checkout: --megatron-lm FOLDER (its package has no parser)")
            continue
        if not version:
            print(f"{engine:<12} {'-':<10} {'-':>8}  not installed: see tests/verify/requirements.txt")
            continue
        problems = [(run, check(engine, binary, run, arguments)) for run in RUNS[engine]]
        wrong = [(run, problem) for run, problem in problems if problem]
        failed += len(wrong)
        print(f"{engine:<12} {version:<10} {len(problems) - len(wrong)} of {len(problems):>2}", flush=True)
        for run, problem in wrong:
            print(f"    {run}: {problem}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
