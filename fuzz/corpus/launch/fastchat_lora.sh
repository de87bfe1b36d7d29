deepspeed --num_gpus 4 fastchat/train/train_lora.py --model_name_or_path huggyllama/llama-7b --q_lora True --bf16 True \
  --per_device_train_batch_size 2 --model_max_length 2048 --gradient_checkpointing True
