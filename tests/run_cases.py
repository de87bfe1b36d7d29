#!/usr/bin/env python3
"""Runs whole-program cases: one readable file each, described in tests/README.md.

run_cases.py --binary build/dev/steelyard [--rebase] [CASE.case | FOLDER ...]     (default: tests/cases)

Needs Python's standard library and our binary. Every command of a case runs in a folder of its own; what it
prints is compared to the byte; after every command that predicts, the sums are checked (conservation.py).
"""

import argparse
import concurrent.futures
import difflib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

import conservation

TESTS = pathlib.Path(__file__).resolve().parent
ROOT = TESTS.parent
MARK = re.compile(r"^--- (file|env|run|stdin|select|keep|stdout|stderr|exit)(?: (.*))?$")
PROMPT_SECONDS = 60


class Malformed(Exception):
    pass


@dataclass
class Step:
    """One command and what is expected of it."""

    command: str
    line: int
    stdin: str = ""
    select: list = field(default_factory=list)
    keep: str = ""
    stdout: str = ""
    stderr: str = ""
    exit: int = 0


@dataclass
class Case:
    path: pathlib.Path
    head: list  # the lines up to the first command, kept as they are by --rebase
    files: dict
    env: dict
    steps: list


def parse(path):
    case = Case(path, [], {}, {}, [])
    body = None  # where the lines of the open section go
    seen = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(keepends=True), 1):
        mark = MARK.match(line.rstrip("\n"))
        if not mark:
            if case.steps and body is None:
                raise Malformed(f"{number}: text outside of a section")
            if not case.steps:
                case.head.append(line)
            if body is not None:
                body(line)
            continue
        kind, rest = mark.group(1), mark.group(2) or ""
        if kind in ("file", "env"):
            if case.steps:
                raise Malformed(f"{number}: {kind} belongs before the first command")
            case.head.append(line)
            if kind == "env":
                name, sign, value = rest.partition("=")
                if not sign:
                    raise Malformed(f"{number}: expected --- env NAME=value")
                case.env[name] = value
                body = None
            else:
                if not rest or rest in case.files:
                    raise Malformed(f"{number}: a file needs a name of its own")
                case.files[rest] = ""

                def body(text, name=rest):
                    case.files[name] += text
            continue
        if kind == "run":
            if not rest:
                raise Malformed(f"{number}: expected --- run COMMAND")
            case.steps.append(Step(rest, number))
            seen = set()
            body = None
            continue
        if not case.steps:
            raise Malformed(f"{number}: {kind} before the first command")
        if kind in seen:
            raise Malformed(f"{number}: {kind} is given twice")
        seen.add(kind)
        step = case.steps[-1]
        body = None
        if kind == "exit":
            step.exit = int(rest)
        elif kind == "select":
            step.select = rest.split()
        elif kind == "keep":
            step.keep = rest
        else:

            def body(text, step=step, kind=kind):
                setattr(step, kind, getattr(step, kind) + text)
    if not case.steps:
        raise Malformed("1: no --- run")
    if not case.head or not case.head[0].startswith("# "):
        raise Malformed("1: a case opens with `# ` and a sentence that says what it shows")
    return case


def written(case, steps):
    """The text of the case with these steps: the inverse of parse."""
    lines = list(case.head)
    for step in steps:
        lines.append(f"--- run {step.command}\n")
        if step.stdin:
            lines += ["--- stdin\n", step.stdin]
        if step.select:
            lines.append(f"--- select {' '.join(step.select)}\n")
        if step.keep:
            lines.append(f"--- keep {step.keep}\n")
        if step.stdout:
            lines += ["--- stdout\n", step.stdout]
        if step.stderr:
            lines += ["--- stderr\n", step.stderr]
        if step.exit:
            lines.append(f"--- exit {step.exit}\n")
    return "".join(lines)


def as_lines(text):
    """Text that can stand in a section: a missing end of line is shown, not lost."""
    return text if not text or text.endswith("\n") else text + "\n\\ no newline at end\n"


def selected(document, path):
    """The values at a path such as ranks[*].peak.bytes, as `path = value` lines."""
    found = [("", document)]
    for part in re.findall(r"[^.\[\]]+|\[\d+\]|\[\*\]", path):
        following = []
        for name, value in found:
            if part == "[*]" and isinstance(value, list):
                following += [(f"{name}[{i}]", item) for i, item in enumerate(value)]
            elif part.startswith("[") and isinstance(value, list) and int(part[1:-1]) < len(value):
                following.append((name + part, value[int(part[1:-1])]))
            elif isinstance(value, dict) and part == "*":
                following += [(f"{name}.{key}".lstrip("."), item) for key, item in value.items()]
            elif isinstance(value, dict) and part in value:
                following.append((f"{name}.{part}".lstrip("."), value[part]))
        found = following
    if not found:
        return [f"{path} is absent\n"]
    return [f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in found]


