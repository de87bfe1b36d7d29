#!/usr/bin/env python3
"""Holds `steelyard diagnose` against deaths whose cause is known.

    score.py build/release/steelyard build/deaths                       both halves
    score.py BINARY FOLDER --half development --wrong                   and each answer that is not the truth
    score.py BINARY FOLDER --write docs/deaths.md                       the tables, generated

Four questions about each death: the snapshot with the run file, the text of the failure with the run file, that text alone, and the
whole log with the run file. An answer is right where its verdict is the planted cause, or one that the evidence at hand cannot tell
from it (`truth.json`: also, from_text; below: SAME_FROM_A_SNAPSHOT). An answer that is not right is open where it is not sure and
names the cause among its others or in an experiment that decides; else it is wrong. Bytes are those of the snapshot at the failure:
each class of the truth may lie in the piles of classes.py, and what lies elsewhere or is unaccounted counts as missed.
"""

import argparse
import collections
import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

QUESTIONS = {"snapshot + run": ("snapshot.pickle", True), "text + run": ("oom.txt", True), "text": ("oom.txt", False),
             "log + run": ("train.log", True)}
TARGETS = {"snapshot + run": 95, "text + run": 90, "text": 70}
# A snapshot knows neither processes nor what ended a run that its allocator did not end.
SAME_FROM_A_SNAPSHOT = {"other_process": {"nccl_or_context"}, "nccl_or_context": {"other_process"}, "not_memory": {"healthy"},
                        "host_memory": {"healthy", "not_memory"}, "healthy": {"not_memory"}}
SURE = 0.7


def asked(binary, folder, question):
    """The answer; a dict with `error` where there is none, None where the question has no file."""
    file, with_run = QUESTIONS[question]
    if not (folder / file).exists():
        return None
    words = [binary, "diagnose", str(folder / file), "--json", *(["--against", str(folder / "run.toml")] if with_run else [])]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120)
    try:
        answer = json.loads(ran.stdout)
    except ValueError:
        return {"error": (ran.stdout + ran.stderr)[:300]}
    return answer if "verdict" in answer else {"error": json.dumps(answer)[:300]}


def accepted(truth, question):
    right = {truth["category"], *truth["also"]}
    if question == "text":
        right |= set(truth["from_text"])
    if question == "snapshot + run":
        right |= SAME_FROM_A_SNAPSHOT.get(truth["category"], set())
    return right


def judged(answer, truth, question):
    if "error" in answer:
        return "wrong"
    if answer["verdict"] in accepted(truth, question):
        return "right"
    named = {*answer.get("also", []), *(cause for each in answer.get("experiments", []) for cause in each.get("expect_bytes", {}))}
    return "open" if truth["category"] in named and answer.get("certainty", 1) < SURE else "wrong"


def attributed(answer, truth):
    """The share of what was alive that stands in a pile where it may stand; None where there is nothing to hold against."""
    measured = dict(answer.get("piles") or {})
    if not truth["classes"] or not measured:
        return None if not truth["classes"] else 0.0
    found = 0
    for row in sorted(truth["classes"], key=lambda row: len(row["piles"])):
        left = row["bytes"]
        for pile in row["piles"]:
            taken = min(left, measured.get(pile) or 0)
            measured[pile] = (measured.get(pile) or 0) - taken
            left -= taken
            found += taken
    return found / truth["alive_bytes"]


def scored(binary, folder):
    truth = json.loads((folder / "truth.json").read_text())
    found = {"name": folder.name, "truth": truth, "answers": {}}
    for question in QUESTIONS:
        answer = asked(binary, folder, question)
        if answer is None:
            continue
        found["answers"][question] = {"judged": judged(answer, truth, question), "said": answer.get("verdict", "error"),
                                      "certainty": answer.get("certainty"), "error": answer.get("error")}
        if question == "snapshot + run" and "error" not in answer:
            found["bytes"] = attributed(answer, truth)
            found["piles"] = answer.get("piles")
    return found


def rate(rows, question, verdict="right"):
    answers = [row["answers"][question]["judged"] for row in rows if question in row["answers"]]
    return 100 * answers.count(verdict) / len(answers) if answers else None


def percent(number):
    return "" if number is None else f"{number:.0f} %"


