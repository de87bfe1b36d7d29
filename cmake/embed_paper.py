"""Writes the C++ table of the device on paper: embed_paper.py --out FILE.cc NAME=FILE...

Each file becomes one row of steelyard::paper_files(), to the byte.
"""

import argparse
import pathlib

# Compilers promise 65,536 bytes a literal; adjacent pieces are joined by the compiler.
PIECE = 4000


def literal(data):
    pieces = [data[at:at + PIECE] for at in range(0, len(data), PIECE)] or [b""]
    # Octal in three digits: no digit behind it is taken for its own.
    return "\n    ".join('"' + "".join(f"\\{byte:03o}" for byte in piece) + '"' for piece in pieces)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--out", required=True, type=pathlib.Path)
    arguments.add_argument("files", nargs="*")
    chosen = arguments.parse_args()
    rows = []
    for pair in chosen.files:
        name, _, path = pair.partition("=")
        data = pathlib.Path(path).read_bytes()
        rows.append(f'    {{"{name}",\n    {literal(data)},\n    {len(data)}}},')
    text = "\n".join(["// Written by cmake/embed_paper.py from paper/. Do not edit, do not commit.", '#include "cli/paper_run.h"', "",
                      "namespace steelyard {", "namespace {", "", "constexpr PaperFile kFiles[] = {", *rows, "    {nullptr, nullptr, 0},",
                      "};", "", "}  // namespace", "", "const PaperFile* paper_files() { return kFiles; }", "",
                      "}  // namespace steelyard", ""])
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(text)


if __name__ == "__main__":
    main()
