#!/usr/bin/env python3
"""Kernel and copy times of the device: times.py [--device paper] [--budget-seconds 120] [--out FILE]

Matrix products by shape, attention forward and backward by kernel, and copies, each the median of several runs between two events.
On paper it runs from start to end, and every time is 0.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

TYPES = ("bf16", "fp16", "fp32")
HIDDEN = (1024, 2048, 4096, 8192)
TOKENS = (512, 2048, 8192, 32768)
ATTENTION = [(b, heads, s, width) for width in (64, 128) for heads in (16, 32) for b, s in ((8, 1024), (2, 4096), (1, 16384))]
COPIES = [2**power for power in range(12, 31, 3)]


def cases():
    """(row, function that makes what is timed), the most wanted first."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

    def product(kind, m, n, k):
        a, b = torch.ones(m, k, device="cuda", dtype=kinds[kind]), torch.ones(k, n, device="cuda", dtype=kinds[kind])
        return lambda: a @ b

    def attention(backend, backward, b, heads, s, width):
        q, k, v = (torch.ones(b, heads, s, width, device="cuda", dtype=torch.bfloat16, requires_grad=backward) for _ in range(3))
        gradient = torch.ones_like(q)

        def forward():
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        if not backward:
            return forward
        out = forward()
        return lambda: out.backward(gradient, retain_graph=True)

    def copy(kind, size):
        host = torch.empty(size, dtype=torch.uint8, pin_memory=kind != "pageable to device")
        here, there = (torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2))
        to, source = {"within the device": (there, here), "device to host": (host, here)}.get(kind, (here, host))
        return lambda: to.copy_(source, non_blocking=True)

    for kind in TYPES:
        for tokens in TOKENS:
            for hidden in HIDDEN:
                for out in (hidden, 4 * hidden):
                    yield ({"kernel": "matmul", "type": kind, "m": tokens, "n": out, "k": hidden},
                           lambda a=(kind, tokens, out, hidden): product(*a))
    for b, heads, s, width in ATTENTION:
        for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("efficient", SDPBackend.EFFICIENT_ATTENTION)):
            for backward in (False, True):
                yield ({"kernel": f"{name} attention" + (", backward" if backward else ""), "type": "bf16", "batch": b,
                        "heads": heads, "sequence": s, "width": width},
                       lambda a=(backend, backward, b, heads, s, width): attention(*a))
    for kind in ("within the device", "pinned to device", "pageable to device", "device to host"):
        for size in COPIES:
            yield {"copy": kind, "bytes": size}, lambda a=(kind, size): copy(*a)


def timed(run, repeats):
    import torch
    for _ in range(2):
        run()
    spans = []
    for _ in range(repeats):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        run()
        last.record()
        last.synchronize()
        spans.append(first.elapsed_time(last) / 1000)
    return statistics.median(spans)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("paper", "gpu"), default="gpu")
    parser.add_argument("--budget-seconds", type=float, default=120)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    from recorder import paper
    if arguments.device == "paper":
        paper.load(device_bytes=2 * 10**12)
    import torch
    begun, rows, left_out = time.time(), [], 0
    for row, make in cases():
        if time.time() - begun > arguments.budget_seconds:
            left_out += 1
            continue
        try:
            seconds = timed(make(), arguments.repeats if arguments.device == "gpu" else 1)
            rows.append({**row, "seconds": 0.0 if paper.is_loaded() else seconds})
        except RuntimeError as error:  # a kernel that this device has not, or no room
            rows.append({**row, "refused": str(error).splitlines()[0][:100]})
        torch.cuda.empty_cache()
    answer = {"schema": "steelyard.times/1", "how": arguments.device, "device": torch.cuda.get_device_name(),
              "versions": {"torch": torch.__version__, "cuda": torch.version.cuda}, "left_out": left_out}
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    text = json.dumps(answer)[:-1] + ",\n \"times\": [\n" + lines + "\n]}\n"
    Path(arguments.out).write_text(text) if arguments.out else print(text)
    print(f"{len(rows)} timed in {time.time() - begun:.0f} s, {left_out} left out", file=sys.stderr)


if __name__ == "__main__":
    main()
