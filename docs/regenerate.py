#!/usr/bin/env python3
"""Runs the commands that the documents show and writes what they print: regenerate.py [--check]

A marked block of README.md, CONTRIBUTING.md or docs/*.md is a comment, an empty line and a fenced block:

    <!-- run: steelyard --version -->

    ```text
    $ steelyard --version
    steelyard 0.1.0
    ```

The command runs in the root of the repository through sh, 80 columns wide, with steelyard on the path; its
standard output is shown. A command that ends with another status says so: <!-- run, exit 1: ... -->.
--check writes nothing and fails where a document shows something else than its command prints. The tables of
docs/validation.md, which come from the recordings, are written and checked along with them (docs/validation.py).
"""

import argparse
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

import validation

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- run(?:, exit (?P<exit>\d+))?: (?P<command>.*?) -->\n\n(?P<fence>```\w*\n).*?(?P<end>^```$)",
                   re.DOTALL | re.MULTILINE)


def output_of(command, expected, tools):
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8", "TZ": "UTC",
                   "COLUMNS": "80", "TERM": "dumb"}
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode != expected:
        raise SystemExit(f"{command}: exit {done.returncode}, not {expected}\n{done.stderr}")
    return done.stdout if done.stdout.endswith("\n") else done.stdout + "\n"


def regenerated(text, tools):
    def block(found):
        command = found["command"]
        shown = output_of(command, int(found["exit"] or 0), tools)
        head = found.group(0)[:found.start("fence") - found.start()]
        return f"{head}{found['fence']}$ {command}\n{shown}{found['end']}"

    return BLOCK.sub(block, text)


def main():
    arguments = argparse.ArgumentParser(description=__doc__,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", type=pathlib.Path, default=ROOT / "build/dev/steelyard")
    arguments.add_argument("--check", action="store_true")
    chosen = arguments.parse_args()

    stale = 0
    with tempfile.TemporaryDirectory() as tools:
        pathlib.Path(tools, "steelyard").symlink_to(chosen.binary.resolve())
        for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
            old = path.read_text(encoding="utf-8")
            if len(BLOCK.findall(old)) != len(re.findall(r"^<!-- run\b", old, re.MULTILINE)):
                raise SystemExit(f"{path.name}: a <!-- run --> comment has no fenced block below it")
            new = regenerated(old, tools)
            if new == old:
                continue
            stale += 1
            if not chosen.check:
                path.write_text(new, encoding="utf-8")
            print("".join(difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True),
                                               path.name, f"{path.name} (as it is now)")))
    stale += validation.regenerate(chosen.binary.resolve(), chosen.check)
    if chosen.check and stale:
        print("run: make docs")
    return 1 if chosen.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
