#!/usr/bin/env python3
"""Writes docs/rules.md from data/rules and docs/rule-recordings.json: rules.py [--check]

Each rule says why a tensor exists and until when it lives, and where that was read. --check writes nothing and fails
where the page is not what the data say.
"""

import argparse
import difflib
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "rules.md"
RECORDINGS = ROOT / "docs" / "rule-recordings.json"
HEAD = """# The rules

Every byte that Steelyard counts belongs to a tensor, and every tensor names the rule it rests on: why it exists, until when it
lives, and where that was read. `steelyard explain` prints the rules of the numbers it shows, `steelyard list rules` prints all.

Behind the source stands how many recordings of real PyTorch check the rule: predictions and recording agree to the byte at a
peak where a tensor that rests on it is alive (`docs/rule_recordings.py`). A rule without any rests on its source alone: at
those peaks its tensors have gone, or no recording runs that code.

This page is written by `docs/rules.py` from `data/rules`; a test holds each rule to a tensor that uses it.
"""


def checks(recordings):
    """How often recordings check a rule, and one of them by name."""
    count, *names = recordings
    if not count:
        return ""
    return f" · {count} recording{'s' if count > 1 else ''}, as `{names[0]}`"


def page():
    recordings = json.loads(RECORDINGS.read_text(encoding="utf-8"))
    topics = [json.loads(file.read_text(encoding="utf-8")) for file in sorted((ROOT / "data" / "rules").glob("*.json"))]
    parts = [HEAD]
    for topic in sorted(topics, key=lambda topic: topic["topic"].lower()):
        parts.append(f"\n## {topic['topic']}\n")
        for rule in topic["rules"]:
            parts.append(f"\n**`{rule['id']}`** {rule['sentence']}<br>\n*{rule['source']}*{checks(recordings[rule['id']])}\n")
    return "".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    written = page()
    if not parser.parse_args().check:
        PAGE.write_text(written, encoding="utf-8")
        return 0
    known = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if known == written:
        return 0
    sys.stdout.writelines(difflib.unified_diff(known.splitlines(True), written.splitlines(True), "docs/rules.md", "data/rules"))
    print("run: make docs")
    return 1


if __name__ == "__main__":
    sys.exit(main())
