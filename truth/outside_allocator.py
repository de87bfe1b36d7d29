#!/usr/bin/env python3
"""What a process holds on this device beside PyTorch's allocator, step by step: outside_allocator.py [--device paper] [--out FILE]

Each way is a process of its own. After each of its stages: what the device has less than it had (cudaMemGetInfo), less what the allocator
has reserved. Nothing else may run on the device.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

LLAMA_STEP = "a step of Llama 3.2 1B with 4 layers"
WAYS = {
    "ordinary": ("context", "16-bit product", "32-bit product", "product with a bias", "flash attention", "cuDNN attention", "convolution",
                 "sorting", LLAMA_STEP),
    "a step first": ("context", LLAMA_STEP),
    "eager loading": ("context", "16-bit product", LLAMA_STEP),
    "one rank of NCCL": ("context", "communicator", "all-reduce", "all-gather", "second communicator", LLAMA_STEP),
    "Triton": ("context", "Triton's kernel", LLAMA_STEP),
    "graphs": ("context", "16-bit product", "a graph of products"),
}
SETTINGS = {"eager loading": {"CUDA_MODULE_LOADING": "EAGER"}}


def stages():
    import torch

    def product(kind):
        a = torch.randn(2048, 2048, device="cuda", dtype=kind)
        return a @ a

    def with_bias():
        layer = torch.nn.Linear(2048, 2048, device="cuda", dtype=torch.bfloat16)
        layer(torch.randn(64, 2048, device="cuda", dtype=torch.bfloat16)).sum().backward()

    def attention(name):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        q = torch.randn(2, 16, 1024, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        with sdpa_kernel(getattr(SDPBackend, name)):
            torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()

    def convolution():
        layer = torch.nn.Conv2d(3, 64, 14, 14, device="cuda", dtype=torch.bfloat16)
        layer(torch.randn(2, 3, 224, 224, device="cuda", dtype=torch.bfloat16)).sum().backward()

    def step():
        import training
        from cases import cases
        run = cases()["llama"]
        model = training.build_model(run).to("cuda")
        optimizer = training.build_optimizer(run, model.parameters())
        for _ in range(2):
            ids = torch.zeros(2, 1024, dtype=torch.int64, device="cuda")
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    group = {}

    def communicator():
        import torch.distributed as dist
        os.environ.update(LOCAL_RANK="0", RANK="0", WORLD_SIZE="1")
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda", 0))
        dist.barrier()

    def collective(name):
        import torch.distributed as dist
        a = torch.ones(2**26, device="cuda")
        if name == "all-reduce":
            dist.all_reduce(a)
        else:
            dist.all_gather_into_tensor(torch.empty_like(a), a)

    def second():
        import torch.distributed as dist
        group["second"] = dist.new_group([0])
        dist.all_reduce(torch.ones(2**26, device="cuda"), group=group["second"])

    def triton_kernel():
        from liger_kernel.ops.rms_norm import LigerRMSNormFunction
        x = torch.randn(1024, 2048, device="cuda", requires_grad=True)
        LigerRMSNormFunction.apply(x, torch.ones(2048, device="cuda"), 1e-6, 0.0, "llama", False).sum().backward()

    def graph():
        a, recorded = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16), torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            b = a
            for _ in range(20):
                b = b @ a
        recorded.replay()
        group["graph"] = recorded

    return {"context": lambda: torch.empty(1, device="cuda"), "16-bit product": lambda: product(torch.bfloat16),
            "32-bit product": lambda: product(torch.float32), "product with a bias": with_bias,
            "flash attention": lambda: attention("FLASH_ATTENTION"), "cuDNN attention": lambda: attention("CUDNN_ATTENTION"),
            "convolution": convolution, "sorting": lambda: torch.randn(2**22, device="cuda").sort(), LLAMA_STEP: step,
            "communicator": communicator, "all-reduce": lambda: collective("all-reduce"), "all-gather": lambda: collective("all-gather"),
            "second communicator": second, "Triton's kernel": triton_kernel, "a graph of products": graph}


def used_by_process():
    """As NVML counts it; None where it does not say."""
    try:
        import pynvml
        pynvml.nvmlInit()
        rows = pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(0))
        return max((row.usedGpuMemory or 0 for row in rows), default=None)
    except Exception:
        return None


def one(way):
    import torch
    torch.cuda.init()
    rows = []
    table = stages()
    for stage in WAYS[way]:
        try:
            table[stage]()
            torch.cuda.synchronize()
        except (RuntimeError, ImportError) as error:
            rows.append({"way": way, "stage": stage, "refused": str(error).splitlines()[0][:120]})
            continue
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info()
        rows.append({"way": way, "stage": stage, "outside_bytes": total - free - torch.cuda.memory_reserved(),
                     "reserved_bytes": torch.cuda.memory_reserved(), "nvml_process_bytes": used_by_process()})
    print("ROWS " + json.dumps(rows), flush=True)
    os._exit(0)


def device_without_process():
    try:
        import pynvml
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        return {"nvml_total": memory.total, "nvml_reserved": memory.reserved, "nvml_free": memory.free, "nvml_used": memory.used,
                "driver": pynvml.nvmlSystemGetDriverVersion()}
    except Exception as error:
        return {"refused": str(error)}


def rows_of(way, device):
    try:
        done = subprocess.run([sys.executable, __file__, "--device", device, "--one", way], capture_output=True, text=True,
                              check=False, env={**os.environ, **SETTINGS.get(way, {})}, timeout=90)
    except subprocess.TimeoutExpired:
        return [{"way": way, "refused": "took longer than 90 s"}]
    found = [line for line in done.stdout.splitlines() if line.startswith("ROWS ")]
    return json.loads(found[0][5:]) if found else [{"way": way, "refused": (done.stderr.strip().splitlines() or ["?"])[-1][:160]}]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("paper", "gpu"), default="gpu")
    parser.add_argument("--one")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    if arguments.one:
        if arguments.device == "paper":
            from recorder import paper
            paper.load()
        one(arguments.one)
    answer = {"schema": "steelyard.outside_allocator/1", "how": arguments.device, "before": device_without_process()}
    rows = []
    for way in WAYS:
        rows += rows_of(way, arguments.device)
    import torch
    if arguments.device == "gpu":
        properties = torch.cuda.get_device_properties(0)
        answer["device"] = {"name": properties.name, "bytes": properties.total_memory, "multiprocessors": properties.multi_processor_count,
                            "l2_bytes": properties.L2_cache_size}
        answer["versions"] = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
                              "nccl": ".".join(str(part) for part in torch.cuda.nccl.version())}
    text = json.dumps(answer)[:-1] + ",\n \"rows\": [\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]}\n"
    Path(arguments.out).write_text(text) if arguments.out else print(text)


if __name__ == "__main__":
    main()
