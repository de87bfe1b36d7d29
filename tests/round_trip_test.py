#!/usr/bin/env python3
"""What `export` writes is read again as the same run, or says what it left out.

round_trip_test.py STEELYARD [--random-jobs BINARY] [--count 300] [--first-seed 1] [--table]

Random runs of every target, from their seeds: written with `export`, read with `weigh --json`. The bytes, the step's
seconds and the verdict are those of the run itself, or stderr has a line `left out: KEY ...`. With --random-jobs the runs
of tests/exhaustive join. --table counts what was left out, target by target.
"""

import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile

TARGETS = ["deepspeed", "accelerate", "fsdp2", "torchtitan", "megatron", "nanotron", "axolotl", "llama-factory"]
ENGINES = {
    "deepspeed": ["deepspeed"], "accelerate": ["fsdp2", "fsdp1", "ddp", "deepspeed"], "fsdp2": ["fsdp2"],
    "torchtitan": ["fsdp2", "ddp"], "megatron": ["megatron"], "nanotron": ["nanotron"],
    "axolotl": ["fsdp2", "ddp", "deepspeed", "fsdp1"], "llama-factory": ["fsdp2", "ddp", "deepspeed", "fsdp1"],
}
CODE = {"torchtitan": "torchtitan", "megatron": "megatron", "nanotron": "nanotron"}
MODELS = ["llama-3.1-8b", "llama-3.2-1b", "qwen3-8b", "qwen3-0.6b", "qwen2.5-7b", "mixtral-8x7b", "qwen3-30b-a3b",
          "gpt2", "llama-2-7b"]
OF_TORCHTITAN = ["llama-3.1-8b", "llama-3.1-70b", "qwen3-8b", "qwen3-0.6b", "llama-3.1-405b"]
OF_NANOTRON = ["llama-3.1-8b", "llama-3.2-1b", "qwen2.5-7b", "llama-2-7b"]


