#!/bin/bash
# As huggingface/accelerate's examples/slurm/submit_multinode.sh, with a Trainer's arguments.
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
export EACH=4
head=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export LAUNCHER="accelerate launch \
    --num_processes $((SLURM_NNODES * EACH)) \
    --num_machines $SLURM_NNODES \
    --main_process_ip $head \
    "
export ARGUMENTS=" \
    --model_name_or_path gpt2-xl --per_device_train_batch_size 4 --bf16 true \
    "
srun $LAUNCHER train.py $ARGUMENTS
