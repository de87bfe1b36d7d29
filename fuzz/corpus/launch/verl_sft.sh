torchrun --standalone --nnodes=1 --nproc_per_node=8 \
  -m verl.trainer.fsdp_sft_trainer \
  data.train_files=train.parquet data.val_files=test.parquet \
  data.micro_batch_size_per_gpu=2 data.max_length=4096 data.train_batch_size=64 \
  model.partial_pretrain=Qwen/Qwen2.5-7B-Instruct model.use_liger=True \
  model.lora_rank=32 model.lora_alpha=16 model.target_modules=all-linear \
  optim.lr=1e-4
