#!/usr/bin/env python3
"""Installs every package into an empty root and asks it: verify.py --build build/package --roots FOLDER [--wheel FILE.whl --python PYTHON]

An empty root is a folder with nothing but the C library (and, for the wheel, a Python): no compiler, no C++ library, none of
the libraries that the build used. What is asked there must be what the build's own program answers. Needs root, for chroot.

FOLDER holds whole systems as debootstrap makes them (roots.sh): debian-12, where pip installs the wheel, and debian-11, whose
C library of 2020 is older than what built the packages.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ("qwen2.5-1.5b", "llama-3.2-3b", "llama-3.1-8b", "qwen2.5-14b", "llama-3-70b")
RUNS = [(model, length) for model in MODELS for length in (4096, 32768)]
ON = "8xh100-sxm-80gb"
faults = []


def expect(good, what):
    print(("ok      " if good else "FAULT   ") + what, flush=True)
    if not good:
        faults.append(what)


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=300, **options)


def libraries_of(binary):
    return [match.group(1) for match in re.finditer(r"(?:=> )?(/\S+) \(0x", run("ldd", binary).stdout)]


def put(root, path):
    target = pathlib.Path(root, str(path).lstrip("/"))
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(os.path.realpath(path), target)


def inside(root, *words):
    return run("/usr/sbin/chroot", root, *words, env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}, cwd="/")


def highest_glibc(binary):
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", run("objdump", "-T", binary).stdout)
    return max(((int(a), int(b)) for a, b in versions), default=None)


OLDEST = (2, 28)
SYSTEM = {"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}


def needs_little(shared):
    """An object of ours asks for the C library alone, and for no newer one than that of 2018."""
    needed = re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", shared).stdout)
    newest = highest_glibc(shared)
    expect(set(needed) <= SYSTEM and newest is not None and newest <= OLDEST,
           f"{shared.name} ({shared.stat().st_size / 1e6:.1f} MB) needs glibc {'.'.join(map(str, newest or ()))}: {', '.join(needed)}")


def program_alone(binary, expected):
    with tempfile.TemporaryDirectory() as root:
        shutil.copy2(binary, pathlib.Path(root, "steelyard"))
        answer = inside(root, "/steelyard", "weigh", "llama-3.1-8b", "--on", ON, "--json")
        expect(answer.stdout == expected, "the program alone in an empty root answers as the build does")
        started = time.perf_counter()
        told = inside(root, "/steelyard", "--version")
        expect(re.fullmatch(r"steelyard [0-9.]+ \(commit [0-9a-f]{10}, data of \d{4}-\d\d-\d\d\)\n", told.stdout) is not None,
               f"--version: {told.stdout.strip()} ({(time.perf_counter() - started) * 1000:.0f} ms with chroot, "
               f"{os.path.getsize(binary) / 1e6:.1f} MB)")


def archive(packages, expected):
    files = list(packages.glob("*program*.tar.gz"))
    expect(len(files) == 1, "one archive of the program")
    for file in files:
        with tempfile.TemporaryDirectory() as root:
            run("tar", "xf", file, "-C", root, "--strip-components=1")
            program = next(path for path in pathlib.Path(root).rglob("bin/steelyard"))
            where = "/" + str(program.relative_to(root))
            expect(inside(root, where, "weigh", "llama-3.1-8b", "--on", ON, "--json").stdout == expected,
                   f"{file.name} ({file.stat().st_size / 1e6:.1f} MB) unpacked in an empty root")
            page = next(pathlib.Path(root).rglob("man1/steelyard-weigh.1"), None)
            expect(page is not None and "SH OPTIONS" in page.read_text(), "manual pages are in it")
            expect(len(list(pathlib.Path(root).rglob("schemas/*.json"))) > 30, "schemas are in it")


def debian(packages, expected):
    files = {name: next(packages.glob(f"{name}_*.deb"), None) for name in ("steelyard", "libsteelyard0", "libsteelyard-dev")}
    expect(all(files.values()), f"three Debian packages: {', '.join(file.name for file in files.values() if file)}")
    with tempfile.TemporaryDirectory() as root:
        for folder in ("etc", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log", "tmp"):
            pathlib.Path(root, folder).mkdir(parents=True)
        pathlib.Path(root, "var/lib/dpkg/status").touch()
        # A shared library's package runs ldconfig when it is installed.
        for path in ["/bin/sh", "/sbin/ldconfig", *libraries_of("/bin/sh")]:
            put(root, path)
        done = run("dpkg", f"--root={root}", "--force-depends", "-i", *files.values())
        expect(done.returncode == 0, "dpkg installs them into an empty root" + ("" if done.returncode == 0 else done.stderr[:600]))
        expect(inside(root, "/usr/bin/steelyard", "weigh", "llama-3.1-8b", "--on", ON, "--json").stdout == expected,
               "/usr/bin/steelyard of the package")
        needs = run("dpkg-deb", "-f", files["steelyard"], "Depends").stdout.strip()
        expect(needs == "", f"the program's package depends on nothing ({needs or 'nothing'})")


def library(build, lines):
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder, "prefix")
        for component in ("program", "library", "development"):
            done = run("cmake", "--install", build, "--prefix", prefix, "--strip", "--component", component)
            expect(done.returncode == 0, f"cmake --install --component {component}" + done.stderr[-300:])
        shared = next(prefix.rglob("libsteelyard.so.0"))
        shown = run("nm", "-DC", "--defined-only", shared).stdout.splitlines()
        strange = [row for row in shown if not re.search(r" (steelyard::(?!.*(anonymous|World))|steelyard_)", row)]
        expect(shown and not strange, f"libsteelyard shows its API alone: {len(shown)} symbols, strange: {strange[:3]}")
        needs_little(shared)
        moved = pathlib.Path(folder, "moved")
        prefix.rename(moved)
        example = pathlib.Path(folder, "example")
        run("cmake", "-S", ROOT / "examples/library", "-B", example, f"-DCMAKE_PREFIX_PATH={moved}")
        built = run("cmake", "--build", example)
        expect(built.returncode == 0, "the example builds against the installed package, moved" + built.stdout[-500:] * (built.returncode != 0))
        expect(run(example / "ten_runs").stdout.splitlines() == lines, "its ten documents are those of the program")
        found = next(moved.rglob("steelyard.pc")).parent
        flags = run("pkg-config", "--cflags", "--libs", "steelyard", env={**os.environ, "PKG_CONFIG_PATH": str(found)}).stdout.split()
        built = run("g++", "-std=c++17", ROOT / "examples/library/ten_runs.cc", *flags, "-o", example / "by_pkg_config")
        expect(built.returncode == 0, "and by pkg-config" + built.stderr[-300:])


def wheel(file, python, lines):
    """In a root with that Python, the C library and nothing else."""
    with tempfile.TemporaryDirectory() as root:
        prefix = run(python, "-c", "import sys; print(sys.base_prefix)").stdout.strip()
        shutil.copytree(prefix, root + prefix, symlinks=True,
                        ignore=shutil.ignore_patterns("test", "idlelib", "tkinter", "__pycache__", "site-packages", "share", "config-3*"))
        real = os.path.realpath(python)
        for binary in [real, *pathlib.Path(prefix).rglob("lib-dynload/*.so")]:
            for path in libraries_of(binary):
                if "libstdc++" not in path and "libgcc" not in path:
                    put(root, path)
        site = pathlib.Path(root, "site")
        site.mkdir()
        run("unzip", "-q", file, "-d", site)
        script = ("import sys, time; started = time.perf_counter(); sys.path.insert(0, '/site'); import steelyard as sy; "
                  "print(time.perf_counter() - started, file=sys.stderr)\n"
                  f"for model, length in {RUNS!r}:\n"
                  f"    print(sy.weigh(model, on={ON!r}, brief=True, sequence_length=length).to_json().replace(chr(10), ''))\n")
        answer = inside(root, real, "-I", "-c", script)
        expect(answer.stdout.splitlines() == lines, f"{file.name} ({file.stat().st_size / 1e6:.1f} MB) in a root with Python alone: "
               f"import {answer.stderr.strip()[-200:]} s")
        program = next(site.glob("*.data/scripts/steelyard"), None)
        expect(program is not None, "the wheel carries the program")
        if program is not None:
            program.chmod(0o755)
            told = inside(root, "/" + str(program.relative_to(root)), "--version")
            expect(told.stdout.startswith("steelyard "), f"and it runs: {told.stdout.strip()}")
        needs_little(next(site.rglob("_core*.so")))


def older_system(root, packages, wheel_file, expected, lines):
    """A whole system with an older C library: what its own dpkg, tar and Python make of the packages."""
    libc = inside(root, "/lib/x86_64-linux-gnu/libc.so.6").stdout.splitlines()[0]
    print(f"        {root.name}: {libc}")
    with tempfile.TemporaryDirectory(dir=root / "tmp") as folder:
        here = "/tmp/" + pathlib.Path(folder).name
        file = next(packages.glob("*program*.tar.gz"))
        run("tar", "xf", file, "-C", folder, "--strip-components=1")
        program = next(path for path in pathlib.Path(folder).rglob("bin/steelyard"))
        answer = inside(root, "/" + str(program.relative_to(root)), "weigh", "llama-3.1-8b", "--on", ON, "--json")
        expect(answer.stdout == expected, f"{root.name}: the archive's program answers as the build does")
        debs = sorted(packages.glob("*.deb"))
        for deb in debs:
            shutil.copy2(deb, folder)
        done = inside(root, "/usr/bin/dpkg", "-i", *(f"{here}/{deb.name}" for deb in debs))
        expect(done.returncode == 0, f"{root.name}: its dpkg installs the three packages, whose dependencies it has{done.stderr[-300:]}")
        expect(inside(root, "/usr/bin/steelyard", "weigh", "llama-3.1-8b", "--on", ON, "--json").stdout == expected,
               f"{root.name}: /usr/bin/steelyard of the package")
        script = ("import ctypes, json\n"
                  "library = ctypes.CDLL('libsteelyard.so.0')\n"
                  "library.steelyard_call.restype, library.steelyard_reply_text.restype = ctypes.c_void_p, ctypes.c_char_p\n"
                  f"for model, length in {RUNS!r}:\n"
                  f"    asked = json.dumps({{'run': model, 'on': {ON!r}, 'brief': True, 'sequence_length': length}})\n"
                  "    reply = ctypes.c_void_p(library.steelyard_call(b'weigh', asked.encode(), 1))\n"
                  "    print(library.steelyard_reply_text(reply).decode().replace(chr(10), ''))\n")
        told = run("/usr/sbin/chroot", root, "/usr/bin/python3", "-c", script,
                   env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "LD_BIND_NOW": "1"}, cwd="/")
        expect(told.stdout.splitlines() == lines, f"{root.name}: its Python calls libsteelyard, ten documents as the build's{told.stderr[-300:]}")
        if wheel_file is not None:
            run("unzip", "-q", wheel_file, "-d", folder)
            module = next(pathlib.Path(folder).rglob("_core*.so"))
            # Every symbol is looked for; those of Python are its interpreter's.
            told = inside(root, "/usr/bin/ldd", "-r", "/" + str(module.relative_to(root)))
            missing = [line for line in (told.stdout + told.stderr).splitlines()
                       if ("undefined symbol" in line and not re.search(r"symbol: _?Py", line)) or "not found" in line]
            expect(told.returncode == 0 and "undefined symbol: Py" in told.stdout + told.stderr and not missing,
                   f"{root.name}: of the wheel's module only Python's own symbols are open {missing[:3]}")
            script = next(pathlib.Path(folder).glob("*.data/scripts/steelyard"))
            script.chmod(0o755)
            expect(inside(root, "/" + str(script.relative_to(root)), "--version").stdout.startswith("steelyard "),
                   f"{root.name}: the wheel's program runs")
        inside(root, "/usr/bin/dpkg", "--purge", "steelyard", "libsteelyard-dev", "libsteelyard0")


def pip_of(root, wheel_file, lines):
    """A whole Debian 12 whose pip installs the wheel, as a user's does."""
    with tempfile.TemporaryDirectory(dir=root / "tmp") as folder:
        here = "/tmp/" + pathlib.Path(folder).name
        shutil.copy2(wheel_file, folder)
        inside(root, "/usr/bin/python3", "-m", "venv", f"{here}/venv")
        done = inside(root, f"{here}/venv/bin/pip", "install", "--no-index", "--disable-pip-version-check", f"{here}/{wheel_file.name}")
        expect(done.returncode == 0, f"{root.name}: pip installs {wheel_file.name}{done.stderr[-300:]}")
        script = ("import steelyard as sy\n"
                  f"for model, length in {RUNS!r}:\n"
                  f"    print(sy.weigh(model, on={ON!r}, brief=True, sequence_length=length).to_json().replace(chr(10), ''))\n")
        told = inside(root, f"{here}/venv/bin/python", "-c", script)
        expect(told.stdout.splitlines() == lines, f"{root.name}: ten documents as the build's{told.stderr[-300:]}")
        expect(inside(root, f"{here}/venv/bin/steelyard", "--version").stdout.startswith("steelyard "),
               f"{root.name}: steelyard is on the path of the environment")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--wheel", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--roots", type=pathlib.Path)
    chosen = parser.parse_args()
    binary = chosen.build / "steelyard"
    expected = run(binary, "weigh", "llama-3.1-8b", "--on", ON, "--json").stdout
    expect(json.loads(expected)["schema"] == "steelyard.prediction/1", "the build's own program answers")
    lines = [run(binary, "weigh", model, "--on", ON, "--brief", "--json", "--sequence-length", length).stdout.replace("\n", "")
             for model, length in RUNS]
    said = 0
    for (model, length), line in zip(RUNS, lines):
        told = run(binary, "weigh", model, "--on", ON, "--sequence-length", length, "-q", "--units", "bytes").stdout
        said += f" {json.loads(line)['peak']['device_bytes']:,} B " in told
    expect(said == len(RUNS), f"the screen shows the peaks of JSON in {said} of {len(RUNS)} runs")
    program_alone(binary, expected)
    packages = chosen.build / "packages"
    archive(packages, expected)
    debian(packages, expected)
    library(chosen.build, lines)
    if chosen.wheel:
        wheel(chosen.wheel, chosen.python, lines)
    if chosen.roots:
        older_system(chosen.roots.resolve() / "debian-11", packages, chosen.wheel, expected, lines)
        # Debian 12's Python is 3.11.
        if chosen.wheel and "-cp311-" in chosen.wheel.name:
            pip_of(chosen.roots.resolve() / "debian-12", chosen.wheel, lines)
    sums = packages / "SHA256SUMS"
    if sums.exists():
        right = all(hashlib.sha256((packages / name).read_bytes()).hexdigest() == digest
                    for digest, name in (row.split() for row in sums.read_text().splitlines()))
        expect(right and sums.read_text(), "checksums hold")
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
