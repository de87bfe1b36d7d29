#!/usr/bin/env python3
"""Runs that somebody filled with hostile texts are exported, and what is written runs nothing but its launcher.

hostile_exports_test.py STEELYARD [--count 1000] [--first-seed 1]

Each run has hostile texts (quotes, $(...), new lines, words that end a here-document, escapes of a terminal, what other
parsers take for truths and dates) in places that hold text: the model's folder, names and values of variables and of
carried keys, partition, time limit, the run's own file name. Some come as a stranger's YAML or shell script. Each is
exported to one target after the other, and the script is run in a folder of its own by bash, whose PATH has stubs that
write down what they are given. Nothing else may have run; what was written parses, and says what was meant.
"""

import argparse
import ast
import collections
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

try:
    import tomllib
except ImportError:  # Python 3.10
    tomllib = None
try:
    import yaml
except ImportError:  # not in the standard library: then our own reader alone judges
    yaml = None

TARGETS = ["deepspeed", "accelerate", "fsdp2", "torchtitan", "megatron", "nanotron", "axolotl", "llama-factory"]
FORMAT = {"deepspeed": "trainer", "accelerate": "trainer", "fsdp2": "trainer"}
ENGINE = {"deepspeed": "deepspeed", "megatron": "megatron", "nanotron": "nanotron"}
CODE = {"torchtitan": "torchtitan", "megatron": "megatron", "nanotron": "nanotron"}
STUBS = ["torchrun", "accelerate", "deepspeed", "axolotl", "llamafactory-cli", "srun", "python", "python3", "sbatch"]

ATOMS = ["$(evil)", "`evil`", "\"; evil; \"", "'; evil; '", "\nevil\n", "${x:-$(evil)}", "${IFS}", "${HOME}", " && evil",
         " | evil", " > canary ", "\\", "\"\"\"", "'''", "\"); evil(); (\"", "')\nimport os; os.system('evil')\n('", "{}",
         "{0}", "%s", " # ", "\n#SBATCH --wrap=evil\n", "\r\n#SBATCH --uid=0\r\n", "END_OF_FILE",
         "\nEND_OF_FILE\nevil\n", "-x", "--config=evil", "!evil", "~", "*", "é", "日本", "\u202eevil", "\x1b]0;evil\x07",
         "\x1b[31m", "\x85evil", "\u2028evil", "\u2029- evil", ": {a: b}", "- x", "yes", "null", "1e3", "2024-01-01",
         "0x1f", "1:30", "@evil", "=evil", "<(evil)", "$((evil))", "$'\\n'", "\x7f", "<<EOF", "a]\n[b", "\t", "\x00", "",
         "&", "*a", "!!python/object/apply:os.system [evil]", "<<", "?", "|", ">", "%", "[0]=evil", "a=b", ";evil;",
         "$x", "\\$(evil)", "\\`evil\\`", "\"$(evil)\"", "'\"'\"'", "\\\nevil", "\ufeff", "True", ".inf", "~/x", "../x"]

FLAG = re.compile("[A-Za-z0-9][A-Za-z0-9_.-]*")

TINY = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 4, "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 256,
        "tie_word_embeddings": False}


def hostile(chance):
    return "".join(chance.choice(ATOMS + ["x", "data", "/"]) for _ in range(chance.randint(1, 3)))


def folder_name(chance):
    return hostile(chance).replace("/", "_").replace("\x00", "")[:60].encode()[:200].decode(errors="ignore") or "m"


def name_of(chance, good):
    return good if chance.random() < 0.5 else hostile(chance)