def shown(step, stdout):
    """What the case compares: all of stdout, or the part that it asks for."""
    if step.select:
        try:
            document = json.loads(stdout)
        except ValueError:
            return as_lines(stdout)
        return "".join(line for path in step.select for line in selected(document, path))
    if step.keep:
        return "".join(line for line in stdout.splitlines(keepends=True) if re.search(step.keep, line))
    return as_lines(stdout)


class Runner:
    def __init__(self, binary):
        self.binary = binary.resolve()
        said = re.fullmatch(r"steelyard (\d\S*)\n", self.run(["--version"], "", ROOT, {}).stdout)
        if not said:
            raise SystemExit(f"{binary} --version does not say: steelyard VERSION")
        self.version = said.group(1)

    def run(self, arguments, stdin, folder, extra):
        environment = {
            "PATH": "/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC",
            "COLUMNS": "80", "TERM": "dumb",
        }
        # Sanitizers and their symbolizer take their orders from outside.
        environment.update({name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")})
        environment.update(extra)
        return subprocess.run([str(self.binary), *arguments], input=stdin, cwd=folder, env=environment,
                              capture_output=True, text=True, encoding="utf-8", errors="backslashreplace",
                              timeout=PROMPT_SECONDS, check=False)

    def settle(self, text, folder):
        """Output without what differs from build to build or run to run."""
        text = text.replace(str(folder), "{{folder}}")
        # Only our own version, said as such: other numbers with dots stay themselves.
        return re.sub(rf'(steelyard[ /]|"(?:steelyard|version)": "){re.escape(self.version)}\b',
                      r"\g<1>{{version}}", text)

    def step(self, step, folder, env):
        """What really happened, as a step, and the sums that do not hold."""
        words = shlex.split(step.command)
        if words[0] != "steelyard":
            raise Malformed(f"{step.line}: a command starts with steelyard")
        done = self.run(words[1:], step.stdin, folder, env)
        faults = conservation.faults_of(done.stdout, done.returncode)
        # A table is checked through the same question asked as JSON.
        pictured = "-" in words and {"--svg", "--html"} & set(words)
        if (words[1:2] == ["weigh"] and done.returncode in (0, 1) and not pictured
                and not {"--json", "--jobs", "--help"} & set(words)):
            twin = self.run([*words[1:], "--json"], step.stdin, folder, env)
            faults += conservation.faults_of(twin.stdout, twin.returncode)
            if twin.returncode != done.returncode:
                faults.append(f"exit {done.returncode}, but {twin.returncode} with --json")
            if not conservation.predictions(twin.stdout):
                faults.append("--json prints no prediction")
        real = Step(step.command, step.line, step.stdin, step.select, step.keep,
                    stdout=self.settle(shown(step, done.stdout), folder),
                    stderr=self.settle(as_lines(done.stderr), folder), exit=done.returncode)
        return real, faults

    def case(self, path, rebase):
        """What is wrong with a case, as text; empty when nothing is."""
        try:
            case = parse(path)
            with tempfile.TemporaryDirectory(prefix="steelyard-case-") as name:
                folder = pathlib.Path(name)
                # Cases may name the examples as a reader of the repository would.
                (folder / "examples").symlink_to(ROOT / "examples")
                for file, text in case.files.items():
                    target = folder / file
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text(text, encoding="utf-8")
                ran = [self.step(step, folder, case.env) for step in case.steps]
        except Malformed as fault:
            return f"{path}:{fault}\n"
        except subprocess.TimeoutExpired as fault:
            return f"{path}: no answer within {fault.timeout} s\n"
        report = "".join(f"{step.command}: {fault}\n" for step, faults in ran for fault in faults)
        old, new = path.read_text(encoding="utf-8"), written(case, [step for step, _ in ran])
        if old == new:
            return report
        if rebase:
            path.write_text(new, encoding="utf-8")
            return report
        name = os.path.relpath(path)
        return report + "".join(difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True),
                                                     name, f"{name} (as it is now)"))


def cases_of(paths):
    for path in paths:
        if path.is_dir():
            yield from sorted(path.rglob("*.case"))
        else:
            yield path


def main():
    arguments = argparse.ArgumentParser(description=__doc__,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", type=pathlib.Path, default=ROOT / "build/dev/steelyard")
    arguments.add_argument("--rebase", action="store_true", help="write what happens now as what is expected")
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("cases", nargs="*", type=pathlib.Path, default=[TESTS / "cases"])
    chosen = arguments.parse_args()

    runner = Runner(chosen.binary)
    paths = list(cases_of(chosen.cases))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        for path, report in zip(paths, pool.map(lambda path: runner.case(path, chosen.rebase), paths)):
            if report:
                failed += 1
                print(f"FAILED {os.path.relpath(path)}\n{report}")
    print(f"{len(paths) - failed} cases passed, {failed} failed")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
