torchrun --nproc_per_node 8 run_clm.py --model_name_or_path openai-community/gpt2-xl \
  --block_size 1024 --per_device_train_batch_size 4 --do_train --bf16 --optim adamw_torch
