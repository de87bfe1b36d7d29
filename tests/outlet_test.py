#!/usr/bin/env python3
"""What reaches a terminal and what becomes of an answer that cannot be written.

    outlet_test.py build/dev/steelyard

Every command is given names, keys, values and files that hold terminal escapes, bells, lines of their own and text that runs
backwards: none of it may come out raw, with or without colours. Answers go to /dev/full and into a pipe that nobody reads.
"""

import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

# Clears the screen, sets the title, C1's own control sequence, runs backwards, a bell, and a line that looks like an answer.
HOSTILE = "a\x1b[1;31mRED\x1b[2J\x1b]0;title\x07\u009b31m\u202eb\x7f\r\nFORGED fits"
IN_JSON = '"a\\u001b[1;31mRED\\u001b[2J\\u001b]0;title\\u0007\\u009b31m\\u202eb\\u007f\\r\\nFORGED fits"'
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
COLOURS = re.compile(r"\x1b\[(?:0|1|2|31|33|1;31|1;32|1;33)m")

RUN = '{"model": "llama-3.1-8b", "engine": "fsdp2", "cluster": {"device": "h100-sxm-80gb", "devices": 8}, "training": {"sequence_length": 4096}'
SCRIPT = """#!/bin/bash
#SBATCH --gpus-per-node=8 --partition={0} --job-name={0}
export NCCL_{0}={0}
torchrun --nproc-per-node 8 train.py --model_name_or_path "{0}" --per_device_train_batch_size 1 --{0} "{0}"
"""


