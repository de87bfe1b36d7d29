# As transformers' documentation of the deepspeed launcher: some devices of one machine.
deepspeed --include localhost:0,1,2,3 train.py --deepspeed llama_factory_ds_z3.json \
    --model_name_or_path gpt2-xl --per_device_train_batch_size 8 --bf16 --block_size 1024
