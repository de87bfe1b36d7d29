#!/usr/bin/env python3
"""How long a training step takes on this device: step_times.py [--device paper] [--budget-seconds 300] [--only WORDS] [--out FILE]

Ordinary loops of one device with random data, each a steelyard run file: seconds of a whole step (the median of STEPS, between two
synchronisations), of its phases, and the allocator's peaks. What `steelyard weigh --time` says of the same run stands beside it in
docs; these rows are for judging, no constant is fitted to them.
"""

import argparse
import gc
import json
import statistics
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

STEPS, WARM = 8, 3
S, B, G = "training.sequence_length", "training.micro_batch", "training.gradient_accumulation"


def runs(device):
    """name: run file. Whole models wherever one device holds them."""
    from cases import A, F, FULL, O, ONE_DEVICE, P, changed, model
    llama_1b, qwen_06b, llama_8b = model("llama-3.2-1b"), model("qwen3-0.6b"), model("llama-3.1-8b")
    whole = changed(ONE_DEVICE, {"model": llama_1b, "cluster.device": device, S: 2048, B: 4, F: "fused"})
    eight = changed(whole, {"model": llama_8b, S: 4096, B: 1})
    autocast = {P: "bf16-autocast"}
    return {
        "llama-1b": whole,
        "llama-1b-cudnn": changed(whole, {A: "cudnn"}),
        "llama-1b-full": changed(whole, {**FULL, B: 8}),
        "llama-1b-autocast": changed(whole, autocast),
        "llama-1b-8k": changed(whole, {S: 8192, B: 1}),
        "llama-1b-8k-cudnn": changed(whole, {S: 8192, B: 1, A: "cudnn"}),
        "llama-1b-32k-full": changed(whole, {S: 32768, B: 1, **FULL}),
        "llama-8b-sgd": changed(eight, {O: "sgd", F: "foreach"}),
        "llama-8b-full-sgd": changed(eight, {O: "sgd", F: "foreach", **FULL, B: 4}),
        "llama-8b-lora": changed(eight, {"adapter.method": "lora", "adapter.rank": 16, "adapter.type": "bf16", B: 2}),
        "llama-8b-lora-full": changed(eight, {"adapter.method": "lora", "adapter.rank": 16, "adapter.type": "bf16", B: 4, **FULL}),
        "qwen3-0.6b": changed(whole, {"model": qwen_06b}),
        "gpt2-124m": changed(whole, {"model": model("gpt2"), S: 1024, B: 16, **autocast}),
        "gpt2-124m-accumulation": changed(whole, {"model": model("gpt2"), S: 1024, B: 16, G: 4, **autocast}),
        "llama-1b-foreach": changed(whole, {F: "foreach"}),
        "llama-1b-loop": changed(whole, {F: "loop"}),
        "llama-1b-eager": changed(whole, {A: "eager", B: 1}),
        "llama-1b-short": changed(whole, {S: 512, B: 1}),
        "llama-1b-tf32": changed(whole, {P: "tf32", A: "efficient", B: 2}),
        "llama-1b-fp32": changed(whole, {P: "fp32", A: "efficient", B: 1}),
        "mistral-7b-sgd": changed(eight, {"model": model("mistral-7b-v0.3"), O: "sgd", F: "foreach"}),
        "qwen2.5-1.5b": changed(whole, {"model": model("qwen2.5-1.5b")}),
        "llama-8b-adamw": eight,
    }


def fill(model, torch):
    """Weights as a trained model's are spread: products of zeros are faster than those of data."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0) if parameter.dim() < 2 else parameter.normal_(0.0, 0.02)


def timed(run):
    import torch
    import training
    torch.backends.cuda.matmul.allow_tf32 = training.value(run, "training.precision") == "tf32"
    model = training.build_model(run).to("cuda")
    fill(model, torch)
    training.recompute(run, model)
    optimizer = training.build_optimizer(run, model.parameters())
    batch, length = training.value(run, B), training.value(run, S)
    accumulation = training.value(run, G, 1)
    torch.cuda.reset_peak_memory_stats()
    spans = {"step": [], "forward": [], "backward": [], "optimizer": []}

    def lap(name, start):
        torch.cuda.synchronize()
        spans[name][-1] += time.perf_counter() - start
        return time.perf_counter()

    with training.attention_kernel(run):
        for whole in [True] * (WARM + STEPS) + [False] * STEPS:  # the phases apart afterwards: a synchronisation takes the overlap away
            for name in spans:
                spans[name].append(0.0)
            torch.cuda.synchronize()
            begun = start = time.perf_counter()
            for _ in range(accumulation):
                ids = torch.randint(0, model.config.vocab_size, (batch, length), device="cuda")
                with training.autocast(run):
                    loss = model(input_ids=ids, labels=ids).loss / accumulation
                start = start if whole else lap("forward", start)
                loss.backward()
                start = start if whole else lap("backward", start)
            optimizer.step()
            optimizer.zero_grad()
            if not whole:
                lap("optimizer", start)
            torch.cuda.synchronize()
            spans["step"][-1] = time.perf_counter() - begun
    steps = spans["step"][WARM:WARM + STEPS]
    statistics_of = torch.cuda.memory_stats()
    return {"seconds": statistics.median(steps), "shortest": min(steps), "longest": max(steps),
            "phases": {name: statistics.median(spans[name][-STEPS:]) for name in ("forward", "backward", "optimizer")},
            "tokens_per_second": batch * length * accumulation / statistics.median(steps), "loss": float(loss.detach()) * accumulation,
            "allocated_bytes": statistics_of["allocated_bytes.all.peak"], "reserved_bytes": statistics_of["reserved_bytes.all.peak"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("paper", "gpu"), default="gpu")
    parser.add_argument("--budget-seconds", type=float, default=300)
    parser.add_argument("--only", default="")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    if arguments.device == "paper":
        from recorder import paper
        paper.load()
    import torch
    rows, begun = [], time.time()
    name = torch.cuda.get_device_name()
    table = runs("h200-sxm" if "H200" in name else "h100-sxm-80gb")
    for case, run in table.items():
        if arguments.only and arguments.only not in case or time.time() - begun > arguments.budget_seconds:
            continue
        start = time.time()
        try:
            rows.append({"case": case, "run": run, **timed(run)})
            print(f"{time.time() - start:6.1f} s  {case:28s} {rows[-1]['seconds']:.4f} s a step", file=sys.stderr, flush=True)
        except Exception as error:
            traceback.print_exc()
            rows.append({"case": case, "run": run, "refused": str(error).splitlines()[0][:160] if str(error) else repr(error)})
        gc.collect()
        torch.cuda.empty_cache()
    whole = {"schema": "steelyard.step_times/1", "how": arguments.device, "device": name,
             "versions": {"torch": torch.__version__, "cuda": torch.version.cuda}}
    text = json.dumps(whole)[:-1] + ",\n \"rows\": [\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]}\n"
    Path(arguments.out).write_text(text) if arguments.out else print(text)


if __name__ == "__main__":
    main()
