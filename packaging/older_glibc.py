#!/usr/bin/env python3
"""Writes stand-ins for this system's C library as an older one shows itself: older_glibc.py --glibc 2.28 --out FOLDER

A shared object asks, where it runs, for the versions of the symbols that it was linked with: what Debian 12 links needs
glibc 2.36 where it uses functions that have been there since 1997. glibc keeps each older version of a symbol beside the new one. So
a stand-in has each symbol in the newest version that glibc 2.28 had, and no code; linked with -L FOLDER, the object
asks for nothing newer. What glibc 2.28 lacked is not in it, and fails to link by its name: older_glibc.cc has what our
objects need of that.
"""

import argparse
import pathlib
import re
import subprocess
import sys

# What a link names, the object that then answers, and where this compiler says that it lies.
LIBRARIES = (("c", "libc.so.6"), ("m", "libm.so.6"), ("ld", "ld-linux-x86-64.so.2"))
# Since glibc 2.34 these are part of libc.so.6. Before, they were objects of their own.
APART = (("pthread", "libpthread.so.0"),)
ROW = re.compile(r"^\s*\d+: [0-9a-f]+\s+(\w+) (\w+)\s+(?:GLOBAL|WEAK)\s+DEFAULT\s+\w+ ([^@\s]+)@@?GLIBC_(2(?:\.\d+)+)$")


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **options).stdout


def version(text):
    return tuple(int(part) for part in text.split("."))


def symbols_of(library, newest):
    """{name: (version, size, is data)}: of each symbol the newest version that is not newer."""
    found = {}
    for line in run("readelf", "--wide", "--dyn-syms", library).splitlines():
        row = ROW.match(line)
        if row is None or row.group(2) not in ("FUNC", "IFUNC", "OBJECT") or version(row.group(4)) > newest:
            continue
        name, told = row.group(3), row.group(4)
        if name not in found or version(told) > version(found[name][0]):
            found[name] = (told, int(row.group(1), 0), row.group(2) == "OBJECT")
    return found


def write(folder, soname, symbols, compiler):
    """A shared object with these symbols and nothing behind them."""
    source, script = folder / f"{soname}.s", folder / f"{soname}.map"
    lines = ['.section .note.GNU-stack,"",@progbits']
    for name, (_, size, data) in sorted(symbols.items()):
        lines += [".data" if data else ".text", f".globl {name}", f".type {name}, @{'object' if data else 'function'}",
                  f"{name}: .skip {max(size, 1) if data else 1}", f".size {name}, {max(size, 1) if data else 1}"]
    source.write_text("\n".join(lines) + "\n")
    nodes = {}
    for name, (told, _, _) in symbols.items():
        nodes.setdefault(told, []).append(name)
    script.write_text("".join(f"GLIBC_{told} {{ global: {' '.join(f'{name};' for name in sorted(names))} }};\n"
                              for told, names in sorted(nodes.items(), key=lambda node: version(node[0]))))
    # Data of these objects is only ever reached by name, so their layout is of no account.
    run(compiler, "-shared", "-nostdlib", f"-Wl,-soname,{soname}", *([f"-Wl,--version-script={script}"] if nodes else []),
        source, "-o", folder / soname)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glibc", type=version, required=True, help="the version that may be asked for: 2.28")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--compiler", default="c++")
    chosen = parser.parse_args()
    folder = chosen.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for word, soname in LIBRARIES:
        library = run(chosen.compiler, f"-print-file-name={soname}").strip()
        symbols = symbols_of(library, chosen.glibc)
        if not symbols:
            sys.exit(f"{library} has no symbol of glibc {'.'.join(map(str, chosen.glibc))} or older: is this glibc?")
        write(folder, soname, symbols, chosen.compiler)
        if word == "m":
            (folder / "libm.so").write_text(f"INPUT ( {folder / soname} )\n")
    for word, soname in APART:
        write(folder, soname, {}, chosen.compiler)
        (folder / f"lib{word}.so").write_text(f"INPUT ( {folder / soname} )\n")
    # As glibc's own libc.so: the library, what is never shared, and the loader where it is asked for.
    rest = run(chosen.compiler, "-print-file-name=libc_nonshared.a").strip()
    (folder / "libc.so").write_text(f"GROUP ( {folder / 'libc.so.6'} {rest} AS_NEEDED ( {folder / 'ld-linux-x86-64.so.2'} ) )\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
