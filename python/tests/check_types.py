"""mypy --strict over the package and the examples, and the stub against the module: check_types.py PACKAGE EXAMPLES"""

import ast
import pathlib
import subprocess
import sys
import tempfile

package, examples = map(pathlib.Path, sys.argv[1:3])
faults = 0
with tempfile.TemporaryDirectory() as folder:
    files = [str(package / "steelyard")] + sorted(map(str, examples.glob("*.py")))
    told = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder, "--python-version", "3.10", *files],
                          stdout=subprocess.PIPE, text=True)
    if told.returncode != 0:
        faults += 1
        print(told.stdout)
    # A wrong question must be a fault to mypy, too: else the types say nothing.
    wrong = pathlib.Path(folder, "wrong.py")
    wrong.write_text('import steelyard\nsteelyard.weigh("7b", sequence_lenght=1)\n'
                     'steelyard.weigh("7b", cuda_graphs=3)\nx: str = steelyard.weigh("7b").peak.device\n')
    told = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder, str(wrong)], stdout=subprocess.PIPE, text=True)
    for line in (2, 3, 4):
        if f"wrong.py:{line}: error" not in told.stdout:
            faults += 1
            print(f"line {line} of wrong.py is no fault to mypy:\n{told.stdout}")

    stub = pathlib.Path(folder, "stub.pyi")
    subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "steelyard._core", "-o", str(stub)], check=True)
    written = pathlib.Path(package, "steelyard/_core.pyi")
    if ast.dump(ast.parse(stub.read_text())) != ast.dump(ast.parse(written.read_text())):
        faults += 1
        print("python/steelyard/_core.pyi is not the module's: python -m nanobind.stubgen -m steelyard._core -o it")
sys.exit(1 if faults else 0)
