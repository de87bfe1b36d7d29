"""Two steps of a tiny model with an exported file, on gloo processes of this machine's CPU.

    problem = launch(Launch("accelerate", "--engine fsdp2", "FSDPModule"), binary)      "" when it trained

`steelyard export` writes the files; what is changed in them is said beside each target: the name of the training program (which a
user brings), the size of the model, and what exists only on a GPU. What the engine reads of the layout stays as it was written.
"""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
         "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
         "max_position_embeddings": 128, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
         "tie_word_embeddings": False}


@dataclasses.dataclass
class Launch:
    target: str
    flags: str
    shows: str  # a word of what trained: the class that the engine made of the model, or its optimizer
    processes: int = 2
    model: str = "tiny"
    missing: str = ""  # why the CPU cannot run it; the table shows it


LAUNCHES = [
    Launch("accelerate", "--engine ddp --precision bf16-autocast --gradient-accumulation 2", "DistributedDataParallel"),
    Launch("accelerate", "--engine fsdp1 --zero-stage 2", "FullyShardedDataParallel"),
    Launch("accelerate", "--engine fsdp2 --recompute-mode full", "FSDPModule", 4),
    Launch("accelerate", "--engine deepspeed --zero-stage 2 --gradient-accumulation 2", "DeepSpeedEngine"),
    Launch("accelerate", "--engine fsdp2 --offload-parameters cpu --offload-optimizer cpu", "FSDPModule"),
    Launch("accelerate", "--engine fsdp2 --context 2", "FSDPModule", 4,
           missing="PyTorch's ring attention divides the kernels of CUDA alone (aten._scaled_dot_product_flash_attention_for_cpu has "
           "no sharding strategy)"),
    Launch("accelerate", "--engine fsdp2 --tensor 2", "FSDPModule", 4,
           missing="Accelerate divides the tensors of a model only if its program loads it with a plan; the Trainer's program does not"),
    Launch("accelerate", "--engine ddp --precision bf16-autocast --adapter-method lora --adapter-rank 4", "DistributedDataParallel"),
    Launch("deepspeed", "--zero-stage 1 --precision bf16-mixed-fp32-gradients", "stage=1"),
    Launch("deepspeed", "--zero-stage 2 --micro-batch 2", "stage=2"),
    Launch("deepspeed", "--zero-stage 3 --recompute-mode full", "stage=3", 4),
    Launch("deepspeed", "--zero-stage 2 --offload-optimizer cpu", "stage=2"),
    Launch("deepspeed", "--zero-stage 3 --offload-optimizer cpu --offload-parameters cpu", "stage=3"),
    Launch("deepspeed", "--zero-stage 3 --context 2", "stage=3", 4, missing="does not start: with sequence_parallel_size alone the "
           "Trainer counts the ranks of one sequence as data ranks, and its train_batch_size is not the file's"),
    Launch("fsdp2", "--gradient-clip 1.0", "FSDPModule"),
    Launch("fsdp2", "--offload-parameters cpu --offload-optimizer cpu", "FSDPModule"),
    Launch("fsdp2", "--zero-stage 2 --recompute-mode every --recompute-every 2 --gradient-accumulation 2", "FSDPModule"),
    Launch("fsdp2", "--replicate 2 --precision bf16-pure", "FSDPModule", 4),
    Launch("torchtitan", "--gradient-clip 1.0", "FSDPModule", 2, "llama-3.1-8b"),
    Launch("torchtitan", "--tensor 2 --recompute-mode full", "FSDPModule", 4, "llama-3.1-8b"),
    Launch("torchtitan", "--zero-stage 2 --recompute-mode every --recompute-every 2 --gradient-accumulation 2", "FSDPModule",
           2, "llama-3.1-8b"),
    Launch("torchtitan", "--context 2", "FSDPModule", 4, "llama-3.1-8b", missing="PyTorch's ring attention divides the kernels of "
           "CUDA alone"),
    Launch("torchtitan", "--pipeline 2 --gradient-accumulation 2", "FSDPModule", 4, "llama-3.1-8b"),
    Launch("llama-factory", "--engine ddp --precision bf16-autocast --recompute-mode full", "LlamaForCausalLM"),
    Launch("llama-factory", "--engine ddp --precision bf16-autocast --adapter-method lora --adapter-rank 4 "
           "--gradient-accumulation 2", "PeftModel"),
    Launch("megatron", "--tensor 2 --sequence-parallel=false --recompute-mode selective", "Optimizer"),
    Launch("megatron", "--zero-stage 1 --recompute-mode full --gradient-accumulation 2", "DistributedOptimizer"),
    Launch("megatron", "--tensor 2 --zero-stage 1 --sequence-parallel=false", "DistributedOptimizer", 4),
    Launch("megatron", "--tensor 2", "Optimizer", missing="sequence parallelism asks for Apex's or Transformer Engine's norm; on paper "
           "it runs"),
    Launch("megatron", "--context 2", "Optimizer", missing="context parallelism is Transformer Engine's attention alone"),
    Launch("megatron", "--tensor 2 --pipeline 2 --sequence-parallel=false --gradient-accumulation 4", "Optimizer", 4),
]


