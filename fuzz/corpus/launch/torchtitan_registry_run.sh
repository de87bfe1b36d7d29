NGPU=4 MODULE=qwen3 CONFIG=qwen3_1_7b ./run_train.sh --training.disable_cuda_graphs
