#!/usr/bin/env python3
"""Writes docs/on-a-gpu.md from truth/records-gpu and truth/on-a-gpu: on_a_gpu.py --binary STEELYARD [--check]

The page holds the device on paper, and predictions, against what an H200 and an H100 did.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE, MEASURED = ROOT / "docs" / "on-a-gpu.md", ROOT / "truth" / "on-a-gpu"
MIB = 1 << 20
DEVICES = {"h100": "H100 SXM 80 GB", "h200": "H200 SXM"}
HEAD = """# On a GPU

What a real H100 and a real H200 did, beside the device on paper and beside `weigh` (`docs/on_a_gpu.py` writes this page from
`truth/records-gpu` and `truth/on-a-gpu`; `truth/README.md` says how they were recorded). PyTorch 2.11.0+cu130, cuDNN 9.19, NCCL 2.28.9,
driver 580.159, transformers 5.17.0; one device each, lent for half an hour. Nothing of the product was fitted to what stands here, but
for the rules that name it as their source.

## The device on paper is right

{compared} runs were recorded on both, of one device and of one rank of many (the real device, with NCCL on paper). Of these
{allocated} are equal to the byte in the peak of every phase of the first and of a later step; {reserved} reserved the same bytes,
{reserved_near} within 1 %. The others reserved from {least:+.1f} % to {most:+.1f} % of it ({farthest}), though they asked for the same: the real device
gives addresses in another order, and among free blocks of one size PyTorch takes the lowest.

`weigh`'s own word of these runs, where the recorded rank is the fullest: what the H200 reserved is within 1 % of what was expected in
{expected} of {weighed}, and not above the high end of the band in {held}. Above it, most first: {above}.

| what differs in a peak | runs | largest difference |
|---|---:|---:|
{differences}

Not comparable: DeepSpeed's stages 0 to 2 in 16 bits (weights were not initialised, it saw gradients that are not finite and skipped the
step), Megatron's engine (it reads sizes that other ranks send), tensor and context ranks (positions came from ranks that are not there),
Triton's delta rule (its package refuses this version of Triton on Hopper).
"""
KERNELS = """
## Which kernel attention takes

`scaled_dot_product_attention` of PyTorch 2.11 with cuDNN 9.19 on Hopper, left to itself, {shapes} shapes (widths 32 to 256, grouped heads,
lengths of 128 to 8,192, masks, dropout):

| type | mask | kernel |
|---|---|---|
{choices}

`attention = "cudnn"` weighs that kernel; 14 recordings of it are among those of `truth/records`, equal to the byte. `weigh` assumes
flash where nothing is said, as scripts that ask for FlashAttention get and as older versions of PyTorch choose: what stays for backward
differs by 8 bytes a layer, what backward needs for a moment by less than 1 % of it but for heads of odd widths.
"""
OUTSIDE = """
## Outside PyTorch's allocator

MiB that the device has less than it had, without what the allocator has reserved, after each stage of a process.

| process | stage | {devices} |
|---|---|{rules}|
{rows}

A context alone is what tools print first; a process that trains holds a quarter of a GiB more, most of it the code of cuBLAS. Loading
every kernel at the start (`CUDA_MODULE_LOADING=EAGER`) costs more than a GiB. A communicator of one rank, which sends nothing, takes
650 MiB the first time and 388 MiB a second time: how much of that a communicator of eight has besides its channels is not known here.
"""
STEPS = """
## The time of a step, and its peak

Ordinary loops with random data (`truth/step_times.py`), the median of eight steps, beside `weigh`. In the mean the time is {mean:.1f} % off
({worst:.0f} % at the worst), the allocated peak {memory:.3f} %. A step of one short sequence is the host's, whose Python was slower there;
why GPT-2 takes longer is not known yet. These rows are no source of any
constant.

