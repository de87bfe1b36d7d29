torchrun --nproc_per_node 8 run_recipe.py --recipe llama3_8b_pretrain_config -tp 4 model.context_parallel_size=2
