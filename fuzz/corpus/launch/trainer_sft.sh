#!/bin/bash
accelerate launch --num_processes 8 sft.py \
  --model_name_or_path Qwen/Qwen2-0.5B \
  --dataset_name trl-lib/Capybara \
  --learning_rate 2.0e-5 \
  --per_device_train_batch_size 2 \
  --gradient_accumulation_steps 8 \
  --gradient_checkpointing \
  --bf16 True \
  --max_length 2048 \
  --output_dir out
