torchrun --nproc-per-node=8 -m verl.trainer.sft_trainer engine=megatron optim=megatron \
  data.train_files=train.parquet data.max_token_len_per_gpu=4096 model.path=Qwen/Qwen2.5-7B \
  engine.tensor_model_parallel_size=2 engine.pipeline_model_parallel_size=2
