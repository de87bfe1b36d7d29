"""Which of ten runs fit one machine of eight H100, and what would make the others fit.

    python examples/python/ten_runs.py
"""
from __future__ import annotations

import steelyard as sy

MODELS = ("qwen2.5-1.5b", "llama-3.2-3b", "llama-3.1-8b", "qwen2.5-14b", "llama-3-70b")


def main() -> None:
    runs = [sy.Run(model).replace(sequence_length=length) for model in MODELS for length in (4096, 32768)]
    for run, answer in zip(runs, sy.weigh_many(runs, on="8xh100-sxm-80gb", engine="fsdp2", zero_stage=3)):
        if isinstance(answer, sy.InputError):
            print(f"{run.source}: {answer}")
            continue
        peak: sy.Bytes = answer.peak.device
        line = f"{run.source!s:14} {run.changes['training.sequence_length']:6} tokens  {answer.verdict:12} {peak}"
        if not answer.fits and answer.suggestions:
            change = answer.suggestions[0]
            line += f"   {change.says}: {change.peak}"
        print(line)


if __name__ == "__main__":
    main()
