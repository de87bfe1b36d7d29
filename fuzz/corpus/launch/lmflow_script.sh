deepspeed --num_gpus 8 examples/finetune.py --model_name_or_path gpt2 --dataset_path data/alpaca --use_lora 1 --lora_r 8 \
  --lora_target_modules c_attn --block_size 512 --per_device_train_batch_size 1 --bf16
