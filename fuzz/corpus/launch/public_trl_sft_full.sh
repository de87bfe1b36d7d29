# The first command of trl/scripts/sft.py.
accelerate launch --num_processes 1 trl/scripts/sft.py \
    --model_name_or_path Qwen/Qwen2-0.5B \
    --packing \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 8 \
    --eval_strategy steps
