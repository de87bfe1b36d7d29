"""Two steps of Hugging Face's Trainer on noise, with the flags that were exported: the `train.py` of the launch scripts."""

import dataclasses
import os

import torch

if os.environ.get("STEELYARD_CPU_AS_DEVICE"):
    import cpu_as_device  # noqa: F401  before Accelerate looks for devices

from transformers import AutoConfig, AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
from watch import Watch


@dataclasses.dataclass
class Script:
    model_name_or_path: str = ""
    max_length: int = 32
    attn_implementation: str = "sdpa"
    dtype: str = "float32"
    use_peft: bool = False  # as TRL's ModelConfig names them
    lora_r: int = 16
    lora_alpha: int = 32
    lora_dropout: float = 0.0
    lora_target_modules: str = "all-linear"


def main():
    script, arguments = HfArgumentParser((Script, TrainingArguments)).parse_args_into_dataclasses()
    for name, value in {"max_steps": 2, "save_strategy": "no", "report_to": [], "learning_rate": 0.01,
                        "lr_scheduler_type": "constant", "disable_tqdm": True}.items():
        setattr(arguments, name, value)
    config = AutoConfig.from_pretrained(script.model_name_or_path)
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, script.dtype),
                                             attn_implementation=script.attn_implementation)
    model.config.use_cache = False
    if script.use_peft:
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=script.lora_r, lora_alpha=script.lora_alpha, lora_dropout=script.lora_dropout,
                                                 target_modules=script.lora_target_modules, task_type="CAUSAL_LM"))
    rows = [torch.randint(0, config.vocab_size, (script.max_length,)) for _ in range(256)]
    watch = Watch()
    trainer = Trainer(model=model, args=arguments, train_dataset=[{"input_ids": row, "labels": row} for row in rows],
                      callbacks=[watch])
    done = trainer.train()
    if trainer.is_world_process_zero():
        kinds = [kind.__name__ for kind in type(trainer.model_wrapped).__mro__]
        stage = getattr(trainer.model_wrapped, "zero_optimization_stage", lambda: None)()
        print(f"TRAINED steps={done.global_step} loss={done.training_loss:.3f} moved={watch.moved} "
              f"processes={trainer.accelerator.num_processes} kinds={','.join(kinds)} stage={stage}", flush=True)


main()