def tables(chance):
    """Sizes that no checkpoint has; None: a preset is taken."""
    if chance.random() < 0.6:
        return None
    heads = chance.choice([8, 12, 16, 32])
    family = chance.choice(["llama", "llama", "mistral", "qwen2", "qwen3", "mixtral", "gpt2"])
    width = heads * chance.choice([64, 128])
    if family == "gpt2":
        return {"model_type": "gpt2", "vocab_size": 50257, "n_positions": 2048, "n_embd": width, "n_layer": 4,
                "n_head": heads}
    table = {"model_type": family, "hidden_size": width, "num_hidden_layers": chance.choice([2, 4, 8]),
             "num_attention_heads": heads, "intermediate_size": 3 * width, "vocab_size": 32000,
             "max_position_embeddings": 8192}
    if chance.random() < 0.7:
        table["num_key_value_heads"] = chance.choice([heads, heads // 2, heads // 4])
    if chance.random() < 0.5:
        table["tie_word_embeddings"] = chance.random() < 0.5
    if chance.random() < 0.2 and family in ("llama", "qwen3", "mistral"):
        table["head_dim"] = 128
    if family == "llama" and chance.random() < 0.2:
        table["attention_bias"] = True
    if family == "mixtral":
        table.update(num_local_experts=8, num_experts_per_tok=2)
    return table


def composed(chance):
    """Layers as Megatron-LM composes them, which no other code has."""
    heads = chance.choice([8, 16])
    gated = chance.random() < 0.5
    table = {"model_type": "megatron_gpt", "hidden_size": heads * 64, "num_hidden_layers": 8,
             "num_attention_heads": heads, "num_key_value_heads": chance.choice([heads, heads // 4]),
             "intermediate_size": heads * 192, "vocab_size": 32000, "max_position_embeddings": 8192,
             "normalization": chance.choice(["LayerNorm", "LayerNorm1P", "RMSNorm"]),
             "position_embedding_type": chance.choice(["rope", "learned_absolute", "none"]),
             "gated_linear_unit": gated, "hidden_act": chance.choice(
                 ["silu", "quick_gelu"] if gated else ["gelu_pytorch_tanh", "relu2"]),
             "add_bias_linear": chance.random() < 0.5, "qk_layernorm": True,
             "tie_word_embeddings": chance.random() < 0.5}
    if not table["add_bias_linear"]:
        table["add_qkv_bias"] = True
    if chance.random() < 0.5:
        table.update(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=heads * 32,
                     mlp_only_layers=chance.choice([[0], [0, 1, 5]]), scoring_func="sigmoid",
                     shared_expert_intermediate_size=512, router_in_float32=True)
    return table


def parallel_of(chance, target, engine, run):
    devices = run["cluster"]["devices"]
    parallel = {}
    if engine == "deepspeed":
        parallel["zero_stage"] = chance.choice([1, 2, 3, 3])
    elif engine in ("fsdp1", "fsdp2"):
        parallel["zero_stage"] = chance.choice([2, 3, 3])
        if engine == "fsdp2" and devices > 8 and chance.random() < 0.3:
            parallel["replicate"] = 2
    elif engine in ("megatron", "nanotron"):
        parallel["zero_stage"] = chance.choice([0, 1])
    left = devices
    for key, odds in (("tensor", 0.4), ("pipeline", 0.3), ("context", 0.3)):
        able = engine == "megatron" or (engine == "nanotron" and key != "context") or (
            engine == "fsdp2" and (key != "pipeline" or target == "torchtitan")) or (
            engine == "deepspeed" and key == "context")
        if able and left > 1 and chance.random() < odds:
            degree = chance.choice([d for d in (2, 4) if left % d == 0] or [1])
            if degree > 1:
                parallel[key] = degree
                left //= degree
    parallel["data"] = left
    if parallel.get("replicate") and left % 2:
        del parallel["replicate"]
    if parallel.get("context") and engine == "megatron" and chance.random() < 0.5:
        parallel["context_method"] = chance.choice(["ring", "allgather", "ulysses"])
    if parallel.get("context") and engine == "fsdp2" and chance.random() < 0.5:
        parallel["context_method"] = chance.choice(["allgather", "ring", "all-to-all"])
    if chance.random() < 0.3 and parallel.get("tensor") and engine in ("megatron", "nanotron"):
        parallel["sequence_parallel"] = chance.random() < 0.7
    if engine in ("fsdp1", "fsdp2") and chance.random() < 0.2:
        parallel["sync_each_micro_batch"] = chance.random() < 0.5
    return parallel


PRECISIONS = {"ddp": ["bf16-autocast", "bf16-pure", "fp32", "fp16-autocast"],
              "fsdp1": ["bf16-mixed", "bf16-pure", "fp32", "fp16-mixed"],
              "fsdp2": ["bf16-mixed", "bf16-mixed", "bf16-pure", "fp32"],
              "deepspeed": ["bf16-mixed", "bf16-mixed-fp32-gradients", "fp16-mixed", "fp32"],
              "megatron": ["bf16-mixed-fp32-gradients", "bf16-mixed", "fp16-mixed", "fp32", "fp8-delayed"],
              "nanotron": ["bf16-mixed-fp32-gradients", "bf16-pure", "fp32"]}


def training_of(chance, target, engine, parallel):
    """What trains: types, optimizer, kernels, loss, as far as the engine has them."""
    training = {"sequence_length": chance.choice([512, 1024, 2048]), "micro_batch": chance.choice([1, 1, 2, 4]),
                "gradient_accumulation": chance.choice([1, 1, 2, 8]), "precision": chance.choice(PRECISIONS[engine]),
                "gradient_clip": chance.choice([True, False, 1.0, 0.5])}
    transformers = target not in CODE

    def maybe(odds, key, words):
        if chance.random() < odds:
            training[key] = chance.choice(words)
    own = {"megatron": ["adamw", "adamw", "adam", "momentum"], "nanotron": ["adamw", "sgd"],
           "torchtitan": ["adamw", "adam"], "fsdp2": ["adamw", "adam", "sgd"]}
    maybe(0.5, "optimizer", own.get(target, ["adamw", "adamw", "adam", "sgd", "adamw-8bit", "adafactor", "lion", "muon"]))
    if training.get("optimizer", "adamw") in ("adamw", "adam") and engine != "megatron":
        maybe(0.3, "optimizer_form", ["fused", "foreach", "loop"])
    narrow = training["precision"] != "fp32"
    if parallel.get("context"):
        maybe(0.5, "attention", ["flash"] if narrow else ["efficient"])
    else:
        maybe(0.5, "attention", ["flash", "efficient", "eager"] if narrow else ["efficient", "eager"])
    if transformers:
        maybe(0.2, "compile", [True, False])
        maybe(0.15, "kernels", ["own", "liger"])
        if not parallel.get("tensor"):
            maybe(0.2, "loss", ["plain", "fused-linear", "fused-linear", "chunked"])
    if target == "torchtitan":
        maybe(0.2, "compile", [True, False])
    maybe(0.2, "dropout", [0.0, 0.1])
    if engine == "megatron":
        maybe(0.1, "vocabulary_multiple", [64, 128])
    if transformers:
        maybe(0.2, "method", ["sft", "pretrain"])
    return training


def adapter_of(chance, run):
    adapter = {"method": chance.choice(["lora", "lora", "dora"]), "rank": chance.choice([8, 64])}
    half = run["training"]["precision"].startswith("bf16")
    for key, words in (("alpha", [16, 32]), ("dropout", [0.0, 0.05]), ("base", ["nf4", "int8"]),
                       ("target_modules", ["all-linear", ["q_proj", "v_proj"]])):
        if chance.random() < 0.5 and (key != "base" or half):
            adapter[key] = chance.choice(words)
    if adapter.get("base") == "nf4" and chance.random() < 0.5:
        adapter["double_quantization"] = chance.random() < 0.5
    return adapter


def recompute_of(chance, target):
    modes = {"megatron": ["none", "full", "selective", "every", "block"], "nanotron": ["none", "full"],
             "torchtitan": ["none", "full", "every"], "fsdp2": ["none", "full", "every"]}
    recompute = {"mode": chance.choice(modes.get(target, ["none", "full", "full"]))}
    if recompute["mode"] == "every":
        recompute["every"] = chance.choice([1, 2, 3])
    if recompute["mode"] == "block":
        recompute["layers"] = chance.choice([1, 2])
    if chance.random() < 0.2 and recompute["mode"] == "full" and target not in CODE:
        recompute["reentrant"] = chance.random() < 0.5
    return recompute


def random_run(seed):
    """A target and a run that its engine can run, more often than not."""
    chance = random.Random(seed)
    target = chance.choice(TARGETS)
    engine = chance.choice(ENGINES[target])
    names = OF_TORCHTITAN if target == "torchtitan" else OF_NANOTRON if target == "nanotron" else MODELS
    table = None if target in ("torchtitan", "nanotron") else tables(chance)
    if target == "megatron" and chance.random() < 0.3:
        table = composed(chance)
    run = {"model": table or chance.choice(names), "engine": engine,
           "implementation": CODE.get(target, "transformers")}
    devices = chance.choice([1, 2, 4, 8, 16, 32]) if engine == "ddp" else chance.choice([2, 4, 8, 16, 32])
    run["cluster"] = {"device": chance.choice(["h100-sxm-80gb", "a100-sxm-80gb", "l40s", "rtx-4090"]),
                      "devices": devices}
    parallel = run["parallel"] = parallel_of(chance, target, engine, run)
    training = run["training"] = training_of(chance, target, engine, parallel)
    run["recompute"] = recompute_of(chance, target)
    if chance.random() < 0.25 and target in ("accelerate", "axolotl", "llama-factory", "deepspeed") and not (
            parallel.get("tensor") or parallel.get("context")):
        run["adapter"] = adapter_of(chance, run)
    if chance.random() < 0.2 and engine in ("fsdp1", "fsdp2", "deepspeed"):
        run["offload"] = {"optimizer": "cpu"}
        if engine != "deepspeed" or (parallel["zero_stage"] == 3 and chance.random() < 0.5):
            run["offload"]["parameters"] = "cpu"
        if engine == "deepspeed" and not parallel["zero_stage"]:
            del run["offload"]
    if chance.random() < 0.2:
        run["checkpoint"] = {"save": chance.choice(["sharded", "full-rank0"])}
    if chance.random() < 0.2 and engine == "fsdp2":
        run["wrap"] = {"ends": chance.choice(["root", "apart"])}
    if chance.random() < 0.2:
        run["environment"] = chance.choice([
            {"torch": "2.6"}, {"transformers": "4.44"}, {"TORCH_NCCL_AVOID_RECORD_STREAMS": "1"},
            {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, {"liger-kernel": "0.6.0", "torch": "2.7"}])
    if chance.random() < 0.1:
        run["overlap"] = {"reduce": chance.random() < 0.5}
    if chance.random() < 0.1 and devices > 8:
        run["cluster"]["network"] = "50GB/s"
    return target, run


def target_of(job, chance):
    """The targets whose engine a job of tests/exhaustive has."""
    own = [target for target in TARGETS if job["engine"] in ENGINES[target]
           and CODE.get(target, "transformers") == job.get("implementation", CODE.get(target, "transformers"))]
    return chance.choice(own) if own else None


def result_of(answer):
    ranks = [(rank["rank"], rank["allocated_bytes"], rank["reserved_bytes"], rank["device_bytes"]) for rank in answer["ranks"]]
    time = answer.get("time") or {}
    return {"verdict": answer["verdict"], "peak": answer["peak"]["device_bytes"], "ranks": ranks,
            "step": time.get("step_seconds")}


class Round:
    def __init__(self, steelyard, folder):
        self.steelyard = steelyard
        self.folder = pathlib.Path(folder)

    def ask(self, *words, text=None):
        return subprocess.run([self.steelyard, *words], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              cwd=self.folder, text=True, check=False)

    def weighed(self, name):
        done = self.ask("weigh", name, "--json")
        if done.returncode not in (0, 1):
            return None, done.stdout
        return result_of(json.loads(done.stdout)), ""

    def with_taken(self, run, remarks):
        """The run with what its target was said to take where it says nothing."""
        run = json.loads(json.dumps(run))
        for line in remarks.splitlines():
            if not line.startswith("taken: "):
                continue
            key, word = line[len("taken: "):].split(", which is")[0].split(" = ", 1)
            table = run
            *sections, name = key.split(".")
            for section in sections:
                table = table.setdefault(section, {})
            table[name] = json.loads(word)
        return run

    def fault(self, target, run):
        """(what happened, keys left out, what is wrong): "written", "refused" or "not weighed"."""
        if isinstance(run["model"], dict) and target not in ("megatron", "nanotron", "torchtitan"):
            (self.folder / "sizes").mkdir(exist_ok=True)
            (self.folder / "sizes" / "config.json").write_text(json.dumps(run["model"]))
            run = dict(run, model="./sizes")
        (self.folder / "run.json").write_text(json.dumps(run))
        before, _ = self.weighed("run.json")
        if before is None:
            return "not weighed", [], None
        done = self.ask("export", target, "run.json")
        if done.returncode == 2:
            return "refused", [], None if "error[" in done.stderr else "refused without a word"
        if done.returncode != 0:
            return "refused", [], f"exit {done.returncode}"
        left_out = [line[len("left out: "):]
                    for line in done.stderr.splitlines() if line.startswith("left out: ")]
        if "taken: " in done.stderr:
            (self.folder / "run.json").write_text(json.dumps(self.with_taken(run, done.stderr)))
            before, _ = self.weighed("run.json")
        (self.folder / "exported.sh").write_text(done.stdout)
        after, why = self.weighed("exported.sh")
        if after is None:
            return "written", left_out, None if left_out else f"cannot be read again: {why[:500]}"
        if after != before and not left_out:
            return "written", left_out, f"{before}\n  is read again as\n  {after}"
        return "written", left_out, None


def runs_of(arguments):
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.count):
        yield seed, *random_run(seed)
    if not arguments.random_jobs:
        return
    command = [arguments.random_jobs, "valid", str(arguments.count), str(arguments.first_seed)]
    lines = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    for seed, line in enumerate(lines, arguments.first_seed):
        job = json.loads(line)
        target = target_of(job, random.Random(seed))
        if target:
            yield f"random job {seed}", target, job


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("steelyard")
    parser.add_argument("--random-jobs")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    arguments.steelyard = str(pathlib.Path(arguments.steelyard).resolve())
    ends = collections.Counter()
    lost = collections.Counter()
    samples = {}
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        rounds = Round(arguments.steelyard, folder)
        for seed, target, run in runs_of(arguments):
            end, left_out, fault = rounds.fault(target, run)
            ends[target, end] += 1
            for key in left_out:
                lost[target, key] += 1
                samples.setdefault((target, key), seed)
            if fault:
                wrong += 1
                if wrong <= 10:
                    print(f"seed {seed}, {target}: {fault}\n  {json.dumps(run)}")
    if arguments.table:
        for (target, key), count in sorted(lost.items()):
            print(f"{target:14} {key:40} {count:6}  {samples[target, key]}")
    for target in TARGETS:
        print(f"{target:14}" + "".join(f"  {ends[target, end]:5} {end}" for end in ("written", "refused", "not weighed")))
    written = sum(count for (_, end), count in ends.items() if end == "written")
    print(f"{written} runs written and read again, {wrong} differ in silence")
    # A generator that makes nothing to compare would pass for ever.
    return 1 if wrong or any(ends[target, "written"] == 0 for target in TARGETS) else 0


if __name__ == "__main__":
    sys.exit(main())
