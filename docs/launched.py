#!/usr/bin/env python3
"""Writes docs/launched.md from tests/verify/launched.json, which `make verify` writes: launched.py [--check]"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE, RESULTS = ROOT / "docs" / "launched.md", ROOT / "tests" / "verify" / "launched.json"
ALLOWED = 0.001
HEAD = """# Exported files, launched

What `steelyard export` writes, started as it is: `make verify` installs the engines, and this page is its result (`docs/launched.py`
writes it from `tests/verify/launched.json`). Nothing below is a prediction of ours held against a prediction of ours: the engine's own
launcher reads the file, and the engine's own loop runs the steps.

## On a device of paper: the peak beside `weigh`

Rank 0 of 8 on PyTorch's CUDA build over a device that computes nothing (`truth/README.md`); every byte is given by PyTorch's own
allocator. *Weighed* is what `weigh` says of the run that the exported file is read as. *Asked for* is the largest sum of what was
alive over four steps, which is what `weigh` predicts. *max_memory_allocated* is PyTorch's own figure: it also counts the ends of
blocks that its allocator does not split, up to 1 MiB each, so that it lies above by what falls to small models more than to large ones.
{within} of {ran} rows agree within 0.1 % of what was asked for, {torch_within} within 0.1 % of max_memory_allocated. Sequences of 1,024
tokens, two a micro-batch; `small` has 45 million parameters, `medium` 1.1 billion, weights are random. A bold row is further off, and
says why as far as it is known.

The files run as they were written, but for what no paper has: PyTorch's own flash attention where they ask for the flash_attn
package, Megatron-LM's own layers for Transformer Engine's and Apex's, and the data, steps and tokenizer that a user fills in.
"""
CPU = """
## On the CPU: two steps with two to four processes

Real processes over gloo, real data, a model of four layers: the engine's class trained, and its weights moved. Memory says nothing here.
"""


def paper(rows):
    lines = ["| engine | who runs the step | model | `steelyard export ENGINE MODEL` with | weighed | asked for | difference | "
             "max_memory_allocated | difference |", "|---|---|---|---|---:|---:|---:|---:|---:|"]
    for row in rows:
        begin = f"| {row['engine']} | {row['entry']} | {row['model']} | `{row['flags'] or 'nothing more'}` | "
        if row.get("problem"):
            lines.append(begin + f"not run: {' '.join(row['problem'].split()).replace('|', '/')} | | | | |")
            continue
        weighed, asked, allocated = row["predicted"]["peak"], row["asked"], row["allocated"]
        off = f"{100 * (weighed / asked - 1):+.3f} %"
        lines.append(begin + f"{weighed:,} | {asked:,} | {off if abs(weighed / asked - 1) <= ALLOWED else f'**{off}**'} | "
                     f"{allocated:,} | {100 * (weighed / allocated - 1):+.3f} % |")
    return lines


def causes(rows):
    known = [row for row in rows if row.get("cause")]
    if not known:
        return []
    return ["", "Further off than 0.1 %:", ""] + [f"- {row['engine']} `{row['flags']}` ({row['model']}): {row['cause']}" for row in known]


def cpu(rows):
    lines = ["| engine | version | `steelyard export ENGINE MODEL` with | processes | what trained |", "|---|---|---|---:|---|"]
    for row in rows:
        told = f"not launched: {row['missing']}" if row["missing"] else f"**failed**: {row['problem']}" if row["problem"] else row["shows"]
        lines.append(f"| {row['engine']} | {row['version']} | `{row['flags'] or 'nothing more'}` | {row['processes']} | "
                     f"{' '.join(told.split()).replace('|', '/')} |")
    return lines


def page():
    document = json.loads(RESULTS.read_text())
    rows = list(document.get("paper", {}).values())
    ran = [row for row in rows if not row.get("problem")]
    head = HEAD.format(ran=len(ran), within=sum(abs(row["difference"]) <= ALLOWED for row in ran),
                       torch_within=sum(abs(row["predicted"]["peak"] / row["allocated"] - 1) <= ALLOWED for row in ran))
    versions = ", ".join(f"{name} {version}" for name, version in document.get("paper_versions", {}).get("all", {}).items())
    apart = "; ".join(f"{engine}: " + ", ".join(f"{name} {version}" for name, version in table.items())
                      for engine, table in document.get("paper_versions", {}).items() if engine != "all")
    lines = [head, f"Versions: {versions}. {apart}.", "", *paper(rows), *causes(rows)]
    if document.get("cpu"):
        lines += [CPU, *cpu(document["cpu"].values())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        same = PAGE.exists() and PAGE.read_text() == page()
        print("" if same else "docs/launched.md is not what tests/verify/launched.json says: python3 docs/launched.py")
        sys.exit(not same)
    PAGE.write_text(page())
