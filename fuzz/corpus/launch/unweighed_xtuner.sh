NPROC_PER_NODE=8 xtuner train llama2_7b_qlora_alpaca_e3 --deepspeed deepspeed_zero2
