deepspeed --num_gpus 4 --module openrlhf.cli.train_sft --pretrain meta-llama/Meta-Llama-3-8B \
  --micro_train_batch_size 1 --train_batch_size 32 --max_len 2048 --zero_stage 2 --bf16 --flash_attn \
  --adam_offload --gradient_checkpointing --lora_rank 32 --lora_alpha 32
