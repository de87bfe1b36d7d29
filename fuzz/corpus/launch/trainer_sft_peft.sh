python sft.py --model_name_or_path Qwen/Qwen2.5-7B --learning_rate 2.0e-4 --max_length 1024 \
  --per_device_train_batch_size 2 --gradient_accumulation_steps 8 --gradient_checkpointing --bf16 True \
  --use_peft --lora_r 32 --lora_alpha 16 --lora_target_modules all-linear --load_in_4bit
