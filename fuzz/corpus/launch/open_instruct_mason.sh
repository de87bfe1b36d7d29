uv run python mason.py --cluster ai2/jupiter --gpus 8 -- accelerate launch --mixed_precision bf16 --num_processes 8 --use_deepspeed \
  --deepspeed_config_file stage3.conf open_instruct/finetune.py --model_name_or_path huggyllama/llama-7b --max_seq_length 4096 \
  --per_device_train_batch_size 1 --gradient_accumulation_steps 2 --gradient_checkpointing
