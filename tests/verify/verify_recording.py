#!/usr/bin/env python3
"""steelyard.record, guard and the callbacks around real PyTorch on the device of paper (truth/recorder): make verify-record

A Llama of 117 million parameters is trained. What is written must be read by diagnose and compare: the recorded peak stands beside the
predicted one, and a device that is too small ends each loop with PyTorch's own exception and its evidence.
"""

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GIB, MIB = 2**30, 2**20
MODEL = {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 4, "num_attention_heads": 16,
         "num_key_value_heads": 16, "vocab_size": 32000, "max_position_embeddings": 4096, "tie_word_embeddings": False}
SEQUENCE = 2048
RUN = {"model": MODEL, "engine": "ddp", "cluster": {"device": "h200-sxm", "devices": 1},
       "training": {"sequence_length": SEQUENCE, "micro_batch": 1, "global_batch": 1, "precision": "bf16-pure", "optimizer": "adamw",
                    "optimizer_form": "foreach", "attention": "flash", "gradient_clip": 0}}
# As a user's run dies: the weights, gradients and states fit, a batch of 16 sequences does not.
SMALL = 4 * GIB
faults = []


def expect(good, what):
    print(("ok      " if good else "FAULT   ") + what, flush=True)
    if not good:
        faults.append(what)


def device(capacity=None):
    """Before the first import of torch."""
    sys.path.insert(0, str(ROOT / "truth"))
    from recorder import paper
    paper.load(device_bytes=capacity)
    import torch
    torch.backends.cuda.enable_cudnn_sdp(False)  # there is no cuDNN on paper: flash attention, as the run says
    return torch


def model_of(torch):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(**{key: value for key, value in MODEL.items() if key != "model_type"}, attn_implementation="sdpa", use_cache=False)
    with torch.device("cuda"):
        return LlamaForCausalLM(config).to(torch.bfloat16)


def steps(torch, count, batch, after=lambda: None):
    model = model_of(torch)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for _ in range(count):
        tokens = torch.zeros(batch, SEQUENCE, dtype=torch.long, device="cuda")
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        after()


def told_as(folder, sy, against=None):
    found = sy.diagnose(folder, against=against)
    return found.verdict, str(found)


def recorded(folder):
    torch = device()
    import steelyard as sy
    run = sy.Run(RUN)
    with sy.record(folder) as recording:
        steps(torch, 3, 1, recording.step)
    expect(len(recording.step_seconds) == 2 and not recording.out_of_memory, "record: two steps are timed, nothing failed")
    expect(sorted(os.listdir(folder)) == ["memory-rank0.txt", "snapshot-rank0.pickle"], "record: a snapshot and the allocator's statistics")
    with open(recording.snapshot, "rb") as file:
        held = pickle.load(file)
    expect(len(held["device_traces"][0]) > 1000, f"record: PyTorch's own snapshot with {len(held['device_traces'][0]):,} events")
    compared = recording.compare(run).to_dict()
    predicted, measured = compared["before"]["alive_bytes"], compared["after"]["alive_bytes"]
    expect(abs(predicted - measured) <= 0.0005 * measured,
           f"record: compare reads {measured:,} bytes alive at the highest point, {predicted:,} predicted, in {len(compared['piles'])} piles")
    # The allocator counts a block whole where it does not split it: up to 1 MiB more for each large one.
    expect(measured <= recording.peak_allocated <= measured * 1.02, f"record: max_memory_allocated says {recording.peak_allocated:,}")
    verdict, _ = told_as(folder, sy)
    expect(verdict == "healthy", f"record: of a run that did not fail diagnose says {verdict}")


