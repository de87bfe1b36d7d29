NPROC_PER_NODE=4 swift rlhf --rlhf_type dpo --model Qwen/Qwen2.5-7B --dataset a --max_length 2048
