CUDA_VISIBLE_DEVICES=0 python src/train_bash.py --stage sft --do_train --model_name_or_path huggyllama/llama-7b \
  --finetuning_type lora --lora_target q_proj,v_proj --per_device_train_batch_size 1 --flash_attn True --fp16