def guarded(folder):
    torch = device(SMALL)
    import steelyard as sy
    run = sy.Run(RUN).replace(micro_batch=16, global_batch=16)
    caught = None
    try:
        with sy.guard(folder, against=run) as recording:
            steps(torch, 3, 16)
    except torch.OutOfMemoryError as error:
        caught = error
    expect(caught is not None, "guard: PyTorch's own exception passes through")
    if caught is None:
        return
    expect(recording.out_of_memory and recording.peak_allocated > GIB, f"guard: {recording.peak_allocated:,} bytes were allocated")
    expect(sorted(os.listdir(folder)) == ["diagnosis-rank0.txt", "error-rank0.txt", "memory-rank0.txt", "snapshot-rank0.pickle"],
           "guard: snapshot, statistics, error and diagnosis are written")
    text = Path(folder, "diagnosis-rank0.txt").read_text()
    print("        " + text.replace("\n", "\n        "))
    expect("not diagnosed" not in text, "guard: the evidence is diagnosed")
    notes = getattr(caught, "__notes__", [])
    expect(sys.version_info < (3, 11) or (len(notes) == 1 and text.strip() in notes[0]), "guard: the exception carries the diagnosis")
    verdict, _ = told_as(folder, sy, run)
    expect(verdict == "activations", f"guard: diagnose says {verdict}")
    before = len(torch.cuda.memory._snapshot()["device_traces"][0])
    torch.empty(MIB, device="cuda")
    expect(len(torch.cuda.memory._snapshot()["device_traces"][0]) <= before, "guard: nothing is recorded after it")


def of_trainer(folder):
    torch = device(SMALL)
    import steelyard as sy
    from steelyard import callbacks
    from transformers import Trainer, TrainingArguments
    watch = callbacks.for_trainer(folder)
    rows = [{"input_ids": [0] * SEQUENCE, "labels": [0] * SEQUENCE}] * 64

    def train(batch):
        arguments = TrainingArguments(output_dir=folder + "-output", per_device_train_batch_size=batch, max_steps=3, report_to=[], bf16=False,
                                      save_strategy="no", disable_tqdm=True, dataloader_pin_memory=False, optim="adamw_torch",
                                      gradient_checkpointing=False, max_grad_norm=0.0)
        Trainer(model=model_of(torch), args=arguments, train_dataset=rows, callbacks=[watch]).train()

    train(1)
    expect(not os.path.isdir(folder) or os.listdir(folder) == [], "Trainer: a run that does not fail leaves nothing")
    expect(len(watch.recording.step_seconds) == 2, "Trainer: its steps are timed")
    torch.cuda.empty_cache()
    failed = False
    try:
        train(16)
    except torch.OutOfMemoryError:
        failed = True
    expect(failed, "Trainer: PyTorch's own exception passes through")
    expect(sorted(os.listdir(folder)) == ["error-rank0.txt", "memory-rank0.txt", "snapshot-rank0.pickle"],
           "Trainer: memory runs out, snapshot, statistics and sizes are written")
    verdict, text = told_as(folder, sy, sy.Run(RUN).replace(micro_batch=16, global_batch=16))
    expect(verdict == "activations", f"Trainer: diagnose says {verdict}")


def of_lightning(folder):
    torch = device(SMALL)
    import steelyard as sy
    from steelyard import callbacks
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model_of(torch)

        def training_step(self, batch, _):
            return self.model(input_ids=batch, labels=batch).loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), foreach=True)

    def train(batch):
        rows = torch.utils.data.DataLoader(torch.zeros(64, SEQUENCE, dtype=torch.long), batch_size=batch)
        lightning.Trainer(max_steps=3, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                          enable_model_summary=False, callbacks=[watch], default_root_dir=folder + "-output").fit(Module(), rows)

    watch = callbacks.for_lightning(folder)
    train(1)
    expect(len(watch.recording.step_seconds) == 2, "Lightning: its steps are timed")
    failed = False
    try:
        train(16)
    except torch.OutOfMemoryError:
        failed = True
    expect(failed, "Lightning: PyTorch's own exception passes through")
    expect("snapshot-rank0.pickle" in os.listdir(folder) and "error-rank0.txt" in os.listdir(folder),
           "Lightning: memory runs out, snapshot and sizes are written")
    verdict, _ = told_as(folder, sy)
    expect(verdict == "activations", f"Lightning: diagnose says {verdict}")


SCENES = {"record": recorded, "guard": guarded, "trainer": of_trainer, "lightning": of_lightning}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SCENES, help="one of them; each is a process of its own, since each has a device of its own size")
    chosen = parser.parse_args()
    if chosen.only:
        with tempfile.TemporaryDirectory() as folder:
            SCENES[chosen.only](os.path.join(folder, "evidence"))
        sys.stdout.flush()
        os._exit(1 if faults else 0)
    failed = [name for name in SCENES if subprocess.run([sys.executable, __file__, "--only", name], check=False, timeout=900).returncode != 0]
    print(f"{len(SCENES) - len(failed)} of {len(SCENES)} without fault" + "".join(f"; {name} failed" for name in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