def run_of(chance, target):
    """A small run of this target's engine, with what is meant by it."""
    run = {"model": TINY, "engine": ENGINE.get(target, "fsdp2"), "implementation": CODE.get(target, "transformers"),
           "cluster": {"device": "h100-sxm-80gb", "devices": 2},
           "training": {"sequence_length": 128, "micro_batch": 1, "gradient_clip": 1.0}}
    if target in ("megatron", "nanotron"):
        run["training"]["precision"] = "bf16-mixed-fp32-gradients"
    if target == "torchtitan":
        run["model"] = "llama-3.1-8b"
    own = FORMAT.get(target, target)
    if chance.random() < 0.7:
        names = {name_of(chance, chance.choice(["report_to", "data_path", "a.b", "seed_file", "run_name"])): hostile(chance)
                 for _ in range(chance.randint(1, 3))}
        if chance.random() < 0.2:
            names["listed"] = [hostile(chance), hostile(chance)]
        if chance.random() < 0.2 and target not in ("megatron",):
            names["inner"] = {name_of(chance, "deep"): hostile(chance)}
        run["carried"] = {own: names}
    if chance.random() < 0.6:
        run["environment"] = {name_of(chance, chance.choice(["NCCL_DEBUG", "HOSTILE", "PATH", "BASH_ENV", "LD_PRELOAD"]))
                              if chance.random() < 0.5 else "HOSTILE": hostile(chance)}
    if chance.random() < 0.3:
        run["launch"] = {"partition": chance.choice(["gpu", hostile(chance)]),
                         "time": chance.choice(["01:00:00", hostile(chance)])}
        if chance.random() < 0.5:
            run["launch"].update(script=hostile(chance), launcher=hostile(chance))
    return run


def strangers_yaml(chance, model):
    text = json.dumps
    lines = [f"base_model: {text(model)}", "sequence_len: 128", "micro_batch_size: 1", "gradient_accumulation_steps: 1",
             "fsdp_version: 2", "fsdp_config:", "  reshard_after_forward: true",
             "  auto_wrap_policy: TRANSFORMER_BASED_WRAP", "bf16: true"]
    names = {name_of(chance, key): hostile(chance).replace("\x00", "") for key in ("wandb_project", "hub_model_id")}
    lines += [f"{text(key)}: {text(value)}" for key, value in names.items() if key]
    return "\n".join(lines) + "\n", names


def strangers_script(chance, model):
    word = shlex.quote
    flags = {chance.choice(["run_name", "hub_token", "data_file"]): hostile(chance).replace("\x00", "")}
    lines = ["#!/bin/bash", "export HOSTILE=" + word(hostile(chance).replace("\x00", "")),
             "torchrun --nproc-per-node 2 train.py --model_name_or_path " + word(model) +
             " --per_device_train_batch_size 1 --gradient_accumulation_steps 1 --max_length 128 --fsdp true --bf16 true " +
             " ".join(f"--{name} {word(value)}" for name, value in flags.items())]
    return "\n".join(lines) + "\n", flags


class Sandbox:
    def __init__(self, steelyard, root):
        self.steelyard = steelyard
        self.root = pathlib.Path(root)
        self.bin = self.root / "bin"
        self.bin.mkdir()
        for name in STUBS:
            self.stub(name, 'printf "%s\\0" "${0##*/}" "$@" >> "$STUB_LOG"; printf "HOSTILE=%s\\0\\0" "$HOSTILE" >> "$STUB_LOG"')
        self.stub("scontrol", "echo first-host")
        self.stub("evil", ': > "$STUB_CANARY"')
        for name in ("cat", "head"):
            (self.bin / name).symlink_to(shutil.which(name))
        self.bash = shutil.which("bash")

    def stub(self, name, body):
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run(self, script, folder):
        """What the stubs were given, word by word, and what variables held; the folder's new files."""
        before = set(os.listdir(folder))
        log, canary = self.root / "log", self.root / "canary"
        for path in (log, canary):
            path.unlink(missing_ok=True)
        done = subprocess.run([self.bash, str(script)], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                              timeout=20, check=False,
                              env={"PATH": str(self.bin), "HOME": "/home/of/nobody", "STUB_LOG": str(log),
                                   "STUB_CANARY": str(canary), "HEAD": "first-host", "RANK_OF_MACHINE": "0",
                                   "SLURM_NNODES": "1", "SLURM_NODEID": "0", "SLURM_JOB_NODELIST": "first-host"})
        launches = [entry.split(b"\0") for entry in (log.read_bytes() if log.exists() else b"").split(b"\0\0")[:-1]]
        return done, launches, set(os.listdir(folder)) - before, canary.exists()


