"""What is launched on paper: one row for each exported file, and what stands in it beside what `steelyard export` wrote.

A row's `added` are words behind the command (data, number of steps, a tokenizer): what a user fills in. Nothing that the engine reads
of the layout is changed. `missing` says why a row cannot run here; it stands in the table all the same.
"""

import dataclasses


@dataclasses.dataclass
class Row:
    engine: str          # the target of `steelyard export`
    flags: str
    model: str = "small"
    script: str = ""     # programs/NAME, put where launch.sh looks for the training program
    as_name: str = "train.py"
    added: str = ""
    missing: str = ""
    entry: str = ""      # who runs the step
    weights: bool = False  # the engine loads them from the model's folder
    known: float = 0.0   # how far weigh is off as far as is known, a share of what was asked for; `cause` says what it is
    cause: str = ""


LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
         "rope_theta": 10000.0, "tie_word_embeddings": False, "max_position_embeddings": 4096}
MODELS = {
    "small": {**LLAMA, "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 4, "num_attention_heads": 8,
              "num_key_value_heads": 4, "vocab_size": 32000},
    "medium": {**LLAMA, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
               "num_key_value_heads": 8, "vocab_size": 32000},
}

TRAINER = dict(script="train.py", entry="Hugging Face's Trainer")
FSDP2 = dict(script="train_fsdp2.py", entry="the written lines and a loop over `step`")
TITAN = dict(entry="torchtitan.train", added="--training.dataset c4_test --training.dataset_path text --training.steps 4 "
             "--model.hf_assets_path tokens --metrics.log_freq 1000")
FACTORY = dict(weights=True, script="train_llama_factory.py", as_name="src/train.py", entry="LLaMA-Factory's run_exp",
               added="dataset_dir=text dataset=dialogues max_steps=4 report_to=none save_steps=1000000 overwrite_cache=true")
# Transformer Engine and Apex are built for a device: Megatron-LM's own layers and PyTorch's AdamW take their place.
MEGATRON = dict(entry="Megatron-LM's pretrain_gpt.py", added="--transformer-impl local --no-rope-fusion "
                "--no-gradient-accumulation-fusion --no-persist-layer-norm --no-masked-softmax-fusion --no-bias-swiglu-fusion "
                "--train-iters 4 --eval-interval 1000 --eval-iters 0 --rerun-mode disabled "
                "--no-check-for-nan-in-loss-and-grad")

