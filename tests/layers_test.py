#!/usr/bin/env python3
"""Reads every #include of src/ (and web/) and refuses what tests/layers.txt does not allow.

Also refused: headers by which the core would touch files, clocks, threads or terminals; standard headers
that not all our compilers have; files named for nothing (utils, helpers, common); and two types of one name:
the linker keeps one destructor of the two, and says nothing.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')

WORLD = {  # only the faces touch these (a mutex may stand: faces call from several threads); unit tests may
    "chrono", "condition_variable", "ctime", "filesystem", "fstream", "future", "iostream",
    "thread", "time.h", "pthread.h", "unistd.h", "sys/ioctl.h", "sys/stat.h",
}
ABSENT = {  # missing from g++ 12 in C++20 mode, or from Emscripten's clang 14
    "expected", "format", "generator", "print", "ranges", "source_location", "stop_token", "syncstream",
}
TYPE = re.compile(r"(?:struct|class|union) (\w+)(?: final)?(?: :[^;{]*)?\s*\{")
EMPTY_NAMES = re.compile(r"(^|_)(utils?|helpers?|common|misc|stuff|manager)(_|$)")


class Layers:
    def __init__(self, text):
        self.height = {}
        self.faces = set()
        self.arrows = set()
        self.never = set()
        height = 0
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split("#")[0].replace("->", " ").split()
            if not words:
                continue
            kind, *rest = words
            if kind == "row" and len(rest) >= 2:
                height -= 1
                for folder in rest[1:]:
                    if folder in self.height:
                        raise SystemExit(f"layers.txt:{number}: {folder} stands in two rows")
                    self.height[folder] = height
                if rest[0] == "faces":
                    self.faces.update(rest[1:])
            elif kind in ("arrow", "never") and len(rest) == 2:
                (self.arrows if kind == "arrow" else self.never).add(tuple(rest))
            else:
                raise SystemExit(f"layers.txt:{number}: expected row, arrow or never: {line}")
        for pair in self.arrows | self.never:
            for folder in pair:
                if folder not in self.height:
                    raise SystemExit(f"layers.txt: {folder} has an arrow but stands in no row")

    def refusal(self, here, there):
        """Why a file of folder `here` may not include `there`, or None."""
        if here == there:
            return None
        if there not in self.height:
            return f"{there}/ stands in no row of tests/layers.txt"
        if (here, there) in self.never:
            return f"tests/layers.txt says: never {here} -> {there}"
        if self.height[there] < self.height[here] or (here, there) in self.arrows:
            return None
        if self.height[there] == self.height[here]:
            return f"{here}/ and {there}/ stand in one row and no arrow allows it"
        return f"{there}/ stands above {here}/"


def sources():
    for top in ("src", "web"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".h", ".cc", ".def") and "build" not in path.parts:
                folder = path.relative_to(ROOT / "src").parts[0] if top == "src" else top
                yield path, folder


def faults_of(path, folder, layers):
    where = path.relative_to(ROOT).as_posix()
    test = path.stem.endswith("_test")
    if folder not in layers.height:
        yield f"{where}:1: {folder}/ stands in no row of tests/layers.txt"
        return
    if EMPTY_NAMES.search(path.stem):
        yield f"{where}:1: name the file for its concept"
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        ours, system = found.groups()
        if system:
            if system in WORLD and folder not in layers.faces and not test:
                yield f"{where}:{number}: <{system}>: only the faces touch the world outside"
            if system in ABSENT:
                yield f"{where}:{number}: <{system}> is not in all our compilers"
            continue
        if not (ROOT / "src" / ours).is_file():
            yield f'{where}:{number}: "{ours}" is not a file below src/'
            continue
        reason = layers.refusal(folder, pathlib.PurePosixPath(ours).parts[0])
        if reason:
            yield f'{where}:{number}: may not include "{ours}": {reason}'


def outside_faults():
    """The Python module, the page's binding and the examples stand on include/steelyard alone."""
    faces = [*(ROOT / "python").glob("*.cc"), ROOT / "web/binding.cc", *(ROOT / "examples").rglob("*.cc")]
    if len(faces) < 3:
        yield "python/, web/binding.cc or examples/library are not where they were"
    for path in faces:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = INCLUDE.match(line)
            if found and (found.group(1) or (ROOT / "src" / found.group(2)).is_file()):
                yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}: only <steelyard/...> of ours may stand here"


def types_of(text):
    """Names of the types that a file defines for all others: outermost, in no anonymous namespace."""
    hidden = False
    for number, line in enumerate(text.splitlines(), 1):
        if line == "namespace {":
            hidden = True
        elif line == "}  // namespace":
            hidden = False
        found = TYPE.match(line)
        if found and not hidden:
            yield number, found.group(1)


def same_names(files):
    """`files`: (place, text) of each."""
    first = {}
    for where, text in files:
        for number, name in types_of(text):
            if name in first:
                yield f"{where}:{number}: {name} is a type of {first[name]}, too"
            first.setdefault(name, where)


def check_itself(layers):
    """The checker refuses what it should: one example of each kind."""
    assert layers.refusal("ledger", "cli"), "upwards"
    assert layers.refusal("cli", "quantity") is None, "downwards"
    assert layers.refusal("model", "model") is None, "itself"
    assert layers.refusal("cost", "ledger"), "never"
    assert layers.refusal("machine", "model"), "neighbours"
    assert layers.refusal("schedule", "layout") is None, "arrow"
    assert layers.refusal("cli", "nowhere"), "unknown"
    type_of_all, type_of_one = "struct Answer {\n};\n", "namespace {\nclass Answer final {\n};\n}  // namespace\n"
    assert len(list(same_names([("a.h", type_of_all), ("b.h", type_of_all)]))) == 1, "two types"
    assert not list(same_names([("a.h", type_of_all), ("b.cc", type_of_one)])), "one hidden"


def main():
    layers = Layers((ROOT / "tests" / "layers.txt").read_text(encoding="utf-8"))
    check_itself(layers)
    files = 0
    faults = []
    for path, folder in sources():
        files += 1
        faults += faults_of(path, folder, layers)
    faults += same_names((path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
                         for path, _ in sources() if path.is_relative_to(ROOT / "src"))
    faults += outside_faults()
    for fault in faults:
        print(fault)
    print(f"{files} files, {len(faults)} faults")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
