deepspeed --num_gpus 8 --module openrlhf.cli.train_sft \
  --model.model_name_or_path meta-llama/Meta-Llama-3-8B --data.max_len 4096 \
  --train.batch_size 64 --train.micro_batch_size 2 --ds.zero_stage 3 --ds.param_dtype bf16 \
  --ds.attn_implementation flash_attention_2 --ds.packing_samples --model.gradient_checkpointing_enable
