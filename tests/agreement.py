"""What the tests of written files share: run the program, take the file that it wrote, expect things of it.

    trace, prediction = written(binary, ["gpt2", "--on", "1xa100-sxm-40gb"], "--trace")
    expect(trace, "the file is empty")
"""

import json
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ONE_DEVICE = ["gpt2", "--on", "1xa100-sxm-40gb", "--sequence-length", "1024", "--gradient-accumulation", "2"]
FOUR_STAGES = ["llama-3.2-1b", "--on", "4xa100-sxm-80gb", "--engine", "megatron", "--sequence-length", "1024", "--pipeline", "4",
               "--gradient-accumulation", "8"]


class Disagreement(Exception):
    pass


def expect(truth, what):
    if not truth:
        raise Disagreement(what)


def written(binary, arguments, flag):
    """The bytes that `weigh` writes for a flag, and its answer."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "written")
        done = subprocess.run([binary, "weigh", *arguments, flag, path, "--json"], cwd=ROOT,
                              capture_output=True, text=True, check=False)
        expect(done.returncode in (0, 1), done.stderr)
        return path.read_bytes(), json.loads(done.stdout)


def failures(runs, check):
    """How many runs disagree; each result or disagreement is printed."""
    failed = 0
    for name, arguments in runs.items():
        try:
            print(f"{name}: {check(arguments)}")
        except Disagreement as disagreement:
            failed += 1
            print(f"{name}: {disagreement}")
    return failed