def table(rows):
    """One line a category, and all of them."""
    categories = collections.defaultdict(list)
    for row in rows:
        categories[row["truth"]["category"]].append(row)
    lines = ["| category | deaths | snapshot + run | text + run | text | open | log + run | bytes in the right pile | sure |",
             "|---|---|---|---|---|---|---|---|---|"]
    for name, of_it in [*sorted(categories.items()), ("**all**", rows)]:
        shares = [row["bytes"] for row in of_it if row.get("bytes") is not None]
        sure = [a["certainty"] for row in of_it for q, a in row["answers"].items() if q == "snapshot + run" and a["certainty"] is not None]
        lines.append(f"| {name} | {len(of_it)} | " + " | ".join(percent(rate(of_it, q)) for q in ("snapshot + run", "text + run", "text"))
                     + f" | {percent(rate(of_it, 'text', 'open'))} | {percent(rate(of_it, 'log + run'))} | "
                     + (f"{100 * sum(shares) / len(shares):.1f} % (median {100 * statistics.median(shares):.1f} %)" if shares else "")
                     + f" | {f'{100 * sum(sure) / len(sure):.0f} %' if sure else ''} |")
    return lines


def confident_and_wrong(rows):
    return [(row["name"], q, a["said"]) for row in rows for q, a in row["answers"].items()
            if a["judged"] == "wrong" and (a["certainty"] or 0) >= 0.8]


PAGE = """# Seeded deaths

`truth/deaths/make.py` lets real PyTorch die of memory on a device of paper: an ordinary training script with one cause planted in
it, of sizes drawn at random, on a device just too small for it. The cause is known by construction: the same script without it fits
the same device, and every allocation alive at the failure was followed, in a run on a device without end, to what held it
and when it went. `truth/deaths/score.py` (`make verify-diagnose`) asks `steelyard diagnose`: from the snapshot with the run file, from
the text of the failure with the run file, from that text alone, and from the whole log with the run file. *Open* is an answer
from the text that is not sure and names the cause among those that an experiment decides. Bytes are held to the truth allocation by
allocation; what is unaccounted counts as missed.

Kinds of script are divided into two halves, each second one of a category in the order of their names' sha256. The rules of `diagnose` were
written with the development half; the test half was only scored.

This page is generated by `truth/deaths/score.py --write`.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", choices=("development", "test"), help="only this half")
    parser.add_argument("--wrong", action="store_true", help="also each answer of the development half that is not right")
    parser.add_argument("--write", type=Path, help="the page of both tables")
    parser.add_argument("--json", type=Path, help="every answer, into a file")
    parser.add_argument("--least", type=float, nargs=3, metavar="PERCENT", help="exit 1 below these: snapshot + run, text + run, text")
    arguments = parser.parse_args()
    binary = str(Path(arguments.binary).resolve())
    page, everything, low = [PAGE], {}, False
    for half in ("development", "test"):
        if arguments.half not in (None, half):
            continue
        folders = sorted(path.parent for path in (arguments.folder / half).glob("*/truth.json"))
        with ThreadPoolExecutor(4) as pool:
            rows = list(pool.map(lambda folder: scored(binary, folder), folders))
        everything[half] = rows
        if not rows:
            continue
        lines = table(rows)
        confident = confident_and_wrong(rows)
        kinds = len({row["truth"]["kind"] for row in rows})
        page.append(f"\n## {half.capitalize()} half: {len(rows)} deaths of {kinds} kinds\n\n" + "\n".join(lines)
                    + f"\n\nWrong and at least 80 % sure: {len(confident)} of {sum(len(row['answers']) for row in rows)} answers.\n")
        print(page[-1])
        if arguments.wrong and half == "development":
            for row in rows:
                for question, answer in row["answers"].items():
                    if answer["judged"] != "right":
                        print(f"{row['name']:36} {question:15} {answer['judged']:6} said {answer['said']} "
                              f"{answer['certainty'] if answer['certainty'] is not None else ''} {answer['error'] or ''}")
                if row.get("bytes") is not None and row["bytes"] < 0.97:
                    truth = {each["class"]: round(each["bytes"] / 2**20) for each in row["truth"]["classes"]}
                    print(f"{row['name']:36} bytes {100 * row['bytes']:.1f} %: truth {truth}, said "
                          f"{ {name: round(size / 2**20) for name, size in (row['piles'] or {}).items() if size} }")
        if arguments.least and half == "test":
            low = any((rate(rows, question) or 0) < least for question, least in zip(QUESTIONS, arguments.least))
    if arguments.write:
        arguments.write.write_text("".join(page))
    if arguments.json:
        arguments.json.write_text(json.dumps(everything, indent=1))
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
