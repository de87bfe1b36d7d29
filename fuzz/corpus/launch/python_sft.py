"""Fine-tunes a model."""
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

MODEL = "Qwen/Qwen2.5-7B"
LENGTH = 4096
bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_use_double_quant=True,
                         bnb_4bit_compute_dtype=torch.bfloat16)  # a comment, with ) in it
model = AutoModelForCausalLM.from_pretrained(MODEL, quantization_config=bnb, torch_dtype=torch.bfloat16)
adapter = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules=["q_proj", "v_proj"])
args = SFTConfig(
    per_device_train_batch_size=2,
    gradient_accumulation_steps=8,
    max_length=LENGTH,
    bf16=True,
    optim="paged_adamw_8bit",
    warmup_steps=steps // 10,
)
trainer = SFTTrainer(model=model, args=args, train_dataset=data, peft_config=adapter)
trainer.train()
