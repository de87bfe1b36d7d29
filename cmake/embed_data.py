"""Writes the C++ table of embedded data files: embed_data.py --version V --out FILE.cc [--without FOLDER] DATA_DIR

Every *.json below DATA_DIR, but for each FOLDER that is left out, becomes one row of steelyard::embedded_files(),
sorted by path, its text kept to the byte. A file that is not valid JSON, or repeats a key, stops the build with its
name and line.
"""

import argparse
import json
import pathlib
import sys

# Compilers promise 65,536 bytes a literal; adjacent pieces are joined by the compiler.
PIECE = 16000


def without_repeats(pairs):
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f'key "{name}" is given twice')
    return dict(pairs)


def literal(text):
    delimiter = "text"
    while f"){delimiter}\"" in text:
        delimiter += "_"
    pieces = [text[i:i + PIECE] for i in range(0, len(text), PIECE)] or [""]
    return "\n    ".join(f'R"{delimiter}({piece}){delimiter}"' for piece in pieces)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--version", required=True)
    arguments.add_argument("--out", required=True, type=pathlib.Path)
    arguments.add_argument("--without", action="append", default=[], metavar="FOLDER")
    arguments.add_argument("data", type=pathlib.Path)
    chosen = arguments.parse_args()

    rows = []
    faults = 0
    for path in chosen.data.rglob("*.json"):
        if path.relative_to(chosen.data).parts[0] in chosen.without:
            continue
        text = path.read_text(encoding="utf-8")
        try:
            json.loads(text, object_pairs_hook=without_repeats)
        except ValueError as fault:
            line = getattr(fault, "lineno", 1)
            print(f"{path}:{line}: error: {fault}", file=sys.stderr)
            faults += 1
        rows.append((path.relative_to(chosen.data).as_posix(), text))
    if faults:
        return 1

    # Byte order, as std::string_view compares.
    rows.sort(key=lambda row: row[0].encode())
    lines = [
        "// Written by cmake/embed_data.py from data/. Do not edit, do not commit.",
        "#include <array>",
        "",
        '#include "data/embedded.h"',
        '#include "data/version.h"',
        "",
        "namespace steelyard {",
        "namespace {",
        "",
        "using namespace std::string_view_literals;",
        "",
        f"constexpr std::array<EmbeddedFile, {len(rows)}> kFiles = {{{{",
    ]
    for path, text in rows:
        lines.append(f'    {{"{path}"sv,\n    {literal(text)}sv}},')
    lines += [
        "}};",
        "",
        "}  // namespace",
        "",
        "std::span<const EmbeddedFile> embedded_files() { return kFiles; }",
        "",
        f'std::string_view version() {{ return "{chosen.version}"; }}',
        "",
        "}  // namespace steelyard",
        "",
    ]
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text("\n".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
