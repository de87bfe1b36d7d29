torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 12 --hidden-size 2048 --num-attention-heads 16 \
  --ffn-hidden-size 10944 --multi-latent-attention --kv-lora-rank 512 --qk-head-dim 128 --v-head-dim 128 \
  --qk-pos-emb-head-dim 64 --num-experts 16 --moe-router-topk 4 --moe-ffn-hidden-size 1408 \
  --moe-shared-expert-intermediate-size 2816 --moe-layer-freq '([0]*1+[1]*11)' --swiglu --normalization RMSNorm \
  --position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights \
  --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 16 --bf16 \
  --expert-model-parallel-size 4 --use-distributed-optimizer --vocab-size 102400 --hidden-dropout 0 \
  --attention-dropout 0 --moe-token-dispatcher-type alltoall
