tune run --nproc_per_node 2 lora_finetune_distributed --config llama3_1/8B_lora batch_size=4 tokenizer.max_seq_len=4096
