#!/usr/bin/env python3
"""Writes the table of docs/rehearse.md from tests/verify/rehearsed.json, which `make verify-rehearse` writes: rehearse.py [--check]"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE, RESULTS = ROOT / "docs" / "rehearse.md", ROOT / "tests" / "verify" / "rehearsed.json"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->"


def words(text):
    return " ".join(text.split()).replace("|", "/")


def table(document):
    rows = document["rows"].values()
    ran = [row for row in rows if row.get("steps", 0) >= 3]
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    lines = [f"{len(ran)} of {len(rows)} ran three steps, with {versions}.", "",
             "| script | launch line | on | peak, B | reserved, B | in | seconds | substitutions | files written |",
             "|---|---|---|---:|---:|---|---:|---:|---|"]
    for row in rows:
        name = f"[{row['name']}]({row['url']})" if row["url"] else row["name"]
        begin = f"| {name} | `{row['command']}`{' ' if row['flags'] else ''}{row['flags'] and '`' + row['flags'] + '`'} | {row['on']} | "
        if row.get("problem"):
            lines.append(begin + f"not run: {words(row['problem'])} | | | | | |")
            continue
        lines.append(begin + f"{row['peak']:,} | {row['reserved']:,} | {row['phase']} | {row['seconds']:.0f} | {row['substitutions']:,} | "
                     f"{', '.join(row['written']) or 'none'} |")
    return "\n".join(lines) + "\n"


def main():
    page = PAGE.read_text()
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    written = page[:begin] + table(json.loads(RESULTS.read_text())) + page[end:]
    if "--check" in sys.argv:
        if written != page:
            print("docs/rehearse.md is not what tests/verify/rehearsed.json says: docs/rehearse.py writes it")
        return int(written != page)
    PAGE.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
