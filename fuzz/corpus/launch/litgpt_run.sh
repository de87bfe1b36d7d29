litgpt finetune_lora meta-llama/Llama-3.2-1B --config lora.yaml --train.micro_batch_size 4 --lora_head false
