"""What is answered in place of ranks that are never started and kernels that are not run. Engines are not changed otherwise. Most of it
is what `steelyard rehearse` answers (paper/observer)."""

import os
import sys

import torch
from recorder import paper


def answer(ranks):
    os.environ["WORLD_SIZE"] = str(ranks)
    paper.rehearsal("ranks").answer(torch)
    kernels = paper.rehearsal("answers")
    kernels.weights(torch)
    kernels.attention(torch)
    if sys.version_info < (3, 12):  # Megatron-LM's code is for 3.12; this is all that it asks of it
        import typing
        import typing_extensions
        typing.override = typing_extensions.override
    when_imported, engines = paper.rehearsal("imports").when_imported, paper.rehearsal("engines")
    when_imported("deepspeed", engines.of_deepspeed)
    when_imported("megatron.core.transformer.torch_norm", engines.of_megatron)
    when_imported("megatron.training.training", engines.of_megatron_loop)
