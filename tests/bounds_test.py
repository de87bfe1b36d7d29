#!/usr/bin/env python3
"""Every reader, fed with bombs: text that nests, repeats or multiplies, and files without an end.

    bounds_test.py build/dev/steelyard

Each run has 512 MiB of memory (RLIMIT_AS) and a limit of processor time that is far above what a linear reader takes and far
below what a quadratic one does. It must end by itself with 0, 1 or 2, and say what is wrong in a page, not in a book.
The sanitizers reserve terabytes of addresses, so there the largest resident size is held to three times as much instead.
"""

import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import threading

MEMORY = 512 << 20
MOST_OUTPUT = 256 << 10  # the first fifty problems, each with an excerpt of its line
MEGABYTE = 1_000_000

RUN = """model = "llama-3.1-8b"
engine = "fsdp2"
[cluster]
device = "h100-sxm-80gb"
devices = 8
[training]
sequence_length = 4096
micro_batch = 1
global_batch = 8
"""
CONFIG = {"model_type": "llama", "vocab_size": 128, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 4}
SCRIPT = "#!/bin/bash\n#SBATCH --gpus-per-node=8\n"
LAUNCH = "torchrun --nproc-per-node 8 train.py --model_name_or_path x --per_device_train_batch_size 1\n"


def filled(piece, size):
    """So many copies of a piece that they take about `size` bytes."""
    return piece * max(1, size // len(piece))


def numbered(form, size):
    """form % 0, form % 1, ... up to about `size` bytes."""
    pieces, length = [], 0
    while length < size:
        pieces.append(form.replace("#", str(len(pieces))))
        length += len(pieces[-1])
    return "".join(pieces)


def documents(size):
    """Bombs by the ending of the file that they are written to."""
    laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))
    ladder = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} {'[' * 50}*a{i - 1}{']' * 50}\n" for i in range(1, size // 120))
    return {
        "json": {
            "nested lists": filled("[", size),
            "nested tables": filled('{"a":', size),
            "one key again and again": "{" + filled('"a":1,', size) + '"b":1}',
            "many keys": "{" + numbered('"k#":1,', size) + '"b":1}',
            "a long list": '{"a":[' + filled("1,", size) + "1]}",
            "a long string": '{"model":"' + filled("x", size) + '"}',
            "a long key": '{"' + filled("x", size) + '":1}',
            "a long number": '{"a":' + filled("9", size) + "}",
            "many sections": '{"training":{' + numbered('"k#":1,', size) + '"b":1}}',
            "carried keys": '{"carried":{"x":{' + numbered('"k#":1,', size) + '"b":1}}}',
            "a launch file of many keys": '{"zero_optimization":{"stage":3},' + numbered('"k#":1,', size // 50) + '"b":1}',
            "lines without end": "[" + filled("\n", size),
        },
        "toml": {
            "nested lists": "a = " + filled("[", size),
            "nested tables": "a = " + filled("{a=", size),
            "dotted keys": filled("a.", size) + "a = 1",
            "headers": filled("[[a]]\n", size),
            "many headers": numbered("[t#]\n", size),
            "one key again and again": filled("a = 1\n", size),
            "many keys": numbered("k# = 1\n", size),
            "a long list": "a = [" + filled("1,", size) + "1]",
            "a long string": 'model = "' + filled("x", size) + '"',
            "a long key": filled("x", size) + " = 1",
            "a long number": "a = " + filled("9", size),
            "many devices": RUN + "[parallel]\n" + numbered("tensr# = 2\n", size),
            "frozen": RUN.replace("micro_batch", "frozen = [" + filled('"*.x*y*z*", ', size) + "]\nmicro_batch"),
            "targets": RUN + "[adapter]\nmethod = \"lora\"\ntarget_modules = [" + filled('"xproj", ', size) + "]\n",
            "stages": RUN + "[parallel]\npipeline = 2\nstage_layers = [" + filled("1,", size) + "]\n",
            "a machine": RUN.replace("devices = 8", "devices = 8\nmachine = {" + numbered("k#=1,", size) + "b=1}"),
            "an inline table": "a = {" + numbered("k#=1,", size) + "b=1}",
        },
        "yaml": {
            "nested lists": "a: " + filled("[", size),
            "nested tables": "a: " + filled("{a: ", size),
            "nested items": filled("- ", size) + "a",
            "a flow list": "base_model: [" + filled("1,", size) + "1]",
            "a flow list of words": "a: [" + filled("b c, ", size) + "d]",
            "a flow table": "a: {" + numbered("k#: 1, ", size) + "b: 1}",
            "one key again and again": filled("a: 1\n", size),
            "many keys": numbered("k#: 1\n", size),
            "billion laughs": laughs,
            "a ladder of aliases": ladder,
            "anchors around a list": "a: " + "".join(f"&a{i} [" for i in range(55)) + filled("1,", size) + "1" + "]" * 55,
            "a long string many times": 'a: &a "' + filled("x", size // 2) + '"\nb: [' + filled("*a ,", size // 8) + "*a]",
            "merges": "a: &a {" + numbered("k#: 1, ", size // 2) + "b: 1}\n" + numbered("m#:\n  <<: *a\n", size // 4),
            "comments in a list": "a: [b" + filled("\n# c", size) + "\n, c]",
            "a long block": "a: |\n" + filled("  x\n", size),
            "a long word of lines": "a:\n" + filled("  b\n", size),
            "quotes": 'a: "' + filled("b\n", size) + '"',
            "stairs": "".join(" " * i + "a:\n" for i in range(1400)),
            "unknown axolotl keys": "base_model: x\n" + numbered("k#: 1\n", size // 50),
            "a list of data sets": "base_model: x\ndatasets:\n" + filled("  - path: y\n", size // 50),
        },
        "sh": {
            "arithmetic": SCRIPT + "A=" + filled("$((", size) + filled("))", size) + "\n" + LAUNCH,
            "arithmetic in quotes": SCRIPT + 'A="' + filled("$((", size) + "))\n" + LAUNCH,
            "arithmetic in a here-document": SCRIPT + "cat > x <<E\n" + filled("$((", size) + "))\nE\n" + LAUNCH,
            "a condition": SCRIPT + "if (( " + filled("$((", size) + " )); then\n" + LAUNCH + "fi\n",
            "brackets": SCRIPT + "A=$((" + filled("(", size) + "1" + filled(")", size) + "))\n" + LAUNCH,
            "signs": SCRIPT + "A=$((" + filled("-", size) + "1))\n" + LAUNCH,
            "defaults": SCRIPT + "A=" + filled("${A:-", size) + filled("}", size) + "\n" + LAUNCH,
            "commands": SCRIPT + "A=" + filled("$(", size) + "\n" + LAUNCH,
            "conditions": SCRIPT + filled("if [ 1 ]; then\n", size) + LAUNCH,
            "unknown conditions": SCRIPT + filled("if x\n", size) + LAUNCH,
            "doubling": SCRIPT + "A=xx\n" + filled("A=$A$A\n", size) + LAUNCH,
            "growing": SCRIPT + filled("A+=x\n", size) + LAUNCH,
            "here-documents": SCRIPT + "cat " + numbered("<<E# ", size) + "\n" + LAUNCH,
            "jobs in here-documents": SCRIPT + filled("sbatch <<E\n" + LAUNCH + "E\n", size),
            "exports": SCRIPT + numbered("export NCCL_#=1\n", size) + LAUNCH,
            "exports and commands": SCRIPT + "export A=" + filled("x", size // 2) + "\n" + filled("a\n", size // 2) + LAUNCH,
            "a number many times": SCRIPT + "A=" + filled("1", size // 2) + "\n" + filled("B=$((A))\n", size // 2) + LAUNCH,
            "files and commands": SCRIPT + "cat > f <<E\n" + filled("x", size // 2) + "\nE\n" + LAUNCH + filled(LAUNCH[:8] + "\n", size // 2),
            "shells in shells": SCRIPT + filled("bash -c '", size) + "\n" + LAUNCH,
            "words": SCRIPT + LAUNCH.strip() + " " + filled("--x ", size) + "\n",
            "a long word": SCRIPT + LAUNCH.strip() + " --x " + filled("y", size) + "\n",
            "an array": SCRIPT + "A=(" + filled("a ", size) + ")\n" + LAUNCH.strip() + ' "${A[@]}"\n',
            "directives": SCRIPT + numbered("#SBATCH --x#=1\n", size) + LAUNCH,
            "remarks": SCRIPT + numbered("# steelyard: training.x# = 1\n", size) + LAUNCH,
            "a remark": SCRIPT + "# steelyard: training = {" + numbered("x#=1,", size) + "y=1}\n" + LAUNCH,
            "lines": SCRIPT + filled("\n", size) + LAUNCH,
            "braces": SCRIPT + "A=" + filled("${", size) + "\n" + LAUNCH,
            "quotes": SCRIPT + filled('"', size) + "\n" + LAUNCH,
        },
    }


def configs(size):
    """Of a model: config.json's keys, each in a folder of its own."""
    layers = dict(CONFIG, num_hidden_layers=MEGABYTE // 2)
    return {
        "unknown keys": json.dumps(CONFIG)[:-1] + "," + numbered('"k#":1,', size) + '"b":1}',
        "a list a layer": json.dumps(dict(CONFIG, layer_types=["full_attention"] * (size // 20))),
        "a list a layer, and as many layers": json.dumps(dict(layers, layer_types=["full_attention"] * (MEGABYTE // 2))),
        "layers": json.dumps(layers),
        "huge numbers": json.dumps(dict(CONFIG, hidden_size=10**18, intermediate_size=10**18, vocab_size=10**18)),
        "a name": json.dumps(dict(CONFIG, model_type="x" * size)),
        "modules not converted": json.dumps(dict(CONFIG, quantization_config={
            "quant_method": "bitsandbytes", "load_in_4bit": True, "llm_int8_skip_modules": ["x"] * (size // 6)})),
    }


def rows(size):
    """Lines of JSON: jobs, measured steps, rows."""
    job = json.dumps({"model": "llama-3.1-8b", "cluster": {"device": "h100-sxm-80gb", "devices": 8}})
    return {
        "one long line": filled("[", size),
        "wrong lines": filled("[\n", size // 1000),
        "empty lines": filled("\n", size) + job,
        "a job of many keys": job[:-1] + "," + numbered('"k#":1,', size) + '"b":1}',
        "a list": filled("[1,", size // 2) + filled("]", size // 2),
    }


def headers(size):
    """Of safetensors: 8 bytes of length, then JSON."""
    framed = lambda text: struct.pack("<Q", len(text)) + text.encode()
    tensor = '"t#":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},'
    return {
        "many tensors": framed("{" + numbered(tensor, size) + '"__metadata__":{}}'),
        "wrong tensors": framed("{" + numbered('"t#":1,', size) + '"__metadata__":{}}'),
        "nested": framed(filled("[", size)),
        "dimensions": framed('{"t":{"dtype":"F16","shape":[' + filled("1,", size) + '1],"data_offsets":[0,2]}}'),
        "a length that lies": struct.pack("<Q", 90_000_000) + b"{}",
    }


class Bounds:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.failures, self.runs = [], 0
        self.environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "1", "HOME": str(folder)}
        # Whether the program can live within the limit at all: the sanitizers' build cannot.
        self.limited = True
        self.limited = self.status("--version")[0] == 0
        self.most_seconds = 10 if self.limited else 60

    def limits(self):
        if self.limited:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        seconds = 10 if self.limited else 60
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def status(self, *arguments, stdin=subprocess.DEVNULL):
        """Exit status (negative: a signal), what was printed, and the largest resident size."""
        with tempfile.TemporaryFile() as printed:
            process = subprocess.Popen([self.binary, *map(str, arguments)], stdin=stdin, stdout=printed, stderr=printed,
                                       preexec_fn=self.limits, env=self.environment, cwd=self.folder)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            size = printed.seek(0, os.SEEK_END)
            printed.seek(0)
            return process.returncode, size, printed.read(2000).decode(errors="replace"), usage.ru_maxrss << 10

    def run(self, name, *arguments, stdin=subprocess.DEVNULL, most_output=MOST_OUTPUT, expect=(0, 1, 2)):
        self.runs += 1
        status, size, said, resident = self.status(*arguments, stdin=stdin)
        wrong = ""
        if status not in expect:
            wrong = f"exit {status}"
        elif size > most_output:
            wrong = f"prints {size} bytes"
        elif not self.limited and resident > 3 * MEMORY:
            wrong = f"takes {resident >> 20} MiB"
        if wrong:
            self.failures.append(f"{name}: {wrong}\n    steelyard {' '.join(map(str, arguments))}\n    {said[:300]}")

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def shapes(self, size, few):
        """All shapes of about `size` bytes; `few`: one reader of each form, for those that are refused by their size."""
        on = ("--on", "8xh100-sxm-80gb", "--sequence-length", "2048")
        for ending, bombs in documents(size).items():
            for name, text in bombs.items():
                path = self.write(f"bomb.{ending}", text)
                what = f"{ending}, {name}, {size} bytes"
                if ending in ("json", "toml"):
                    self.run(what, "weigh", path, *on)
                if not few or ending not in ("json", "toml"):
                    # What is kept and not read is listed by its names.
                    self.run(what, "import", path, most_output=4 << 20)
            last = path
            if ending == "sh":
                self.run("gate", "gate", last, *on)
        for name, text in configs(size).items():
            self.write("model/config.json", text)
            self.run(f"config.json, {name}", "weigh", "model", *on)
        for name, text in rows(size).items():
            path = self.write("rows.jsonl", text)
            self.run(f"jobs, {name}", "weigh", "--jobs", path, most_output=64 << 20)
            self.run(f"rows, {name}", "validate", path)
            self.run(f"steps, {name}", "calibrate", path)
        for name, content in headers(size).items():
            path = self.write("model.safetensors", content)
            self.run(f"safetensors, {name}", "compare", "llama-3.1-8b", path)
        index = '{"weight_map":{' + numbered('"t#":"a#.safetensors",', min(size, 4 * MEGABYTE)) + '"b":"c.safetensors"}}'
        self.run("index", "compare", "llama-3.1-8b", self.write("model.safetensors.index.json", index))

    def others(self, size):
        run = self.write("run.toml", RUN)
        for name, text in documents(size)["toml"].items():
            path = self.write("policy.toml", text)
            self.run(f"policy, {name}", "gate", run, "--policy", path)
        for name, text in documents(size)["json"].items():
            path = self.write("rates.json", text)
            self.run(f"rates, {name}", "weigh", run, "--calibrated", path)
            self.run(f"record, {name}", "validate", path)
        long = "9" * 100_000
        for arguments in (["--sequence-length", long], ["--on", long + "xh100"], ["--model", "x" * 100_000], ["--frozen", "*" * 100_000],
                          ["--engine", "f" * 100_000], ["--tensor", "1e" + long], ["--" + "x" * 100_000, "1"]):
            self.run(f"flag {arguments[0][:20]}", "weigh", run, *arguments)
        for values in ("1.." + long, "1..1000000000000:1", "1.." + "9" * 18, ",".join(["1"] * 50_000)):
            self.run("sweep", "sweep", run, "--over", f"training.sequence_length={values}", most_output=16 << 20)
        allocator = "[" * 50_000 + "expandable_segments:True,"
        self.run("allocator settings", "weigh", self.write("run.toml", RUN + f'[environment]\nPYTORCH_ALLOC_CONF = "{allocator}"\n'))

    def endless(self):
        """Files without an end, and such as are none."""
        run = self.write("run.toml", RUN)
        fifo = self.folder / "pipe"
        os.mkfifo(fifo)
        readers = (["weigh"], ["import"], ["gate"], ["explain"], ["plan"], ["weigh", "--jobs"], ["validate"], ["calibrate"],
                   ["gate", run, "--policy"], ["weigh", run, "--calibrated"])
        for reader in readers:
            for path in ("/dev/zero", self.folder):
                expect = (0, 1, 2) if path != "/dev/zero" else (2,)
                self.run(f"{reader[-1]} {path}", *reader, path, expect=expect)
            done = threading.Event()

            def pour():
                while not done.is_set():
                    try:
                        with open(fifo, "wb", buffering=0) as pipe:
                            while True:
                                pipe.write(b"[" * 65536)
                    except OSError:
                        pass

            thread = threading.Thread(target=pour, daemon=True)
            thread.start()
            self.run(f"{reader[-1]}, a pipe without end", *reader, fifo, expect=(2,))
            done.set()
            # A writer that waits for a reader is let go.
            descriptor = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
            thread.join(5)
            os.close(descriptor)
        with open("/dev/zero", "rb") as zero:
            self.run("stdin without end", "weigh", "-", stdin=zero, expect=(2,))
        self.run("a trace of a million micro-batches", "weigh", run, "--global-batch", "8000000", "--trace", "trace.json", expect=(2,))
        if (self.folder / "trace.json").exists():
            self.failures.append("a trace that was refused is written")


def main():
    with tempfile.TemporaryDirectory(prefix="steelyard-bounds-") as name:
        bounds = Bounds(str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(name))
        bounds.shapes(MEGABYTE, few=False)
        bounds.others(MEGABYTE)
        bounds.shapes(64 * MEGABYTE, few=True) if bounds.limited else None
        bounds.endless()
        for failure in bounds.failures:
            print(failure)
        checked = f"within {MEMORY >> 20} MiB" if bounds.limited else f"of at most {3 * MEMORY >> 20} MiB resident, the sanitizers' own included"
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{bounds.runs} runs {checked}, {seconds.ru_utime + seconds.ru_stime:.0f} s of the processor, {len(bounds.failures)} wrong")
        return 1 if bounds.failures else 0


if __name__ == "__main__":
    sys.exit(main())