ROWS = [
    Row("accelerate", "--engine ddp --precision bf16-autocast", **TRAINER),
    Row("accelerate", "--engine ddp --precision bf16-autocast --recompute-mode full --gradient-accumulation 2", **TRAINER),
    Row("accelerate", "--engine ddp --precision bf16-autocast --gradient-clip 1.0", "medium", **TRAINER),
    Row("accelerate", "--engine ddp --precision bf16-autocast --recompute-mode full", "medium", **TRAINER),
    Row("accelerate", "--engine fsdp2", **TRAINER),
    Row("accelerate", "--engine fsdp2 --recompute-mode full", "medium", **TRAINER),
    Row("accelerate", "--engine fsdp2 --zero-stage 2 --gradient-accumulation 2 --gradient-clip 1.0", **TRAINER),
    Row("accelerate", "--engine fsdp2 --offload-parameters cpu --offload-optimizer cpu", **TRAINER),
    Row("accelerate", "--engine fsdp2 --context 2", **TRAINER),
    Row("accelerate", "--engine ddp --precision bf16-autocast --adapter-method lora --adapter-rank 16", **TRAINER),
    Row("accelerate", "--engine fsdp2 --tensor 2", **TRAINER, missing="Accelerate divides the tensors of a model only if its program "
        "loads it with a plan (device_mesh=); the Trainer's program does not"),
    Row("accelerate", "--engine fsdp1", **TRAINER, known=0.0053, cause="the size of one layer's gathered parameters in bf16 "
        "(6.3 MB), which weigh holds at the peak of backward and PyTorch does not; not analysed further"),
    Row("accelerate", "--engine deepspeed --zero-stage 2", **TRAINER),
    Row("deepspeed", "--zero-stage 1", **TRAINER),
    Row("deepspeed", "--zero-stage 2 --gradient-clip 1.0", **TRAINER),
    Row("deepspeed", "--zero-stage 2 --recompute-mode full", "medium", **TRAINER, known=-0.0053, cause="the bucket fills within a layer: "
        "33 MB, one 16-bit tensor of the MLP's width, are alive when it is flattened, and weigh fills it at another gradient"),
    Row("deepspeed", "--zero-stage 3", **TRAINER),
    Row("deepspeed", "--zero-stage 3 --recompute-mode full --gradient-clip 1.0", "medium", **TRAINER, known=0.0258, cause="weigh is 294 MB "
        "low in the first backward and 161 MB high in later ones: the order in which the trace gathers and releases under checkpoints; "
        "not analysed"),
    Row("deepspeed", "--zero-stage 2 --offload-optimizer cpu", **TRAINER),
    Row("deepspeed", "--zero-stage 3 --offload-optimizer cpu --offload-parameters cpu", **TRAINER),
    Row("deepspeed", "--zero-stage 3 --context 2", **TRAINER, missing="does not start: with sequence_parallel_size alone the Trainer "
        "counts the ranks of one sequence as data ranks, and its train_batch_size is not the file's (transformers wants a ParallelismConfig)"),
    Row("fsdp2", "", **FSDP2),
    Row("fsdp2", "--recompute-mode full --gradient-clip 1.0", "medium", **FSDP2),
    Row("fsdp2", "--zero-stage 2 --gradient-accumulation 2", **FSDP2),
    Row("fsdp2", "--replicate 2 --precision bf16-pure", **FSDP2),
    Row("fsdp2", "--offload-parameters cpu --offload-optimizer cpu", **FSDP2),
    Row("torchtitan", "--gradient-clip 1.0", "llama-3.1-8b", **TITAN),
    Row("torchtitan", "--recompute-mode full --gradient-clip 1.0", "llama-3.1-8b", **TITAN),
    Row("torchtitan", "--tensor 2 --recompute-mode full --gradient-clip 1.0", "llama-3.1-8b", **TITAN),
    Row("torchtitan", "--context 2 --gradient-clip 1.0", "llama-3.1-8b", **TITAN, known=-0.0430, cause="with half the logits the peak is the "
        "reduction of the head's gradient (fp32 input of 2.1 GB, its output, the 16-bit gradient of 1.05 GB and a layer fetched ahead), "
        "936 MB more than weigh has there; which of them it lets go is not analysed"),
    Row("torchtitan", "--zero-stage 2 --gradient-accumulation 2 --gradient-clip 1.0", "llama-3.1-8b", **TITAN),
    Row("megatron", "--attention eager", **MEGATRON, known=0.0017, cause="2.6 MB, not analysed (Megatron-LM's "
        "own layers ran, without Transformer Engine and Apex); the optimizer phase lies 306 MB above, PyTorch's AdamW in place of Apex's"),
    Row("megatron", "--attention eager --tensor 2 --zero-stage 1", **MEGATRON, known=-0.0013, cause="0.8 MB, not "
        "analysed (Megatron-LM's own layers ran, without Transformer Engine and Apex)"),
    Row("megatron", "--attention eager --tensor 2 --sequence-parallel=false --zero-stage 1 --recompute-mode full", "medium", **MEGATRON,
        known=0.0617, cause="weigh has 1.04 GB more in forward and 0.97 GB in backward than ran, in the first step too; not analysed"),
    Row("megatron", "--attention eager --tensor 2 --pipeline 2 --gradient-accumulation 4", **MEGATRON, known=-0.0768,
        cause="weigh is 25 to 36 MB low on the first stage, from the first step on; not analysed"),
    Row("megatron", "--context 2 --zero-stage 1", missing="context parallelism is Transformer Engine's attention alone, which is built for a device",
        **MEGATRON),
    Row("llama-factory", "--engine ddp --precision bf16-autocast --recompute-mode full", **FACTORY),
    Row("llama-factory", "--engine ddp --precision bf16-autocast --adapter-method lora --adapter-rank 16", **FACTORY),
    Row("llama-factory", "--engine deepspeed --zero-stage 3 --recompute-mode full", **FACTORY),
    Row("trl", "", entry="TRL's sft script", missing="not started yet: what `export accelerate` writes names a train.py of the user's, and "
        "the Trainer's rows run it"),
    Row("axolotl", "--engine fsdp2", entry="axolotl.cli.train", missing="imports xformers, flash-linear-attention and Triton's kernels, "
        "which have to be built for a device or compiled on one"),
    Row("nanotron", "--tensor 2", entry="nanotron's run_train.py", missing="its layers import flash_attn and Triton's kernels; "
        "truth/nanotron_engine.py records its engine with stand-ins for them, its own script is not started"),
]
