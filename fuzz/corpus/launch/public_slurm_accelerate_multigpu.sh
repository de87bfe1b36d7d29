#!/bin/bash
# As huggingface/accelerate's examples/slurm/submit_multigpu.sh, with a Trainer's arguments.
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
export EACH=4
export SCRIPT="${ACCELERATE_DIR:-/accelerate}/examples/train.py"
export ARGUMENTS=" \
    --mixed_precision fp16 \
    --model_name_or_path gpt2-xl --per_device_train_batch_size 4 --fp16 true \
    "
accelerate launch --num_processes $EACH $SCRIPT $ARGUMENTS
