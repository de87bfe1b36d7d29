NPROC_PER_NODE=8 swift pt --model Qwen/Qwen2.5-7B --tuner_type full --dataset a --fsdp fsdp2 \
  --gradient_checkpointing false --max_length 4096 --use_liger_kernel true --attn_impl flash_attn
