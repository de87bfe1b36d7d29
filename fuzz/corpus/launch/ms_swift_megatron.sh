NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen2.5-14B --dataset a --tensor_model_parallel_size 4 \
  --sequence_parallel true --recompute_granularity full --recompute_method uniform --recompute_num_layers 1 \
  --max_length 8192 --global_batch_size 16 --lr 1e-5
