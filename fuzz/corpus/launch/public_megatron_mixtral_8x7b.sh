#!/bin/bash
# As examples/mixtral/train_mixtral_8x7b_distributed.sh, on the four nodes that its degrees need.
EACH=8
NODES=${NNODES:-"4"}
WORLD_SIZE=$(($EACH*$NODES))
LAUNCH=(
    --nproc_per_node $EACH
    --nnodes $NODES
    --node_rank ${NODE_RANK:-"0"}
)
MODEL=(
    --disable-bias-linear
    --seq-length 4096
    --max-position-embeddings 32768
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --normalization RMSNorm
    --position-embedding-type rope
    --swiglu
    --untie-embeddings-and-output-weights
    --group-query-attention
    --num-query-groups 8
    --rotary-base 1000000
)
EXPERTS=(--num-experts 8 --moe-router-topk 2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall)
DATA=(--tokenizer-type Llama2Tokenizer --tokenizer-model ${TOKENIZER_MODEL})
TRAINING=(--micro-batch-size 1 --global-batch-size 256 --clip-grad 1.0 --bf16 --use-distributed-optimizer)
RANKS=(--tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --expert-model-parallel-size 8 --sequence-parallel)
torchrun ${LAUNCH[@]} pretrain_gpt.py \
    ${MODEL[@]} \
    ${EXPERTS[@]} \
    ${DATA[@]} \
    ${TRAINING[@]} \
    ${RANKS[@]}
