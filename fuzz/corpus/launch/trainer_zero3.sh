NPROC=8
cat > ds.json <<'END'
{"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"},
 "train_micro_batch_size_per_gpu": "auto", "train_batch_size": "auto", "gradient_accumulation_steps": "auto",
 "gradient_clipping": "auto"}
END
deepspeed --num_gpus $NPROC train.py --deepspeed ds.json --model_name_or_path meta-llama/Llama-2-7b-hf \
  --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --bf16 True --model_max_length 4096 \
  --gradient_checkpointing True
