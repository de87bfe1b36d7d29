#!/bin/bash
# As examples/megatron_fsdp/sbatch_mfsdp_deepseek_v3.sh: a script that writes a job and submits it.
MEGATRON=${MEGATRON_PATH:-"Megatron-LM"}
SHARDED=${USE_MEGATRON_FSDP:-1}
STRATEGY=${SHARDING_STRATEGY:-"optim_grads_params"}
TP=${TP:-1}
EP=${EP:-8}
MBS=${MBS:-4}
GBS=${GBS:-2048}
ARGUMENTS=(
    --tensor-model-parallel-size ${TP}
    --expert-model-parallel-size ${EP}
    --expert-tensor-parallel-size 1
    --context-parallel-size 1
    --use-distributed-optimizer
    --sequence-parallel
    --use-flash-attn
    --disable-bias-linear
    --micro-batch-size ${MBS}
    --global-batch-size ${GBS}
    --recompute-granularity selective
    --recompute-modules mlp moe mla_up_proj layernorm
    --seq-length 4096
    --tokenizer-type HuggingFaceTokenizer
    --tokenizer-model deepseek-ai/DeepSeek-V3
    --num-layers 61
    --hidden-size 7168
    --ffn-hidden-size 18432
    --num-attention-heads 128
    --kv-channels 128
    --max-position-embeddings 4096
    --position-embedding-type rope
    --make-vocab-size-divisible-by 3232
    --normalization RMSNorm
    --norm-epsilon 1e-6
    --swiglu
    --untie-embeddings-and-output-weights
    --multi-latent-attention
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --clip-grad 1.0
    --qk-layernorm
    --num-experts 256
    --moe-layer-freq [0]*3+[1]*58
    --moe-ffn-hidden-size 2048
    --moe-shared-expert-intermediate-size 2048
    --moe-router-topk 8
    --moe-token-dispatcher-type flex
    --moe-grouped-gemm
    --q-lora-rank 1536
    --kv-lora-rank 512
    --qk-head-dim 128
    --qk-pos-emb-head-dim 64
    --v-head-dim 128
    --mtp-num-layers 1
    --bf16
)
if [ "${SHARDED}" = 1 ]; then
    unset CUDA_DEVICE_MAX_CONNECTIONS
    ARGUMENTS=(
        "${ARGUMENTS[@]}"
        --use-megatron-fsdp
        --data-parallel-sharding-strategy ${STRATEGY}
        --ckpt-format fsdp_dtensor
    )
fi
COMMAND="
cd ${MEGATRON};
git rev-parse HEAD;
python ${MEGATRON}/pretrain_gpt.py ${ARGUMENTS[@]}"
sbatch <<EOT
#!/bin/bash

#SBATCH --partition=to_be_filled_in
#SBATCH --nodes=to_be_filled_in
#SBATCH --ntasks-per-node=8
#SBATCH --gres=gpu:8

srun --mpi=pmix -l bash -x -c "${COMMAND}" 2>&1 | tee \${SLURM_JOB_ID}.log
EOT
