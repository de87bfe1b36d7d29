"""LLaMA-Factory's src/train.py, which its package does not bring along: this one call."""

from llamafactory.train.tuner import run_exp

run_exp()
