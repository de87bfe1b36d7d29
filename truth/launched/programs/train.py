"""The `train.py` that a user brings to what `export accelerate` and `export deepspeed` write: Hugging Face's Trainer on sequences of full length."""

import dataclasses

import torch
from transformers import AutoConfig, AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

STEPS = 4


@dataclasses.dataclass
class Script:
    model_name_or_path: str = ""
    max_length: int = 1024
    attn_implementation: str = "sdpa"
    dtype: str = "float32"
    use_peft: bool = False  # as TRL's ModelConfig names them
    lora_r: int = 16
    lora_alpha: int = 32
    lora_dropout: float = 0.0
    lora_target_modules: str = "all-linear"


def main():
    script, arguments = HfArgumentParser((Script, TrainingArguments)).parse_args_into_dataclasses()
    arguments.max_steps, arguments.save_strategy, arguments.report_to, arguments.disable_tqdm = STEPS, "no", [], True
    config = AutoConfig.from_pretrained(script.model_name_or_path)
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, script.dtype),
                                             attn_implementation=script.attn_implementation)
    model.config.use_cache = False
    if script.use_peft:
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=script.lora_r, lora_alpha=script.lora_alpha, lora_dropout=script.lora_dropout,
                                                 target_modules=script.lora_target_modules, task_type="CAUSAL_LM"))
    row = torch.zeros(script.max_length, dtype=torch.long)
    rows = [{"input_ids": row, "labels": row}] * 4096
    Trainer(model=model, args=arguments, train_dataset=rows).train()


main()
