"""LLaMA-Factory's own training of the file that was exported: its `src/train.py` does no more than this call."""

import os

from llamafactory.train.tuner import run_exp
from watch import Watch

watch = Watch()
run_exp(callbacks=[watch])
if os.environ["RANK"] == "0":
    print(f"TRAINED steps={watch.steps} moved={watch.moved} processes={os.environ['WORLD_SIZE']} kinds={watch.kinds}", flush=True)
