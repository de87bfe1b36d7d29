accelerate launch --num_processes 1 train.py --model_name_or_path huggyllama/llama-7b --use_peft_lora True --lora_r 8 \
  --lora_target_modules all-linear --use_4bit_quantization True --use_nested_quant True --max_length 2048 --bf16 True \
  --bnb_4bit_quant_storage_dtype bfloat16 --per_device_train_batch_size 4 --gradient_checkpointing True
