deepspeed --num_gpus 8 main.py --data_split 2,4,4 --model_name_or_path facebook/opt-1.3b --per_device_train_batch_size 8 --max_seq_len 1024 \
  --zero_stage 3 --offload --lora_dim 128 --lora_module_name decoder.layers. --only_optimize_lora --gradient_checkpointing \
  --dtype bf16 --deepspeed
