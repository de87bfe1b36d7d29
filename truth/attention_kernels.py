#!/usr/bin/env python3
"""Which kernel scaled_dot_product_attention takes on this device, and what it allocates: attention_kernels.py [--device paper] [--out FILE]

Nobody forces a kernel in most scripts: PyTorch chooses by the device, the type, the head's width, the mask and the version of cuDNN. Each
row is one shape: the kernel that PyTorch says it would take, and for each kernel that accepts the shape, every request of forward and
backward to the allocator in its order (requested bytes), what stays for backward, and the largest sum of what comes and goes.
"""

import argparse
import itertools
import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

WIDTHS = (32, 64, 80, 96, 128, 192, 256)
SHAPES = ((2, 1024), (1, 1000), (1, 8192), (8, 128))
HEADS = ((16, 16), (32, 8))
MASKS = ("causal", "none", "causal mask", "padding mask")
TYPES = ("bf16", "fp16", "fp32")


def rows():
    """Every change of one thing against causal bf16 attention of 128 wide heads, and the products that matter most."""
    for kind, width, heads, mask in itertools.product(TYPES[:2], WIDTHS, HEADS, MASKS[:2]):
        yield kind, width, heads, (2, 1024), mask, 0.0
    for shape, heads, mask in itertools.product(SHAPES, HEADS, MASKS):
        yield "bf16", 128, heads, shape, mask, 0.0
        yield "bf16", 64, heads, shape, mask, 0.0
    for heads, mask in itertools.product(HEADS, MASKS):
        yield "fp32", 128, heads, (2, 1024), mask, 0.0
        yield "bf16", 128, heads, (2, 1024), mask, 0.1


def tensors(kind, width, heads, shape, mask):
    import torch
    batch, length = shape
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[kind]

    def projection(count):  # as a linear layer's output is seen by heads
        return torch.randn(batch, length, count, width, device="cuda", dtype=dtype).transpose(1, 2).requires_grad_()
    q, k, v = (projection(count) for count in (heads[0], heads[1], heads[1]))
    given = None
    if mask == "causal mask":
        given = torch.ones(length, length, dtype=torch.bool, device="cuda").tril()[None, None]
    if mask == "padding mask":
        given = torch.ones(batch, 1, length, length, dtype=torch.bool, device="cuda").tril()
    return q, k, v, given


def requests():
    """What was asked of the allocator since the history was emptied, in order: + bytes and - bytes."""
    import torch
    events = []
    for event in torch.cuda.memory._snapshot()["device_traces"][0]:
        if event["action"] == "alloc":
            events.append(event["size"])
        elif event["action"] == "free_completed":
            events.append(-event["size"])
    return events


def peak(events):
    now = most = 0
    for event in events:
        now += event
        most = max(most, now)
    return most


def measured(row, backend):
    """Of one kernel; None: it refuses this shape."""
    import torch
    from torch.nn.attention import sdpa_kernel
    kind, width, heads, shape, mask, dropout = row
    q, k, v, given = tensors(kind, width, heads, shape, mask)
    gradient = torch.randn(q.shape[0], q.shape[2], q.shape[1], width, device="cuda", dtype=q.dtype).transpose(1, 2)

    def forward():
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=given, dropout_p=dropout, is_causal=mask == "causal", enable_gqa=heads[0] != heads[1])
    try:
        out = forward()  # once for what a library keeps
        out.backward(gradient)
    except RuntimeError:
        return None
    q.grad = k.grad = v.grad = out = None
    torch.cuda.synchronize()
    torch.cuda.memory._record_memory_history(max_entries=10000)
    out = forward()
    torch.cuda.synchronize()
    ahead = requests()
    torch.cuda.memory._record_memory_history(enabled=None)
    torch.cuda.memory._record_memory_history(max_entries=10000)
    out.backward(gradient)
    torch.cuda.synchronize()
    back = requests()
    torch.cuda.memory._record_memory_history(enabled=None)
    return {"forward": ahead, "stays_bytes": sum(ahead), "forward_peak_bytes": peak(ahead), "backward": back, "backward_peak_bytes": peak(back)}


def chosen(row):
    import torch
    from torch.nn.attention import SDPBackend
    kind, width, heads, shape, mask, dropout = row
    q, k, v, given = tensors(kind, width, heads, shape, mask)
    choice = torch._fused_sdp_choice(q, k, v, given, dropout, mask == "causal", enable_gqa=heads[0] != heads[1])
    return SDPBackend(choice).name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("paper", "gpu"), default="gpu")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    from recorder import paper
    if arguments.device == "paper":
        paper.load(device_bytes=2 * 10**12)
    import torch
    from torch.nn.attention import SDPBackend
    backends = {"FLASH_ATTENTION": SDPBackend.FLASH_ATTENTION, "EFFICIENT_ATTENTION": SDPBackend.EFFICIENT_ATTENTION, "MATH": SDPBackend.MATH}
    if arguments.device == "gpu":
        backends["CUDNN_ATTENTION"] = SDPBackend.CUDNN_ATTENTION
    warnings.simplefilter("ignore")  # why a kernel refuses
    table, seen = [], set()
    for row in rows():
        if row in seen:
            continue
        seen.add(row)
        kind, width, heads, shape, mask, dropout = row
        answer = {"type": kind, "width": width, "heads": heads, "batch": shape[0], "length": shape[1], "mask": mask, "dropout": dropout}
        try:
            answer["chosen"] = chosen(row)
        except RuntimeError as error:
            answer["chosen"] = f"refused: {str(error).splitlines()[0][:80]}"
        answer["kernels"] = {name: found for name, backend in backends.items() if (found := measured(row, backend)) is not None}
        table.append(answer)
        torch.cuda.empty_cache()
    whole = {"schema": "steelyard.attention_kernels/1", "how": arguments.device, "device": torch.cuda.get_device_name(),
             "versions": {"torch": torch.__version__, "cuda": torch.version.cuda,
                          "cudnn": torch.backends.cudnn.version() if arguments.device == "gpu" else None}}
    text = json.dumps(whole)[:-1] + ",\n \"rows\": [\n" + ",\n".join("  " + json.dumps(row) for row in table) + "\n]}\n"
    Path(arguments.out).write_text(text) if arguments.out else print(text)
    print(f"{len(table)} shapes", file=sys.stderr)


if __name__ == "__main__":
    main()