def write_tokenizer(folder):
    """A tokenizer of 250 words, and a text for it: what engines load beside their model."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {f"w{index}": index for index in range(250)} | {"<unk>": 250, "<s>": 251, "</s>": 252}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}))


def write_text(folder):
    lines = [" ".join(f"w{row * word % 250}" for word in range(200)) for row in range(200)]
    (folder / "text").mkdir()
    (folder / "text" / "text.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    (folder / "text" / "dialogues.json").write_text(json.dumps([{"instruction": line[:40], "input": "", "output": line[40:90]}
                                                                for line in lines]))
    (folder / "text" / "dataset_info.json").write_text(json.dumps({"dialogues": {"file_name": "dialogues.json"}}))


def write_weights(folder):
    program = ("import sys; from transformers import AutoConfig, AutoModelForCausalLM as Model; "
               "Model.from_config(AutoConfig.from_pretrained(sys.argv[1])).save_pretrained(sys.argv[1])")
    subprocess.run([sys.executable, "-c", program, folder], capture_output=True, check=True)


def on_the_cpu(launch, folder):
    """The exported script with this machine's programs; and what the environment says."""
    script = (folder / "launch.sh").read_text()
    environment = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    if launch.target in ("accelerate", "deepspeed"):
        script = script.replace(" train.py", f" {PROGRAMS / 'train.py'}").replace("flash_attention_2", "sdpa")
        environment["STEELYARD_CPU_AS_DEVICE"] = "1"
        if "ddp" in launch.flags:
            environment = {**environment, "STEELYARD_CPU_AS_DEVICE": "", "ACCELERATE_USE_CPU": "true"}
            script = script.rstrip() + " --use_cpu true\n"
        if "deepspeed" in (launch.target, *launch.flags.split()):
            environment["DS_ACCELERATOR"] = "cpu"
        if "fsdp1" in launch.flags:  # FSDP1 broadcasts weights from a GPU only
            script = script.replace("accelerate.yaml", "accelerate.yaml --fsdp_sync_module_states false "
                                    "--fsdp_cpu_ram_efficient_loading false")
    elif launch.target == "fsdp2":
        setup = folder / "setup_fsdp2.py"
        setup.write_text(setup.read_text().replace('"cuda"', '"cpu"').replace("flash_attention_2", "sdpa"))
        script = script.replace(" train.py  # imports setup_fsdp2", f" {PROGRAMS / 'train_fsdp2.py'}")
    elif launch.target == "torchtitan":
        document = folder / "torchtitan.toml"
        document.write_text(re.sub('flavor = ".*"', 'flavor = "debugmodel"', document.read_text()))
        script = script.replace("-m torchtitan.train", str(PROGRAMS / "train_torchtitan.py")).rstrip()
        script += (" --model.hf_assets_path tiny --training.dataset c4_test --training.dataset_path text "
                   "--training.steps 2\n")
    elif launch.target == "llama-factory":
        script = script.replace("src/train.py", str(PROGRAMS / "train_llama_factory.py")).rstrip()
        script += " dataset_dir=text dataset=dialogues max_steps=2 learning_rate=0.01 use_cpu=true report_to=none\n"
        environment["DISABLE_VERSION_CHECK"] = "1"
    elif launch.target == "megatron":
        # Transformer Engine and Apex, which need CUDA to be built, are replaced by Megatron's own plain layers.
        script = script.replace("pretrain_gpt.py", str(PROGRAMS / "train_megatron.py")).rstrip()
        script += (" --transformer-impl local --no-rope-fusion --no-gradient-accumulation-fusion --no-persist-layer-norm "
                   "--no-masked-softmax-fusion\n")
    return script, environment


def launch(what, binary, more_paths=()):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tiny").mkdir()
        (folder / "tiny" / "config.json").write_text(json.dumps(MODEL))
        write_tokenizer(folder / "tiny")
        write_text(folder)
        command = [binary, "export", what.target, what.model, "--on", f"{what.processes}xh100-sxm-80gb",
                   "--sequence-length", "32", *what.flags.split(), "--to-folder", "."]
        if what.target in ("accelerate", "deepspeed", "llama-factory") and "--context" not in what.flags:
            command += ["--attention", "eager"]  # the flash kernel is CUDA's
        exported = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if exported.returncode != 0:
            return exported.stderr or exported.stdout
        if what.target == "llama-factory":
            write_weights(folder / "tiny")
        script, environment = on_the_cpu(what, folder)
        environment["PYTHONPATH"] = os.pathsep.join([*map(str, more_paths), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
        environment["PATH"] = str(pathlib.Path(sys.executable).parent) + os.pathsep + os.environ["PATH"]
        limit = 900 if "offload" in what.flags else 300  # DeepSpeed compiles its Adam of the host first
        try:
            ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=folder, timeout=limit,
                                 env={**os.environ, **environment})
        except subprocess.TimeoutExpired:
            return f"not within {limit} s"
        said = [line for line in ran.stdout.splitlines() if line.startswith("TRAINED")]
        if ran.returncode != 0 or not said:
            errors = [line for line in (ran.stderr + ran.stdout).splitlines() if re.search(r"\w*(Error|Exception)\b.*:", line)]
            return errors[0] if errors else (ran.stderr.strip().splitlines() or ["no word"])[-1]
        words = said[-1]
        for part in ("steps=2", "moved=True", what.shows, f"processes={what.processes}"):
            if part not in words:
                return f"{part} expected, {words}"
        return ""
