"""Launchers start the ranks that were asked for, one after the other, each alone in a process of its own with what the launcher's code
would have told it. The launcher reads its own words and files: nothing of them is read here."""

import os
import subprocess
import sys


def chosen(ranks):
    """Of so many, those of --rank: "0", "0,7", "last", "all"."""
    found = []
    for word in os.environ.get("STEELYARD_RANKS", "0").split(","):
        if word == "all":
            return list(range(ranks))
        rank = ranks - 1 if word == "last" else int(word)
        if rank >= ranks:
            sys.exit(f"steelyard rehearse: there is no rank {rank} of {ranks}")
        found.append(rank)
    return sorted(set(found))


def told(rank, ranks, per_node):
    """What torchrun's agent tells a rank."""
    local = rank % per_node
    return {"RANK": str(rank), "LOCAL_RANK": str(local), "GROUP_RANK": str(rank // per_node), "ROLE_RANK": str(rank),
            "WORLD_SIZE": str(ranks), "ROLE_WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(per_node),
            "GROUP_WORLD_SIZE": str(ranks // per_node), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
            "TORCH_NCCL_ENABLE_MONITORING": "0", "TORCHELASTIC_RUN_ID": "paper", "TORCHELASTIC_USE_AGENT_STORE": "False",
            "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0",
            "PAPER_DEVICES": str(max(per_node, int(os.environ.get("PAPER_DEVICES", "1"))))}


def start(command, ranks, per_node):
    for rank in chosen(ranks):
        status = subprocess.call(command, env={**os.environ, **told(rank, ranks, per_node)})
        if status != 0:
            return status
    return 0


def of_torchrun(module):
    """torchrun, python -m torch.distributed.run, accelerate launch, notebook launchers: all end in this call."""

    def launch_agent(config, entrypoint, args):
        ranks = config.max_nodes * config.nproc_per_node
        if callable(entrypoint):
            for rank in chosen(ranks):
                os.environ.update(told(rank, ranks, config.nproc_per_node))
                entrypoint(*args)
            return {}
        status = start([entrypoint, *args], ranks, config.nproc_per_node)
        if status != 0:
            sys.exit(status)
        return {rank: None for rank in range(ranks)}

    module.launch_agent = launch_agent


def of_deepspeed(module):
    def main(args=None):
        said = module.parse_args(args)
        per_node = said.num_gpus if said.num_gpus > 0 else int(os.environ.get("PAPER_DEVICES", "1"))
        ranks = max(1, said.num_nodes) * per_node
        command = [] if said.no_python else [sys.executable, "-u"]
        command += ["-m"] if said.module else []
        for rank in chosen(ranks):
            local = [] if said.no_local_rank else [f"--local_rank={rank % per_node}"]
            status = subprocess.call([*command, said.user_script, *local, *said.user_args],
                                     env={**os.environ, **told(rank, ranks, per_node)})
            if status != 0:
                sys.exit(status)

    module.main = main


def of_spawn(torch):
    """torch.multiprocessing.spawn: the function is called here with the rank's number, as the child would."""
    import torch.multiprocessing as multiprocessing

    def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
        own_rank = "RANK" in os.environ
        for rank in chosen(nprocs):
            if not own_rank:
                os.environ.update(told(rank, nprocs, nprocs))
            fn(rank, *args)

    multiprocessing.spawn = spawn
    multiprocessing.start_processes = spawn
    multiprocessing.spawn_module = sys.modules["torch.multiprocessing.spawn"]
    sys.modules["torch.multiprocessing.spawn"].spawn = spawn
    sys.modules["torch.multiprocessing.spawn"].start_processes = spawn
