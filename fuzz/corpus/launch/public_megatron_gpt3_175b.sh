#!/bin/bash
# As examples/gpt3/train_gpt3_175b_distributed.sh of core_v0.12.0.
export CUDA_DEVICE_MAX_CONNECTIONS=1
EACH=8
NODES=16
VOCABULARY=$3
MERGES=$4
MODEL=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
    --attention-backend auto
)
TRAINING=(
    --micro-batch-size 1
    --global-batch-size 1536
    --rampup-batch-size 16 16 5859375
    --clip-grad 1.0
    --fp16
)
RANKS=(
	--tensor-model-parallel-size 8
	--pipeline-model-parallel-size 16
)
DATA=(--vocab-file $VOCABULARY --merge-file $MERGES)
torchrun --nproc_per_node $EACH --nnodes $NODES pretrain_gpt.py ${MODEL[@]} ${TRAINING[@]} ${RANKS[@]} ${DATA[@]}
