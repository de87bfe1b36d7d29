torchrun --nproc_per_node 8 llava/train/train_mem.py --lora_enable True --bits 4 --model_name_or_path huggyllama/llama-7b \
  --vision_tower openai/clip-vit-large-patch14-336 --tune_mm_mlp_adapter True --bf16 True --per_device_train_batch_size 16
