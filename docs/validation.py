#!/usr/bin/env python3
"""The tables of docs/validation.md: validation.py [--check] [--judge PROGRAM]

    <!-- table: recordings -->      from truth/records, by `steelyard validate`: written anew, or compared with --check
    <!-- published: errors -->      from the published rows in tools/judge/rows, by tools/judge's program, only with --judge;
                                    docs/published-errors.json then has their medians

A table stands between its comment and <!-- end -->. So does a number within a sentence, in any document:

    <!-- count: equal recordings -->730<!-- end -->
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs/validation.md"
COUNTED = (ROOT / "README.md", ROOT / "docs/open-differences.md")
BLOCK = re.compile(r"(?P<head><!-- (?P<kind>table|published): (?P<name>[a-z ]+) -->\n)(?P<body>.*?)(?P<end><!-- end -->)",
                   re.DOTALL)
COUNT = re.compile(r"(?P<head><!-- count: (?P<name>[a-z ]+) -->)[\d,]*(?P<end><!-- end -->)")
MEDIANS = ROOT / "docs/published-errors.json"  # docs/strategies.py shows them
SEGMENT = 20 << 20  # bytes that the allocator asks for at once, where a block is neither small nor large
PHASES = ("first forward", "first backward", "first optimizer", "later forward", "later backward", "later optimizer")


def judged(command):
    done = subprocess.run([*command, "--rows", "--json"], cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)["sources"]


def table(head, rows):
    """Columns after the first are numbers where they look like it."""
    number = re.compile(r"^(< )?[-+]?[\d.,]+( [%A-Za-z]+)?$|^-?$")
    right = [all(number.match(row[i]) for row in rows) for i in range(len(head))]
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join("---:" if r else "---" for r in right) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def percent(value):
    """Zero is written only for zero."""
    if value == 0:
        return "0"
    return f"{value:.1f} %" if abs(value) >= 0.05 else "< 0.1 %"


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole and part is not None else "-"


def memory(count):
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= size:
            return f"{count / size:+.1f} {unit}"
    return f"{count:+d} B"


# ---- recordings


def peaks(row):
    """The readings that are peaks of a phase; load also shows what the recording script itself holds."""
    return [r for r in row["readings"] if r["reading"] in PHASES]


def is_equal(row):
    return all(r["measured_bytes"] == r["predicted_bytes"] for r in peaks(row))


def farthest(rows):
    return max((abs(r["error_percent"]) for row in rows for r in peaks(row)), default=0)


def group_of(run):
    parallel, training = run.get("parallel", {}), run.get("training", {})
    if "adapter" in run:
        return "adapters (LoRA and its like)"
    if run["engine"] == "megatron":
        return "Megatron-core, its local layers"
    if parallel.get("pipeline", 1) > 1:
        return "pipeline stages (torch.distributed.pipelining)"
    if parallel.get("tensor", 1) > 1:
        return "tensor parallel (DTensor)"
    if parallel.get("context", 1) > 1:
        return "context parallel (torch.distributed)"
    if run.get("cluster", {}).get("devices", 1) > 1:
        return {"fsdp1": "FSDP1", "fsdp2": "FSDP2", "ddp": "DDP", "deepspeed": "DeepSpeed ZeRO"}.get(run["engine"], run["engine"])
    return "one device, bf16 autocast" if training.get("precision") == "bf16-autocast" else "one device"


def grouped(rows, key):
    groups = collections.OrderedDict()
    for row in rows:
        groups.setdefault(key(row["run"]), []).append(row)
    return groups


def equal_rows(groups):
    for name, rows in groups.items():
        weighed = [row for row in rows if "readings" in row]
        equal = sum(is_equal(row) for row in weighed)
        refused = str(len(rows) - len(weighed)) if len(rows) > len(weighed) else "-"
        yield [name, str(len(rows)), str(equal), refused, percent(farthest(weighed)) if weighed else "-"]


def recordings(sources):
    rows = sources[0]["judged"]
    out = list(equal_rows(grouped(rows, group_of)))
    weighed = [row for row in rows if "readings" in row]
    out.append(["**all**", str(len(rows)), str(sum(is_equal(row) for row in weighed)), str(len(rows) - len(weighed)),
                percent(farthest(weighed))])
    return table(["recorded", "runs", "equal to the byte", "not weighed", "largest error of a phase"], out)


def reserved_within(sources, far):
    readings = [r for row in sources[0]["judged"] for r in row.get("readings", []) if r["reading"] == "reserved"]
    return sum(abs(r["measured_bytes"] - r["predicted_bytes"]) <= far for r in readings)


COUNTS = {
    "recordings": lambda sources: len(sources[0]["judged"]),
    "equal recordings": lambda sources: sum("readings" in row and is_equal(row) for row in sources[0]["judged"]),
    "equal reserved": lambda sources: reserved_within(sources, 0),
    "reserved within a segment": lambda sources: reserved_within(sources, SEGMENT),
}


def families(sources):
    rows = [row for row in sources[0]["judged"] if group_of(row["run"]).startswith("one device")]
    return table(["model_type", "runs", "equal to the byte", "not weighed", "largest error of a phase"],
                 sorted(equal_rows(grouped(rows, lambda run: run["model"]["model_type"]))))


def meters(sources):
    names = {"resident": "held between steps", "reserved": "reserved (allocator's segments)",
             "first backward": "highest of the first step", "later backward": "highest of a later step"}
    rows = []
    for error in sources[0]["errors"]:
        if error["reading"] in names:
            rows.append([names[error["reading"]], str(error["rows"]), str(error["equal"]),
                         share(error["in_band"], error["rows"]), percent(error["bias_percent"]),
                         percent(error["median_percent"]), percent(error["percentile_95_percent"]), percent(error["max_percent"])])
    return table(["what PyTorch counted", "runs", "equal", "in band", "bias", "median error", "95 % within", "largest"], rows)


def worst(sources):
    rows = []
    for row in sources[0]["judged"]:
        found = [r for r in peaks(row) if r["measured_bytes"] != r["predicted_bytes"]] if "readings" in row else []
        if found:
            most = max(found, key=lambda r: abs(r["error_percent"]))
            rows.append((abs(most["error_percent"]), [
                row["id"], most["reading"], memory(most["predicted_bytes"] - most["measured_bytes"]),
                percent(abs(most["error_percent"])), most.get("pile", "-")]))
    rows.sort(key=lambda row: -row[0])
    return table(["recording", "phase", "predicted too much (+)", "of the phase", "pile"], [row for _, row in rows[:10]])


def bands(_):
    """data/bands.json, as it is read."""
    rows = []
    for one in json.loads((ROOT / "data/bands.json").read_text(encoding="utf-8"))["errors"]:
        whose = "any other" if one["engine"] == "any" else f"{one['engine']}, {one['implementation']}"
        if one["layout"] != "any":
            whose += f", {one['layout']}"
        rows.append([whose, one["term"], f"{100 * one['low']:+.1f} %", f"{100 * one['high']:+.1f} %", one["source"]])
    return table(["engine, model code", "term", "2.5 %", "97.5 %", "observed in (runs)"], rows)


def steps(_):
    """Its errors of step times."""
    return table(["devices", "engine, model code", "2.5 %", "97.5 %", "observed in (rows)"], [
        [f"{one['devices']} {one['device']}", f"{one['engine']}, {one['implementation']}", f"{100 * one['low']:+.0f} %", f"{100 * one['high']:+.0f} %", one["source"]]
        for one in json.loads((ROOT / "data/bands.json").read_text(encoding="utf-8"))["steps"]])


# ---- published rows

INFERRED = ", inferred"
SPLIT = json.loads((ROOT / "tools/judge/split.json").read_text(encoding="utf-8"))["sources"]


class Source:
    """One source of published rows: those that stand for themselves, and apart those that were inferred."""

    def __init__(self, said):
        self.said = said
        self.name = said["source"].removesuffix(INFERRED)
        self.inferred = said["source"].endswith(INFERRED)
        self.role = SPLIT[self.name]["role"]

    def label(self):
        return self.name + (" (inferred)" if self.inferred else "")


def published_sources(sources):
    """Judges first, of them those that nothing was inferred of; then what constants and bands were taken from."""
    known = [Source(said) for said in sources if said["source"] != "unknown"]
    return sorted(known, key=lambda source: (source.role != "judge", source.inferred))


def by_role(sources, rows_of, width):
    """Rows of judges, then a line that says what follows, then rows of sources in the fit."""
    out = []
    for role, label in (("judge", "**judges: nothing of ours was taken from them**"), ("fit", "**in sample: constants or bands were taken from them**")):
        rows = [row for source in published_sources(sources) if source.role == role for row in rows_of(source)]
        if rows:
            out += [[label] + [""] * (width - 1), *rows]
    return out


def left_alone(source):
    """Of its rows: refused, left out, and of these for what they measured."""
    said = source.said
    return f"{said['refused'] + said['left_out'] - said['disagreeing']:,}", f"{said['disagreeing']:,}"


def rows_judged(sources):
    def rows_of(source):
        if source.inferred:
            return []
        inferred = sum(said["rows"] for said in sources if said["source"] == source.name + INFERRED)
        rest, disagreeing = left_alone(source)
        return [[source.name, f"{source.said['rows'] + inferred:,}", f"{source.said['weighed']:,}", f"{inferred:,}", rest, disagreeing,
                 SPLIT[source.name]["because"]]]

    # A source of which every row was inferred has no other line.
    names = {said["source"] for said in sources}
    lone = [dict(said, source=said["source"].removesuffix(INFERRED), rows=0, weighed=0, refused=0, left_out=0, disagreeing=0)
            for said in sources if said["source"].endswith(INFERRED) and said["source"].removesuffix(INFERRED) not in names]
    return table(["source", "rows", "weighed", "inferred", "says too little", "contradicts itself", "why it stands here"],
                 by_role(sources + lone, rows_of, 7))


def day(sources):
    rows = sum(s["rows"] for s in sources)
    weighed = sum(s["weighed"] for s in sources)
    return (f"{rows:,} rows of published tables, {weighed:,} weighed; the others say too little, contradict themselves, are copies of another "
            "table, or ask what is not weighed yet.\n")


def coverage(sources):
    """The one figure that a band has to answer for."""
    def count(role, inferred, measured):
        inside = whole = 0
        for source in published_sources(sources):
            if source.role == role and source.inferred == inferred:
                for one in source.said[measured]:
                    if one["in_band"] is not None:
                        inside, whole = inside + one["in_band"], whole + one["rows"]
        return [f"{whole:,}", share(inside, whole)]

    rows = [[label, *count(role, inferred, "errors"), *count(role, inferred, "step_times")] for label, role, inferred in (
        ("judges", "judge", False), ("judges, inferred", "judge", True), ("in sample", "fit", False), ("in sample, inferred", "fit", True))]
    return table(["sources", "readings of memory", "in band", "step times", "in band"], rows)


def outcomes(sources):
    sums = collections.Counter()

    def rows_of(source):
        out = source.said["out_of_memory"]
        sums.update(out)
        if not out["died"]:
            return []
        return [[source.label(), f"{out['died']:,}", f"{out['called']:,}", f"{out['died_tight']:,}", f"{out['missed']:,}",
                 f"{out['ran']:,}", f"{out['fit']:,}", f"{out['ran_tight']:,}", f"{out['false_alarms']:,}"]]

    rows = by_role(sources, rows_of, 9)
    rows.append(["**all**, with those where none died"] + [f"{sums[k]:,}" for k in (
        "died", "called", "died_tight", "missed", "ran", "fit", "ran_tight", "false_alarms")])
    return table(["source", "died", "said so", "tight", "**missed**", "ran", "said so", "tight", "**false alarm**"], rows)


def errors(sources):
    def rows_of(source):
        return [[source.label(), error["reading"], f"{error['rows']:,}", share(error["in_band"], error["rows"]), f"{error['bias_percent']:+.1f} %",
                 percent(error["median_percent"]), percent(error["percentile_95_percent"])]
                for error in source.said["errors"]]

    return table(["source", "what was measured", "rows", "in band", "bias", "median error", "95 % within"], by_role(sources, rows_of, 7))


def medians(sources):
    """What each source is first held to."""
    first = {source.name: source.said["errors"][0] for source in published_sources(sources) if source.said["errors"]}
    return {name: f"{error['median_percent']:.1f} % median ({error['reading']}, {error['rows']:,} rows)"
            for name, error in sorted(first.items())}


def times(sources):
    def rows_of(source):
        return [[source.label(), one["device"], f"{one['rows']:,}", share(one["in_band"], one["rows"]), percent(one["mean_percent"]),
                 percent(one["median_percent"]), percent(one["max_percent"]), f"{one['bias_percent']:+.1f} %",
                 f"{one['rank_correlation']:.3f}", percent(one["median_as_guess_percent"])] for one in source.said["step_times"]]

    return table(["source", "device", "rows", "in band", "mean error", "median", "max", "bias", "rank correlation", "its median as guess"],
                 by_role(sources, rows_of, 10))


TABLES = {"recordings": recordings, "families": families, "meters": meters, "worst": worst, "bands": bands, "steps": steps}
PUBLISHED = {"day": day, "rows": rows_judged, "coverage": coverage, "outcomes": outcomes, "errors": errors, "times": times}


def regenerate(binary, check, judge=None):
    """How many documents are stale; unless they are only checked, they are written anew."""
    said = {"table": judged([binary, "validate", ROOT / "truth/records"])}
    makers = {"table": TABLES, "published": PUBLISHED}
    stale = 0
    if judge:
        said["published"] = judged([judge, ROOT / "tools/judge/rows"])
        text = json.dumps(medians(said["published"]), indent=1) + "\n"
        stale += check and MEDIANS.read_text(encoding="utf-8") != text
        if not check:
            MEDIANS.write_text(text, encoding="utf-8")

    def block(found):
        kind, name = found["kind"], found["name"]
        if name not in makers[kind]:
            raise SystemExit(f"{DOCUMENT.name}: there is no {kind} \"{name}\"")
        if kind not in said:
            return found[0]
        return f"{found['head']}\n{makers[kind][name](said[kind])}\n{found['end']}"

    def count(found):
        return f"{found['head']}{COUNTS[found['name']](said['table']):,}{found['end']}"

    for document in (DOCUMENT, *COUNTED):
        old = document.read_text(encoding="utf-8")
        new = COUNT.sub(count, old) if document in COUNTED else BLOCK.sub(block, old)
        stale += new != old
        if new != old and not check:
            document.write_text(new, encoding="utf-8")
        if new != old and check:
            print(f"{document.name} is stale")
    return stale


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", type=pathlib.Path, default=ROOT / "build/dev/steelyard")
    arguments.add_argument("--judge", type=pathlib.Path, help="tools/judge's program: the tables of published rows, too")
    arguments.add_argument("--check", action="store_true", help="writes nothing; fails where a table is stale")
    chosen = arguments.parse_args()
    stale = regenerate(chosen.binary.resolve(), chosen.check, chosen.judge and chosen.judge.resolve())
    return 1 if chosen.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
