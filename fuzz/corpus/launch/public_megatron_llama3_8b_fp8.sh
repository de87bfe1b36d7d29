#!/bin/bash
# As examples/llama/train_llama3_8b_h100_fp8.sh: what follows from arguments that were not given.
TOKENIZER=${3:-"MOCK"}
DATA=${4:-"MOCK"}
EACH=8
NODES=1
DTYPE="fp8"
SEQUENCE=8192
WORLD_SIZE=$(($EACH*$NODES))
LAUNCH=(--nproc_per_node $EACH --nnodes $NODES --node_rank ${NODE_RANK:-0})
MODEL=(
    --use-mcore-models
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336
    --num-attention-heads 32 --group-query-attention --num-query-groups 8 --kv-channels 128
    --seq-length $SEQUENCE --max-position-embeddings $SEQUENCE
    --position-embedding-type rope --rotary-base 1000000 --rotary-percent 1.0
    --attention-dropout 0.0 --hidden-dropout 0.0
    --swiglu --normalization RMSNorm --apply-layernorm-1p
    --attention-backend fused
    --untie-embeddings-and-output-weights --disable-bias-linear
)
TRAINING=(
    --micro-batch-size 1
    --global-batch-size 128
    --clip-grad 1.0
    --bf16 --grad-reduce-in-bf16
    --cross-entropy-loss-fusion
)
TYPES=()
if [[ "$DTYPE" == "fp8" ]]; then
    TYPES+=("--fp8-format hybrid" "--fp8-amax-history-len 1024" "--fp8-param-gather")
fi
TRAINING+=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
RANKS=(--tensor-model-parallel-size 1 --context-parallel-size 1 --sequence-parallel)  # no tensor ranks: no effect
INPUT=()
if [[ "$TOKENIZER" == "MOCK" ]] || [[ "$DATA" == "MOCK" ]] || [[ -z "$TOKENIZER" ]]; then
    INPUT+=("--mock-data" "--tokenizer-type NullTokenizer" "--vocab-size 128256")
else
    INPUT+=("--data-path $DATA" "--tokenizer-type HuggingFaceTokenizer" "--tokenizer-model $TOKENIZER")
fi
if [ ! -f pretrain_gpt.py ]; then
    echo "start it where pretrain_gpt.py is"
    exit 1
fi
torchrun ${LAUNCH[@]} pretrain_gpt.py ${MODEL[@]} ${TRAINING[@]} ${TYPES[@]} ${RANKS[@]} ${INPUT[@]}