| device | run | measured | predicted | difference | band holds it | peak measured | difference |
|---|---|---:|---:|---:|---|---:|---:|
{rows}
"""


def paper_beside_gpu():
    """(counts, {what: [runs, largest]}, [(reserved more than on paper, run)])"""
    counts, kinds, reserved = collections.Counter(), collections.defaultdict(lambda: [0, 0]), []
    for file in sorted((ROOT / "truth" / "records-gpu").glob("*.json")):
        other = ROOT / "truth" / "records" / file.name
        real, paper = json.loads(file.read_text()), json.loads(other.read_text())
        assert real["run"] == paper["run"], file.name
        rows = {(row["step"], row["phase"]): row for row in real["phases"]}
        apart = [rows[row["step"], row["phase"]]["allocated_bytes"] - row["allocated_bytes"] for row in paper["phases"] if row["step"] != "owners"]
        worst = max(apart, key=abs)
        counts["all"] += 1
        counts["allocated"] += not worst
        of_real, of_paper = (max(row["torch"]["reserved_bytes"] for row in record["phases"]) for record in (real, paper))
        counts["reserved"] += of_real == of_paper
        counts["near"] += abs(of_real - of_paper) <= 0.01 * of_paper
        reserved.append((of_real / of_paper - 1, file.stem))
        if worst:
            engine = real["run"]["engine"]
            precision = real["run"]["training"].get("precision", "")
            kind = "8-bit products with scales for each row (compiled on the device)" if precision == "fp8-rowwise" else f"engine {engine}, {precision}"
            kinds[kind][0] += 1
            kinds[kind][1] = max(kinds[kind][1], worst, key=abs)
    return counts, kinds, sorted(reserved)


def answers_of(binary, runs):
    done = subprocess.run([binary, "weigh", "--jobs", "-"], input="".join(json.dumps(run) + "\n" for run in runs), capture_output=True,
                          text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(runs), done.stderr
    return answers


def reserved_as_weighed(binary):
    """(runs, within 1 % of what was expected, [(part above the band's high end, run)])"""
    files = sorted((ROOT / "truth" / "records-gpu").glob("*.json"))
    records = [json.loads(file.read_text()) for file in files]
    weighed = expected = 0
    above = []
    for file, record, answer in zip(files, records, answers_of(binary, [record["run"] for record in records])):
        peak = answer["peak"]
        if peak["coordinates"]["pipeline"] != record.get("coordinates", {}).get("pipeline", 0):
            continue
        weighed += 1
        real = max(row["torch"]["reserved_bytes"] for row in record["phases"])
        expected += abs(real / peak["reserved_bytes"] - 1) <= 0.01
        high = peak["high_bytes"] - (peak["device_bytes"] - peak["reserved_bytes"])
        if real > high:
            above.append((real / high - 1, file.stem))
    return weighed, expected, sorted(above, reverse=True)


def first_part(binary):
    counts, kinds, reserved = paper_beside_gpu()
    rows = "\n".join(f"| {kind} | {runs} | {largest:+,} B |" for kind, (runs, largest) in sorted(kinds.items()))
    weighed, expected, above = reserved_as_weighed(binary)
    return HEAD.format(weighed=weighed, expected=expected, held=weighed - len(above),
                       above=", ".join(f"{name} by {100 * part:.1f} %" for part, name in above), compared=counts["all"], allocated=counts["allocated"], reserved=counts["reserved"], reserved_near=counts["near"],
                       differences=rows, least=100 * reserved[0][0], most=100 * reserved[-1][0], farthest=reserved[-1][1])


def kernels():
    rows = json.loads((MEASURED / "h100-attention-kernels.json").read_text())["rows"]
    chosen = collections.defaultdict(set)
    for row in rows:
        grouped = "" if row["type"] != "fp32" else ", grouped heads" if row["heads"][0] != row["heads"][1] else ", as many key as query heads"
        chosen["bf16, fp16" if row["type"] != "fp32" else "fp32" + grouped].add((row["mask"], row["chosen"].split("_")[0].lower()))
    lines = []
    for kind, found in sorted(chosen.items()):
        names = sorted({name for _, name in found})
        masks = sorted({mask for mask, _ in found})
        assert len(names) == 1, kind
        lines.append(f"| {kind} | {', '.join(masks)} | {names[0].replace('cudnn', 'cuDNN')} |")
    return KERNELS.format(shapes=len(rows), choices="\n".join(lines))


def outside():
    tables = {name: json.loads((MEASURED / f"{name}-outside-allocator.json").read_text())["rows"] for name in DEVICES}
    rows = []
    for index, row in enumerate(tables["h100"]):
        beside = [table[index] for table in tables.values()]
        assert all((each["way"], each["stage"]) == (row["way"], row["stage"]) for each in beside)
        rows.append(f"| {row['way']} | {row['stage']} | " + " | ".join(f"{each['outside_bytes'] / MIB:,.0f}" for each in beside) + " |")
    return OUTSIDE.format(devices=" | ".join(DEVICES.values()), rules="|".join("---:" for _ in DEVICES), rows="\n".join(rows))


def steps(binary):
    measured = [(name, row) for name in DEVICES for row in json.loads((MEASURED / f"{name}-step-times.json").read_text())["rows"]]
    answers = answers_of(binary, [row["run"] for _, row in measured])
    rows, errors, memory = [], [], []
    for (name, row), answer in zip(measured, answers):
        time = answer["time"]
        apart = 100 * (time["step_seconds"] / row["seconds"] - 1)
        peak = max(phase["allocated_bytes"] for phase in answer["ranks"][0]["phases"])
        off = 100 * (peak / row["allocated_bytes"] - 1)
        errors.append(abs(apart))
        memory.append(abs(off))
        holds = time["low_seconds"] <= row["seconds"] <= time["high_seconds"]
        rows.append(f"| {DEVICES[name]} | {row['case']} | {1000 * row['seconds']:.1f} ms | {1000 * time['step_seconds']:.1f} ms | {apart:+.1f} % | "
                    f"{'yes' if holds else '**no**'} | {row['allocated_bytes']:,} | {off:+.3f} % |")
    return STEPS.format(mean=sum(errors) / len(errors), worst=max(errors), memory=sum(memory) / len(memory), rows="\n".join(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    text = first_part(arguments.binary) + kernels() + outside() + steps(arguments.binary)
    if arguments.check:
        if PAGE.read_text() != text:
            print(f"{PAGE.name} is not what on_a_gpu.py writes: run it", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