class Outlet:
    def __init__(self, binary, folder):
        self.binary, self.folder, self.failures, self.runs = binary, folder, [], 0
        self.environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(folder), "COLUMNS": "80"}

    def call(self, *arguments, **how):
        self.runs += 1
        return subprocess.run([self.binary, *map(str, arguments)], cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, timeout=120, **how)

    def expect(self, holds, what):
        if not holds:
            self.failures.append(what)

    def harmless(self, *arguments):
        for colour in ("never", "always"):
            done = self.call(*arguments, "--color", colour, capture_output=True)
            what = f"steelyard {arguments!r:.160} --color {colour}"
            self.expect(done.returncode in (0, 1, 2), f"{what}: exit {done.returncode} {done.stderr[-200:]!r}")
            for name, output in (("stdout", done.stdout), ("stderr", done.stderr)):
                try:
                    text = output.decode()
                except UnicodeDecodeError:
                    self.expect(False, f"{what}: {name} is no UTF-8")
                    continue
                if colour == "always":
                    text = COLOURS.sub("", text)
                self.expect("\x1b[1;31mRED" not in output.decode(), f"{what}: {name} has a colour of another")
                found = RAW.search(text)
                self.expect(found is None, f"{what}: {name} holds {found and found.group()!r}: "
                                           f"{found and text[max(0, found.start() - 40):found.end() + 20]!r}")
                self.expect(not any(line.startswith("FORGED") for line in text.splitlines()), f"{what}: {name} has a forged line")

    def names(self):
        def write(name, text):
            (self.folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
            return name

        run = write("run.json", RUN + "}")
        named = write(f"x{HOSTILE.replace('/', '')}.json", RUN + "}")
        keys = write("keys.json", RUN + f', {IN_JSON}: {IN_JSON}, "carried": {{"x": {{{IN_JSON}: {IN_JSON}}}}}}}')
        values = write("values.json", RUN.replace('"fsdp2"', IN_JSON) + "}")
        carried = write("carried.json", RUN + f', "carried": {{"x": {{{IN_JSON}: {IN_JSON}}}}}}}')
        (self.folder / f"m{HOSTILE}").mkdir()
        config = ('{"model_type": "llama", "vocab_size": 128, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, '
                  f'"num_attention_heads": 4, {IN_JSON}: 3, "_name_or_path": {IN_JSON}}}')
        model = f"m{HOSTILE}"
        write(f"{model}/config.json", config)
        yaml = write("launch.yaml", f"base_model: {IN_JSON}\nmicro_batch_size: 1\nsequence_len: 2048\n{IN_JSON}: {IN_JSON}\n"
                                    f"bf16: {IN_JSON}\n")
        trainer = write("trainer.json", f'{{"model_name_or_path": {IN_JSON}, "per_device_train_batch_size": 1, {IN_JSON}: {IN_JSON}}}')
        script = write("job.sh", SCRIPT.format(HOSTILE.replace("\n", "")))
        broken = write("broken.json", b'{"model": \x1b[2J\x9b\xff' + HOSTILE.encode())
        toml = write("broken.toml", f'model = "x\u009b\u202e"\nb = \u009b31m\u202e\n')
        policy = write("policy.toml", f'refuse = {IN_JSON}\n{IN_JSON} = 1\nnot_weighed = "refuse"\n')
        rows = write("rows.jsonl", f'{{"run": {IN_JSON}, "step_seconds": {IN_JSON}}}\n{{"id": {IN_JSON}, "source": {IN_JSON}}}\n')
        on = ("--on", "8xh100-sxm-80gb", "--sequence-length", "2048")
        files = (run, named, keys, values, carried, model, yaml, trainer, script, broken, toml, HOSTILE, "./" + HOSTILE)
        for file in files:
            for command in (["weigh"], ["weigh", "-v"], ["explain"], ["gate"], ["import"]):
                self.harmless(*command, file, *on)
            self.harmless("weigh", file, *on, "--json")
            self.harmless("compare", run, file)
            self.harmless("export", "accelerate", file, *on, "--json")
        for file in (named, model):
            self.harmless("plan", file, *on, "--engine", "ddp", "--seconds", "5")
            self.harmless("sweep", file, *on, "--over", "training.micro_batch=1,2")
        self.harmless("gate", run, "--policy", policy)
        self.harmless("gate", run, script, named, *on)
        for command in (["weigh", "--jobs"], ["validate"], ["calibrate"], ["weigh", run, "--calibrated"]):
            self.harmless(*command, rows)
        for command in ("weigh", "plan", "list", "explain", "help", "completion", "validate", "sweep", "export", "compare", HOSTILE):
            self.harmless(command, HOSTILE)
        for flag in ("--model", "--engine", "--on", "--machine", "--precision", "--over", "--" + HOSTILE, "--write", "--frozen"):
            self.harmless("weigh", run, flag, HOSTILE)

    def unwritable(self):
        run = "run.json"
        for arguments in (["weigh", run], ["weigh", run, "--json"], ["list", "models"], ["explain", run], ["import", "job.sh"],
                          ["export", "accelerate", run], ["--version"], ["--help"], ["weigh", "--help"], ["gate", run],
                          ["gate", "--slurm-plugin"], ["completion", "bash"], ["weigh", run, "--write", "-"]):
            with open("/dev/full", "wb") as full:
                done = self.call(*arguments, stdout=full, stderr=subprocess.PIPE)
            self.expect(done.returncode == 2 and b"E620" in done.stderr, f"{arguments} > /dev/full: exit {done.returncode} {done.stderr!r}")
            read, write = os.pipe()
            os.close(read)
            done = self.call(*arguments, stdout=write, stderr=subprocess.PIPE)
            os.close(write)
            self.expect(done.returncode in (0, 1, 2) and b"written" not in done.stderr,
                        f"{arguments} | nobody: exit {done.returncode} {done.stderr!r}")

    def half_written(self):
        """A file that fails leaves the old one, and nothing beside it."""
        old = "the old text\n"

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

        run = "run.json"
        (self.folder / "steps.jsonl").write_text("".join(
            f'{{"run": {RUN.replace("4096", str(length))}}}, "step_seconds": {length / 4000}}}\n' for length in (2048, 4096, 8192)))
        written = {"a.toml": ["weigh", run, "--write", "a.toml"], "a.pickle": ["weigh", run, "--snapshot", "a.pickle"],
                   "a.trace": ["weigh", run, "--trace", "a.trace"], "b.toml": ["import", "trainer.json", *("--write", "b.toml")],
                   "c.json": ["calibrate", "steps.jsonl", "--output", "c.json"],
                   "out/launch.sh": ["export", "accelerate", run, "--to-folder", "out"]}
        (self.folder / "out").mkdir()
        for name, arguments in written.items():
            path = self.folder / name
            targets = [path] if path.parent == self.folder else []
            for target in targets:
                target.write_text(old)
            before = sorted(os.listdir(path.parent))
            done = self.call(*arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limit)
            self.expect(done.returncode == 2 and b"E621" in done.stderr, f"{arguments}, a full disk: exit {done.returncode} {done.stderr!r}")
            for target in targets:
                self.expect(target.read_text() == old, f"{arguments}: the old file is gone")
            self.expect(sorted(os.listdir(path.parent)) == before, f"{arguments}: leaves {sorted(os.listdir(path.parent))}")
        # A link stays a link, a mode stays a mode, a device is written to.
        (self.folder / "real.toml").write_text(old)
        (self.folder / "real.toml").chmod(0o640)
        (self.folder / "link.toml").symlink_to("real.toml")
        done = self.call("weigh", run, "--write", "link.toml", capture_output=True)
        self.expect(done.returncode == 0 and (self.folder / "link.toml").is_symlink(), f"a link: {done.stderr!r}")
        self.expect((self.folder / "real.toml").stat().st_mode & 0o777 == 0o640, "the mode of the old file")
        self.expect("llama" in (self.folder / "real.toml").read_text(), "what the link names is not written")
        done = self.call("weigh", run, "--write", "/dev/full", capture_output=True)
        self.expect(done.returncode == 2 and b"E621" in done.stderr, f"--write /dev/full: exit {done.returncode} {done.stderr!r}")
        done = self.call("weigh", run, "--write", "/dev/null", capture_output=True)
        self.expect(done.returncode == 0, f"--write /dev/null: exit {done.returncode} {done.stderr!r}")


def main():
    with tempfile.TemporaryDirectory(prefix="steelyard-outlet-") as name:
        outlet = Outlet(str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(name))
        outlet.names()
        outlet.unwritable()
        outlet.half_written()
        for failure in outlet.failures:
            print(failure)
        print(f"{outlet.runs} runs, {len(outlet.failures)} wrong")
        return 1 if outlet.failures else 0


if __name__ == "__main__":
    sys.exit(main())
