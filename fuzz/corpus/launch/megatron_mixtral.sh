#!/bin/bash
MODEL_ARGS=(
    --disable-bias-linear --seq-length 4096 --max-position-embeddings 32768 --num-layers 32
    --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
    --attention-dropout 0.0 --hidden-dropout 0.0 --normalization RMSNorm
    --position-embedding-type rope --swiglu --untie-embeddings-and-output-weights
    --group-query-attention --num-query-groups 8
)
MOE_ARGS=(--num-experts 8 --moe-router-topk 2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall)
torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py "${MODEL_ARGS[@]}" "${MOE_ARGS[@]}" \
  --micro-batch-size 1 --global-batch-size 256 --bf16 --vocab-size 32000 \
  --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --expert-model-parallel-size 8 \
  --use-distributed-optimizer
