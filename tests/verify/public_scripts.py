"""Public training scripts that `make verify-rehearse` rehearses, each at one commit of its repository and from its own launch line.

A row's command is what the repository's own text says to run, with a small model's name, a path for output and few steps where the
script asks for them. `prepare` makes what the script's own preparation would have downloaded.
"""

import dataclasses


@dataclasses.dataclass
class Script:
    name: str
    repository: str        # on github.com; "installed": of the package in the environment
    commit: str
    command: str
    folder: str = "."      # where the command is run, within the repository
    on: str = "1xh100-sxm-80gb"
    flags: str = ""        # of rehearse
    prepare: str = ""      # Python that is run first, there
    missing: str = ""      # why it is not run here

    @property
    def url(self):
        if self.repository == "installed":
            return ""
        return f"https://github.com/{self.repository}/tree/{self.commit}/{self.folder if self.folder != '.' else ''}".rstrip("/")


NANOGPT = dict(repository="karpathy/nanoGPT", commit="3adf61e154c3fe3fca428ad6bc3818b27a3b8291",
               prepare="import numpy, os; os.makedirs('data/openwebtext', exist_ok=True); [numpy.random.randint(0, 50257, 1 << 20)"
                       ".astype(numpy.uint16).tofile(f'data/openwebtext/{part}.bin') for part in ('train', 'val')]")
TORCH = dict(repository="pytorch/examples", commit="77f55b912142e11fcfdf5b530231fb9c52f181e8")
TRL = dict(repository="installed", commit="", flags="--data random:1024")
EIGHT = "8xh100-sxm-80gb"

SCRIPTS = [
    Script("nanoGPT, one device", command="python train.py config/train_gpt2.py --wandb_log=False --compile=False --gradient_accumulation_steps=5", **NANOGPT),
    Script("nanoGPT, compiled", command="python train.py config/train_gpt2.py --wandb_log=False --gradient_accumulation_steps=5", **NANOGPT),
    Script("nanoGPT, DDP", command="torchrun --standalone --nproc_per_node=8 train.py config/train_gpt2.py --wandb_log=False --compile=False", on=EIGHT,
           **NANOGPT),
    Script("PyTorch's FSDP2 example", command="torchrun --nproc_per_node 8 example.py --mixed-precision --explicit-prefetching",
           folder="distributed/FSDP2", on=EIGHT, **TORCH),
    Script("PyTorch's FSDP2 with tensor parallelism", command="torchrun --nnodes 1 --nproc-per-node 8 fsdp_tp_example.py",
           folder="distributed/tensor_parallelism", on=EIGHT, **TORCH),
    Script("PyTorch's sequence parallelism", command="torchrun --nproc-per-node 8 sequence_parallel_example.py",
           folder="distributed/tensor_parallelism", on=EIGHT, **TORCH),
    Script("PyTorch's DDP tutorial, spawn", command="python multigpu.py 50 10", folder="distributed/ddp-tutorial-series", on=EIGHT, **TORCH),
    Script("PyTorch's DDP tutorial, torchrun", command="torchrun --standalone --nproc_per_node=8 multigpu_torchrun.py 50 10",
           folder="distributed/ddp-tutorial-series", on=EIGHT, **TORCH),
    Script("TRL: SFT", command="python -m trl.scripts.sft --model_name_or_path Qwen/Qwen3-0.6B --dataset_name trl-lib/Capybara "
           "--output_dir out --max_length 1024 --per_device_train_batch_size 2", **TRL),
    Script("TRL: SFT with LoRA", command="python -m trl.scripts.sft --model_name_or_path Qwen/Qwen3-4B --dataset_name trl-lib/Capybara "
           "--output_dir out --max_length 1024 --use_peft --lora_r 32", **TRL),
    Script("TRL: DPO", command="python -m trl.scripts.dpo --model_name_or_path Qwen/Qwen3-0.6B --dataset_name "
           "trl-lib/ultrafeedback_binarized --output_dir out --per_device_train_batch_size 2", **TRL),
    Script("TRL: reward model", command="python -m trl.scripts.reward --model_name_or_path Qwen/Qwen3-0.6B --dataset_name "
           "trl-lib/ultrafeedback_binarized --output_dir out --per_device_train_batch_size 2", **TRL),
    Script("PEFT: DoRA", repository="huggingface/peft", commit="5d602fdbff04c33c1c4de55cda9d4ae1d7cb7e40", folder="examples/dora_finetuning",
           command="python dora_finetuning.py --base_model Qwen/Qwen3-0.6B --data_path timdettmers/openassistant-guanaco --use_dora",
           flags="--data random:512"),
    Script("Accelerate: FSDP2 by ParallelismConfig", repository="huggingface/accelerate", commit="16cb6eb80dd9aa8b4df1a63ef57863e455d53b83",
           folder="examples/torch_native_parallelism", on=EIGHT, flags="--data random:1024",
           command="accelerate launch --num-processes 8 nd_parallel.py --dp-shard-size 8 --model-name NousResearch/Llama-3.2-1B"),
    Script("DeepSpeedExamples: bf16 master weights", repository="deepspeedai/DeepSpeedExamples", commit="45b4b7156c8794a3452a5a7d03dbd8d797068569",
           folder="training/bf16_master_weight", command="deepspeed --num_gpus=1 train.py --deepspeed_config configs/baseline.json"),
    Script("minGPT: adder", repository="karpathy/minGPT", commit="37baab71b9abea1b76ab957409a1cc2fbfba8a26", command="python projects/adder/adder.py"),
]
