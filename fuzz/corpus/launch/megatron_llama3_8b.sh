#!/bin/bash
# variables with defaults, arrays, arithmetic
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-1}
WORLD_SIZE=$((GPUS_PER_NODE * NUM_NODES))
TP_SIZE=1
CP_SIZE=1
MICRO_BATCH_SIZE=1
SEQ_LENGTH=8192
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr ${MASTER_ADDR:-localhost}   # a comment
)
MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --kv-channels 128
    --seq-length $SEQ_LENGTH
    --max-position-embeddings $SEQ_LENGTH
    --position-embedding-type rope
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --swiglu
    --normalization RMSNorm
    --untie-embeddings-and-output-weights
    --disable-bias-linear
)
TRAINING_ARGS=(
    --micro-batch-size $MICRO_BATCH_SIZE
    --global-batch-size 128
    --bf16
    --use-distributed-optimizer
    --cross-entropy-loss-fusion
    --attention-backend fused
)
if [[ $TP_SIZE -gt 1 ]]; then
  TRAINING_ARGS+=(--sequence-parallel)
fi
PARALLEL_ARGS="--tensor-model-parallel-size $TP_SIZE \
  --context-parallel-size $CP_SIZE"
DATA_ARGS=(--mock-data --tokenizer-type NullTokenizer --vocab-size 128256)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${MODEL_ARGS[@]} ${TRAINING_ARGS[@]} $PARALLEL_ARGS "${DATA_ARGS[@]}"
