"""Stands where `torchrun`, `accelerate` or `deepspeed` would: the command runs in this process as rank 0 of as many as it asks for,
on the device of paper, and the other ranks are never started.

    rank_zero.py torchrun --nproc-per-node 8 train.py --flag      $STEELYARD_PEAKS is the file that the peaks are written to

The launcher's own code reads its words and its files and sets what it would set for rank 0; the script is then the engine's, or the
user's, unchanged. `answers.py` says what is answered in place of ranks and kernels that are not there, `peaks.py` what is measured.
"""

import os
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))


def as_rank_zero(ranks, per_node, script, words, module=False):
    """The script, with what torchrun's agent tells rank 0."""
    import answers
    import peaks

    os.environ.update(RANK="0", LOCAL_RANK="0", GROUP_RANK="0", ROLE_RANK="0", WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(per_node),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", TORCH_NCCL_ENABLE_MONITORING="0",
                      TORCHELASTIC_RUN_ID="paper", TORCHELASTIC_USE_AGENT_STORE="False")
    answers.answer(ranks)
    measured = peaks.Peaks()
    sys.argv = [script, *words]
    failed = 1
    try:
        if module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(script).resolve().parent))
            runpy.run_path(script, run_name="__main__")
        failed = 0
    except SystemExit as ended:
        failed = ended.code or 0
    except BaseException:
        import traceback
        traceback.print_exc()
    measured.write(os.environ["STEELYARD_PEAKS"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(failed if isinstance(failed, int) else 1)  # communicators and watchdogs have nothing more to say


def of_torchrun(arguments):
    nodes = int(str(arguments.nnodes).split(":")[-1])
    per_node = int(arguments.nproc_per_node)
    as_rank_zero(nodes * per_node, per_node, arguments.training_script, arguments.training_script_args, arguments.module)


def torchrun(words):
    from torch.distributed.run import parse_args

    of_torchrun(parse_args(words))


def accelerate(words):
    """Its own command, up to where it hands its processes to torchrun's code."""
    import torch.distributed.run
    from accelerate.commands import accelerate_cli

    torch.distributed.run.run = of_torchrun
    sys.argv = ["accelerate", *words]
    accelerate_cli.main()


def deepspeed(words):
    from deepspeed.launcher.runner import parse_args

    arguments = parse_args(words)
    per_node = arguments.num_gpus if arguments.num_gpus > 0 else 8
    given = arguments.user_args if arguments.no_local_rank else ["--local_rank=0", *arguments.user_args]
    as_rank_zero(max(1, arguments.num_nodes) * per_node, per_node, arguments.user_script, given, arguments.module)


if __name__ == "__main__":
    from recorder import paper

    paper.load(device_bytes=2 * 10**12, devices=int(os.environ.get("STEELYARD_PAPER_DEVICES", "8")))
    {"torchrun": torchrun, "accelerate": accelerate, "deepspeed": deepspeed}[sys.argv[1]](sys.argv[2:])