FILES = {"deepspeed": {"ds_config.json"}, "accelerate": {"accelerate.yaml"}, "fsdp2": {"setup_fsdp2.py"},
         "torchtitan": {"torchtitan.toml"}, "megatron": set(), "nanotron": {"nanotron.yaml"},
         "axolotl": {"axolotl.yaml"}, "llama-factory": {"llama_factory.yaml"}}


def raw_controls(text):
    return sorted({hex(ord(c)) for c in text if (ord(c) < 32 and c not in "\n\t") or 0x7f <= ord(c) <= 0x9f})


def strings_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from strings_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item)


def parsed(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    if path.suffix == ".toml":
        return tomllib.loads(text) if tomllib else None
    if path.suffix == ".yaml":
        return yaml.safe_load(text) if yaml else None
    return None


def faults_of_files(folder, files, model, values):
    """Values that a file should hold as they are; Python's own are checked by their tree."""
    for name in files:
        path = folder / name
        if path.suffix == ".py":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            if model not in {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}:
                yield f"{name} does not load {model!r}"
            continue
        document = parsed(path)
        if document is None:
            continue
        found = set(strings_in(document))
        for value in values:
            if value not in found:
                yield f"{name} does not say {value!r}"


class Trial:
    """One run, from its seed."""

    def __init__(self, sandbox, seed):
        self.sandbox = sandbox
        self.seed = seed
        self.chance = random.Random(seed)
        self.target = TARGETS[seed % len(TARGETS)]
        self.slurm = self.chance.random() < 0.3
        self.kind = "run file"
        self.values = []  # that a file of the target holds
        self.model = None

    def write(self, folder):
        chance = self.chance
        directory = folder_name(chance)
        (folder / directory).mkdir()
        (folder / directory / "config.json").write_text(json.dumps(TINY))
        self.model = "./" + directory
        pick = chance.random()
        if pick < 0.12 and self.target in ("axolotl", "accelerate", "llama-factory", "fsdp2"):
            self.kind = "YAML"
            text, names = strangers_yaml(chance, self.model)
            self.values = [v for v in names.values()] if self.target == "axolotl" else []
            self.file = "stranger.yaml"
        elif pick < 0.24 and self.target in ("axolotl", "accelerate", "llama-factory", "fsdp2"):
            self.kind = "script"
            text, _ = strangers_script(chance, self.model)
            self.file = "stranger.sh"
        else:
            run = run_of(chance, self.target)
            if self.target not in ("torchtitan", "megatron", "nanotron"):
                run["model"] = self.model
            own = run.get("carried", {}).get(FORMAT.get(self.target, self.target), {})
            if self.target not in ("megatron", "fsdp2", "deepspeed", "accelerate"):
                self.values = list(strings_in(own))
            self.run = run
            text = json.dumps(run)
            self.file = (folder_name(chance) if chance.random() < 0.3 else "run") + ".json"
        (folder / self.file).write_text(text, encoding="utf-8")

    def faults(self, folder):
        self.write(folder)
        command = [self.sandbox.steelyard, "export", self.target, "./" + self.file] + (["--slurm"] if self.slurm else [])
        if self.kind != "run file":
            # Launch files do not say which machine; without --new, one of the target's own comes back changed, not as a script.
            command += ["--on", "2xh100-sxm-80gb", "--new"]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        errors = done.stderr.decode(errors="replace")
        if done.returncode == 2 and "error[" in errors:
            return "refused: " + errors[errors.index("error["):][6:10], []
        if done.returncode != 0:
            return "fault", [f"exit {done.returncode}: {errors[:500]}"]
        text = done.stdout.decode("utf-8")
        faults = [f"control characters on the terminal: {raw_controls(text)}"] if raw_controls(text) else []
        script = folder / "exported script.sh"
        script.write_bytes(done.stdout)
        ran, launches, files, canary = self.sandbox.run(script, folder)
        if canary or (folder / "canary").exists():
            faults.append("something else ran")
        if ran.returncode != 0 or ran.stderr:
            faults.append(f"bash ends with {ran.returncode}: {ran.stderr.decode(errors='replace')[:300]}")
        if len(launches) != 1:
            faults.append(f"{len(launches)} launches: {launches}")
        if files != FILES[self.target]:
            faults.append(f"files {sorted(files)}, not {sorted(FILES[self.target])}")
        for line in text.splitlines():
            if line.startswith("#SBATCH") and not line.startswith(
                    ("#SBATCH --job-name=", "#SBATCH --nodes=", "#SBATCH --ntasks-per-node=", "#SBATCH --gpus-per-node=",
                     "#SBATCH --time=", "#SBATCH --partition=")):
                faults.append(f"a directive of its own: {line!r}")
        try:
            faults += faults_of_files(folder, files & FILES[self.target], self.model, self.values)
        except Exception as fault:  # whatever a parser raises
            faults.append(f"a file does not parse: {fault}")
        if launches and not faults:
            faults += self.faults_of_words([word.decode() for word in launches[0]])
        return "written", faults

    def faults_of_words(self, words):
        """The launcher got the words that were meant, each whole."""
        if self.target in ("deepspeed", "accelerate") and self.model not in words:
            yield f"no word is {self.model!r}"
        if self.kind != "run file":
            return
        value = self.run.get("environment", {}).get("HOSTILE")
        if value is not None and "HOSTILE=" + value not in words:
            yield f"HOSTILE is not {value!r} but {words[-1]!r}"
        if self.target not in ("megatron", "deepspeed", "accelerate"):
            return
        own = self.run.get("carried", {}).get(FORMAT.get(self.target, self.target), {})
        for name, value in own.items():
            if not isinstance(value, str) or not FLAG.fullmatch(name):
                continue
            flag = "--" + (name.replace("_", "-") if self.target == "megatron" else name)
            if not (flag + "=" + value in words or
                    any(words[i:i + 2] == [flag, value] for i in range(len(words)))):
                yield f"{flag} {value!r} is not among the words"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("steelyard")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first-seed", type=int, default=1)
    arguments = parser.parse_args()
    ends = collections.Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as root:
        sandbox = Sandbox(str(pathlib.Path(arguments.steelyard).resolve()), root)
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.count):
            folder = pathlib.Path(root) / "case"
            folder.mkdir()
            trial = Trial(sandbox, seed)
            end, faults = trial.faults(folder)
            ends[trial.target, end] += 1
            if faults:
                wrong += 1
                if wrong <= 10:
                    print(f"seed {seed}, {trial.target}, {trial.kind}:", *faults, sep="\n  ")
            shutil.rmtree(folder)
    for (target, end), count in sorted(ends.items()):
        print(f"{target:14} {count:5} {end}")
    written = sum(count for (_, end), count in ends.items() if end == "written")
    print(f"{written} of {arguments.count} hostile runs written and run, {wrong} with a fault" +
          ("" if yaml else "; no PyYAML here: YAML is read by nothing but bash"))
    few = [target for target in TARGETS if ends[target, "written"] * 4 < arguments.count / len(TARGETS)]
    if few:
        print(f"too few were written for {', '.join(few)}: nothing is shown of them")
    return 1 if wrong or few else 0


if __name__ == "__main__":
    sys.exit(main())
