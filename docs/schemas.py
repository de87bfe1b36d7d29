#!/usr/bin/env python3
"""The JSON Schemas of what steelyard prints, docs/schemas/*.json.

    schemas.py --binary build/dev/steelyard --write     a schema for each kind of document, from the documents of COMMANDS
    schemas.py --binary build/dev/steelyard --check     every document of COMMANDS and of the golden cases holds to its schema
    schemas.py --validate docs/schemas < document.json  one document, by its "schema"

A key that a schema does not know fails the check: whoever adds one runs --write and reads the difference. Keys that are
missing from some documents are not required. Sizes are integers of bytes, times are seconds. Documents are held to their schemas by the
Python package jsonschema (python3-jsonschema on Debian).
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "docs/schemas"
DRAFT = "https://json-schema.org/draft/2020-12/schema"

# Each with --json. {oom} is the text of a failure, {ds} a DeepSpeed file, {jobs} a file of jobs.
FSDP = "examples/llama-3.1-8b-fsdp2.toml"
COMMANDS = [
    f"weigh {FSDP}", f"weigh {FSDP} --sequence-length 2048", f"weigh {FSDP} --brief", "weigh 7b --on 1xrtx-4090",
    "weigh examples/llama-3-70b-megatron.toml", "weigh examples/gpt3-175b-megatron.toml", "weigh examples/llama-3-8b-zero3.toml",
    "weigh llama-3.1-8b --on 8xh100 --offload-optimizer cpu --engine deepspeed --zero-stage 3",
    "weigh mixtral-8x7b --on 64xh100 --engine megatron --expert 8 --tensor 2 --pipeline 2",
    "weigh llama-3.1-8b --on 1xh100 --adapter lora --adapter-rank 16", "weigh t5-base --on 1xh100", "weigh llama-3.1-8b --on 8xmi300x",
    "weigh llama-3.1-8b --on 8xh100 --packing varying --mean-length 700", "weigh llama-3.1-8b --on 8xa100 --price 2",
    "weigh qwen2.5-7b --on 8xh100 --method dpo", "weigh llama-3.1-8b --on 8xh100 --time --tokens 1T",
    f"weigh {FSDP} --sequence-length 2048 --apply 1", "weigh no-such-model --on 8xh100", "weigh {{jobs}} --on 8xh100",
    "weigh --jobs {jobs} --on 8xh100", "weigh --jobs {jobs} --on 8xh100 --brief",
    "plan llama-3.1-8b --on 8xh100 --seconds 2", "plan 70b --on 1xrtx-4090 --seconds 1", "plan llama-3.1-8b --on 8xh100 --minimize devices --seconds 2",
    "plan llama-3.1-8b --on 8xh100 --maximize sequence --seconds 3", "plan llama-3.1-8b --on 8xh100 --why tensor=4,pipeline=2 --seconds 2",
    "plan llama-3.1-8b --on 8xh100 --pareto --seconds 2", "plan mixtral-8x7b --on 16xh100 --engine megatron --seconds 2",
    "plan llama-3.1-8b --on 8xh100 --over cluster.devices=8..16 --seconds 2", "plan llama-3.1-8b --on 8xh100 --price 2 --minimize cost --seconds 2",
    "plan llama-3-405b --published --seconds 2",
    f"sweep {FSDP} --over training.sequence_length=2048..8192", f"sweep {FSDP} --over training.micro_batch=1,2 --over recompute.mode=none,full",
    "sweep 7b --on a100-sxm-80gb --sequence-length 2048 --over cluster.devices=1..2 --largest parameters",
    f"explain {FSDP} activations", f"explain {FSDP} parameters", f"explain {FSDP} backward", f"explain {FSDP} optimizer_moments", "explain 7b",
    "explain llama-3.1-8b", "explain E210", "explain E104", "explain training.precision", "explain cluster.device", "explain op.linear.output",
    "explain h100-sxm-80gb", "explain rtx-4090", "explain PYTORCH_CUDA_ALLOC_CONF", "explain A1",
    f"compare {FSDP} examples/llama-3.1-8b-deepspeed.toml", f"compare {FSDP} {FSDP}", f"compare {FSDP} examples/llama-3.1-8b-deepspeed.toml --batch",
    "compare llama-3.2-1b {tensors} --on 1xh100", "validate {steps} --ranking",
    "diagnose {oom}", "diagnose examples/failed/train.log", f"diagnose {{oom}} --against {FSDP}", f"diagnose {{oom}} --against {FSDP} --plan-experiment",
    "diagnose examples/failed/growing.log", "import {ds}", "import {ds} --model llama-3.1-8b --on 8xh100", "import examples/launch/axolotl.yaml",
    "import examples/small/train.sh", "import --check examples/launch examples/small",
    "export examples/llama-3.1-8b-deepspeed.toml --to deepspeed", f"export {FSDP} --to torchtitan", "export examples/llama-3-70b-megatron.toml --to megatron",
    f"export {FSDP} --to slurm", f"gate {FSDP}", f"gate {FSDP} examples/llama-3-8b-one-device.toml {{oom}}", "validate truth/records/clip-clipped.json",
    "validate truth/records/clip-clipped.json --rows", "list models", "list devices", "list machines", "list engines", "list adapters",
    "list optimizers", "list precisions", "list schedules", "list techniques", "list rules", "list keys", "list environment", "list errors",
    "rehearse --on 1xh100 -- sh -c 'cp {seen} $STEELYARD_REHEARSAL/rank-0.json'", "rehearse --on 1xh100 -- sh -c 'cp {dead} $STEELYARD_REHEARSAL/rank-0.json'",
    f"rehearse --on 1xh100 --against {FSDP} -- sh -c 'cp {{seen}} $STEELYARD_REHEARSAL/rank-0.json'",
    "wiegh", "weigh", "weigh 7b --on 8xh1000", "list nonsense",
]
# Of rehearse: what the observer wrote of a script, as the cases have it.
OBSERVED = {"seen": ("answer", "seen.json"), "dead": ("failures", "dead.json")}


def observed(case, name):
    text = (ROOT / "tests/cases/rehearse" / f"{case}.case").read_text()
    return text.split(f"--- file {name}\n")[1].split("\n--- ")[0]


OOM = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which "
       "1.20 GiB is free. Including non-PyTorch memory, this process has 77.89 GiB memory in use. Of the allocated memory 70.12 GiB "
       "is allocated by PyTorch, and 6.30 GiB is reserved by PyTorch but unallocated.\n")

# Of a checkpoint: a tensor of Llama 3.2 1B, and one that it does not have.
HEADER = json.dumps({"model.norm.weight": {"dtype": "BF16", "shape": [2048], "data_offsets": [0, 4096]},
                     "model.extra": {"dtype": "BF16", "shape": [0], "data_offsets": [4096, 4096]}}).encode()


def measured_steps():
    """Three layouts of the same work, as a user would have measured them."""
    for zero, seconds in ((0, 1.0), (2, 1.1), (3, 1.3)):
        yield {"run": {"model": "llama-3.2-1b", "engine": "deepspeed", "cluster": {"device": "h100-sxm-80gb", "devices": 8},
                       "training": {"sequence_length": 2048, "micro_batch": 1, "global_batch": 64}, "parallel": {"zero_stage": zero}},
               "step_seconds": seconds}


# Tables whose keys are data: names of files, of keys of the run file, of terms.
MAPS = {"files", "origins", "terms", "hidden", "values", "change", "coordinates", "run", "table", "document", "fallback", "beside_total",
        "layout_of", "meanings", "versions"}
# Run files and layouts of others hold whatever they hold.
ANYTHING = {"run"}
ENUMS = {
    "verdict_of_prediction": ["fits", "tight", "does_not_fit"],
    "phase": ["load", "forward", "backward", "optimizer", "checkpoint"],
    "severity": ["error", "warning"],
}
PILES = ["parameters", "gradients", "master_weights", "optimizer_moments", "activations", "temporary", "communication", "slack", "runtime"]
UNITS = {"_bytes": "bytes", "_seconds": "seconds", "_bytes_per_second": "bytes a second"}
TITLES = {
    "prediction": "weigh: what a run needs, phase by phase, and how long its step takes", "estimate": "the library's estimate: a prediction whose allocator is not simulated",
    "plan": "plan: the fastest layouts that fit", "sweep": "sweep: the same question over a range", "derivation": "explain: where a number comes from",
    "comparison": "compare: two runs beside each other", "diagnosis": "diagnose: what filled the memory", "gate": "gate: whether a job should start",
    "import": "import: a launch configuration as a run file", "export": "export: a run as files of an engine", "error": "a question that is not understood",
}


def documents_in(text):
    decoder, at, found = json.JSONDecoder(), 0, []
    while (at := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError:
            at += 1
            continue
        if isinstance(value, dict) and str(value.get("schema", "")).startswith("steelyard."):
            found.append(value)
    return found


def run_commands(binary):
    binary = os.path.abspath(binary)
    with tempfile.TemporaryDirectory() as folder:
        names = {name: str(pathlib.Path(folder, name)) for name in ("oom.txt", "ds.json", "jobs.jsonl", "steps.jsonl", "model.safetensors")}
        for name, (case, file) in OBSERVED.items():
            names[f"{name}.json"] = str(pathlib.Path(folder, f"{name}.json"))
            pathlib.Path(names[f"{name}.json"]).write_text(observed(case, file))
        pathlib.Path(names["oom.txt"]).write_text(OOM)
        pathlib.Path(names["ds.json"]).write_text('{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}')
        pathlib.Path(names["jobs.jsonl"]).write_text(
            '{"id": "a", "model": "llama-3.1-8b"}\n{"id": 7, "model": "nope"}\nnot JSON\n{"model": "llama-3.2-1b"}\n'
            '{"id": [1], "model": "llama-3-70b", "engine": "megatron", "cluster": {"devices": 64}, '
            '"parallel": {"tensor": 4, "pipeline": 8}, "training": {"global_batch": 128}}\n')
        pathlib.Path(names["model.safetensors"]).write_bytes(len(HEADER).to_bytes(8, "little") + HEADER + bytes(4096))
        pathlib.Path(names["steps.jsonl"]).write_text("".join(json.dumps(step) + "\n" for step in measured_steps()))
        for command in COMMANDS:
            words = shlex.split(command.replace("{{jobs}}", "{jobs}").format(
                oom=names["oom.txt"], ds=names["ds.json"], jobs=names["jobs.jsonl"], steps=names["steps.jsonl"], tensors=names["model.safetensors"],
                **{name: names[f"{name}.json"] for name in OBSERVED}))
            done = subprocess.run([binary, words[0], "--json", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
                                  env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"})
            for document in documents_in(done.stdout):
                yield f"steelyard {command}", document


def documents_of_cases():
    for path in sorted((ROOT / "tests/cases").rglob("*.case")):
        for block in re.finditer(r"^--- stdout\n(.*?)(?=^--- |\Z)", path.read_text(encoding="utf-8"), re.M | re.S):
            for document in documents_in(block.group(1)):
                yield str(path.relative_to(ROOT)), document


def kind_of(value):
    for kind, types in (("boolean", bool), ("integer", int), ("number", float), ("string", str), ("object", dict), ("array", list)):
        if isinstance(value, types):
            return kind
    return "null"


def inferred(samples, name="", top=False, inside=""):
    kinds = {kind_of(one) for one in samples}
    if name == "id" and inside in ("prediction", "estimate", "error"):
        return {"description": "the line's own name, as it said it"}
    if "number" in kinds:
        kinds.discard("integer")
    schema = {"type": sorted(kinds)[0] if len(kinds) == 1 else sorted(kinds)}
    for suffix, unit in UNITS.items():
        if name.endswith(suffix) and kinds <= {"integer", "number", "null"}:
            schema["description"] = unit
    words = ENUMS.get(f"{name}_of_{inside}") or ENUMS.get(name)
    if words and kinds <= {"string"} and {one for one in samples} <= set(words):
        return {"enum": words}
    tables = [one for one in samples if isinstance(one, dict)]
    lists = [item for one in samples if isinstance(one, list) for item in one]
    if lists:
        schema["items"] = inferred(lists, name.rstrip("s"), inside=inside)
    if not tables:
        return schema
    nested = {one.get("schema") for one in tables}
    if not top and len(nested) == 1 and nested != {None} and kinds == {"object"}:
        return {"$ref": nested.pop().split(".")[1].split("/")[0] + ".json"}
    if name in ANYTHING:
        return schema
    keys = list(dict.fromkeys(key for one in tables for key in one))
    if not top and (name in MAPS or any("." in key or "/" in key or " " in key for key in keys)):
        schema["additionalProperties"] = inferred([value for one in tables for value in one.values()], name.rstrip("s"), inside=inside)
        return schema
    if name == "piles" and set(keys) <= set(PILES) | {"unaccounted"}:
        keys = PILES + [key for key in keys if key not in PILES]
    if name == "rank" and {"replicas", "resident_bytes"} <= set(keys) and "estimated" not in keys:
        # Only of stages that a brief question need not play, which depends on the pipeline.
        keys.append("estimated")
        tables = [*tables, {**tables[0], "estimated": True}]
    schema["properties"] = {
        key: {"const": tables[0]["schema"]} if top and key == "schema" else inferred([one[key] for one in tables if key in one], key, inside=inside)
        for key in keys if any(key in one for one in tables)}
    required = [key for key in keys if all(key in one for one in tables)]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema


class Schemas:
    """The schemas of a folder, each with all others inside it, so that what one says of another is found without its file."""

    def __init__(self, folder):
        import jsonschema
        self.of = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(pathlib.Path(folder).glob("*.json"))}
        self.inside = {name: self.with_references(schema) for name, schema in self.of.items()}
        self.draft = jsonschema.Draft202012Validator
        for name, schema in self.of.items():
            self.draft.check_schema(schema)
            if schema["$id"] != name:
                raise ValueError(f"docs/schemas/{name} calls itself {schema['$id']}")

    def with_references(self, value):
        if isinstance(value, list):
            return [self.with_references(one) for one in value]
        if not isinstance(value, dict):
            return value
        if isinstance(value.get("$ref"), str):
            return {**value, "$ref": "#/$defs/" + value["$ref"]}
        return {key: self.with_references(one) for key, one in value.items() if key not in ("$id", "$schema")}

    def faults(self, document):
        """Why a document does not hold to its schema."""
        name = file_of(document)
        if name not in self.of:
            return [f"no docs/schemas/{name}"]
        validator = self.draft({"$ref": f"#/$defs/{name}", "$defs": self.inside})
        return [f"$.{'.'.join(str(part) for part in fault.absolute_path)}: {fault.message[:200]}" for fault in validator.iter_errors(document)]


def file_of(document):
    return document["schema"].split(".")[1].split("/")[0] + ".json"


def nested_documents(value):
    if isinstance(value, dict):
        for one in value.values():
            yield from ([one] if isinstance(one, dict) and str(one.get("schema", "")).startswith("steelyard.") else [])
            yield from nested_documents(one)
    elif isinstance(value, list):
        for one in value:
            yield from ([one] if isinstance(one, dict) and str(one.get("schema", "")).startswith("steelyard.") else [])
            yield from nested_documents(one)


def write(binary):
    samples = {}
    for _, document in [*run_commands(binary), *documents_of_cases()]:
        for one in [document, *nested_documents(document)]:
            samples.setdefault(file_of(one), []).append(one)
    # The library answers this one: what predictions may hold, of which it needs what all of them have.
    samples["estimate.json"] = [{**one, "schema": "steelyard.estimate/1"} for one in samples["prediction.json"]]
    SCHEMAS.mkdir(exist_ok=True)
    for name, documents in sorted(samples.items()):
        word = name[:-len(".json")]
        schema = {"$schema": DRAFT, "$id": name, "title": TITLES.get(word, word.replace("_", " ")),
                  **inferred(documents, top=True, inside=word)}
        (SCHEMAS / name).write_text(json.dumps(schema, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def check(binary):
    schemas = Schemas(SCHEMAS)
    seen, wrong = set(), 0
    for source, document in [*run_commands(binary), *documents_of_cases()]:
        seen.add(file_of(document))
        found = schemas.faults(document)
        wrong += bool(found)
        for fault in found[:5]:
            print(f"{source}: {fault}")
    for name in sorted(set(schemas.of) - seen - {"estimate.json"}):
        wrong += 1
        print(f"docs/schemas/{name}: no command and no case shows one")
    # A schema that lets anything pass would say nothing: a key more, a key less and another type must be faults.
    sample = next(document for _, document in run_commands_once(binary))
    for damage in ({"nonsense": 1}, {"verdict": "perhaps"}, {"peak": None}):
        if not schemas.faults({**sample, **damage}):
            wrong += 1
            print(f"prediction.json lets {damage} pass")
    print(f"{len(schemas.of)} schemas, {wrong} documents that do not hold to theirs")
    if wrong:
        print("docs/schemas.py --binary BINARY --write writes them anew; read the difference")
    return 1 if wrong else 0


def run_commands_once(binary):
    done = subprocess.run([os.path.abspath(binary), "weigh", FSDP, "--json"], cwd=ROOT, capture_output=True, text=True, check=False)
    for document in documents_in(done.stdout):
        yield FSDP, document


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--validate", type=pathlib.Path)
    chosen = parser.parse_args()
    if chosen.validate:
        schemas = Schemas(chosen.validate)
        bad = 0
        for document in documents_in(sys.stdin.read()):
            for fault in schemas.faults(document):
                bad = 1
                print(fault)
        return bad
    if chosen.write:
        write(chosen.binary)
    return check(chosen.binary) if chosen.check or not chosen.write else 0


if __name__ == "__main__":
    sys.exit(main())
