python qlora.py --model_name_or_path huggyllama/llama-7b --bf16 --source_max_len 384 --target_max_len 128
