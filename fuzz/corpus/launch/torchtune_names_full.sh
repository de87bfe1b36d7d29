tune run --nproc_per_node 8 full_finetune_distributed --config llama3_1/70B_full tokenizer.max_seq_len=2048
