#include "cli/command.h"

namespace steelyard {

const std::vector<Command>& commands() {
  static const std::vector<Command> kCommands = {
      {"weigh",
       "RUN|MODEL [flags]",
       "does it fit, how long is a step: every pile, phase and term",
       "RUN is a run file (.toml or .json); MODEL is a preset, a config.json or its folder, or a "
       "size like 7B. "
       "Flags mirror the keys of the run file and win over it. Exit 0: fits (or tight, with a "
       "warning); 1: does not fit; 2: bad input.",
       {"steelyard weigh llama-3.1-8b --on 8xh100-sxm-80gb --engine fsdp2 --sequence-length 8192",
        "steelyard weigh examples/llama-3.1-8b --on 1xrtx-4090 --sequence-length 2048",
        "steelyard weigh examples/llama-3.1-8b-fsdp2.toml --phases",
        "steelyard weigh examples/llama-3.1-8b-fsdp2.toml --micro-batch 2 --json"},
       true,
       weigh_command},
      {"plan",
       "RUN|MODEL [flags]",
       "the fastest layouts that fit a cluster, and why the others do not",
       "Searches every layout: engine, ZeRO stage, tensor, context, pipeline and expert ranks, "
       "micro-batch and recomputation. What RUN or a flag says stays as it is said; the global "
       "batch is kept. Exit 0: something fits; 1: nothing does; 2: bad input.",
       {"steelyard plan llama-3.1-8b --on 8xh100-sxm-80gb --sequence-length 8192",
        "steelyard plan llama-3.1-8b --on 1xrtx-4090", "steelyard plan 7b --minimize devices",
        "steelyard plan llama-3.1-8b --on 16xh100-sxm-80gb --global-batch 128 --engine megatron"},
       true,
       plan_command},
      {"explain",
       "RUN|MODEL [PILE|ENTRY|PHASE] [flags]",
       "where a number comes from: formula, inputs, rule and source",
       "Also explains a rule (steelyard list rules), an error code (E210), a device, a key of the "
       "run "
       "file (training.precision), and, with a "
       "model and nothing else, what its states cost under every precision and ZeRO stage.",
       {"steelyard explain examples/llama-3.1-8b-fsdp2.toml activations", "steelyard explain 7b",
        "steelyard explain training.precision", "steelyard explain E210"},
       true,
       explain_command},
      {"sweep",
       "RUN|MODEL --over KEY=VALUES [flags]",
       "the same question over a range of values, with the curve",
       "VALUES is FROM..TO (doubling), FROM..TO:STEP or A,B,C; several --over multiply. With "
       "--largest parameters, sweeps "
       "cluster.devices and searches the largest model that fits under DDP and ZeRO 1, 2 and 3.",
       {"steelyard sweep examples/llama-3.1-8b-fsdp2.toml --over "
        "training.sequence_length=2048..131072",
        "steelyard sweep examples/llama-3.1-8b-fsdp2.toml --over "
        "recompute.mode=none,selective,full",
        "steelyard sweep 7b --on a100-sxm-80gb --sequence-length 2048 --over cluster.devices=1..64 "
        "--largest parameters"},
       true,
       sweep_command},
      {"compare",
       "A B [flags]",
       "two runs beside each other: which pile grew, what else changed",
       "A and B are run files or models; flags apply to both. B may also be a stored checkpoint "
       "(a safetensors file, its index, or their folder): its tensors are then held against the "
       "model's, one by one. Either may be a memory snapshot: its piles at its failure, or at its "
       "highest point, stand beside the run's prediction of that phase or beside another "
       "snapshot's. Exit 0: the same; 1: they differ; 2: bad input.",
       {"steelyard compare examples/llama-3.1-8b-fsdp2.toml examples/llama-3.1-8b-deepspeed.toml",
        "steelyard compare examples/llama-3.1-8b-fsdp2.toml examples/llama-3.1-8b-deepspeed.toml "
        "--batch"},
       true,
       compare_command},
      {"diagnose",
       "EVIDENCE|FOLDER... [flags]",
       "after an out-of-memory error: which pile, and what to change",
       "EVIDENCE is a memory snapshot, a log, an error text, memory statistics, a profiler trace "
       "or "
       "a flight recorder; a FOLDER is all of one run. --against RUN holds it against the "
       "prediction of a run file or launch file; one that lies in the folder is found. Nothing in "
       "a "
       "file is executed. --follow LOG reads lines as they are written and warns while there is "
       "time: "
       "growth of a step against what is left, state still to come; it ends with the pipe, on "
       "Ctrl-C, or three seconds after a failure, with the verdict. Exit 0: no failure; 1: a "
       "finding; 2: not readable. --plan-experiment --to-folder FOLDER writes the runs that decide "
       "between two causes; diagnose FOLDER reads what came of them.",
       {"steelyard diagnose oom.txt", "steelyard diagnose oom.pickle --against run.toml",
        "steelyard diagnose --follow train.log"},
       true,
       diagnose_command},
      {"rehearse",
       "[flags] -- COMMAND...",
       "your own script, unchanged, on a device on paper: exact memory",
       "Starts COMMAND (python train.py ..., torchrun, accelerate launch, deepspeed, a shell "
       "script "
       "of them) as it is, with a CUDA device under PyTorch that exists only on paper: PyTorch's "
       "own "
       "allocator, autograd and engines run, kernels do not. No GPU is needed, PyTorch's CUDA "
       "build "
       "is. It ends after --steps steps. Of several ranks one is started, and the others are "
       "answered for. Nothing is downloaded, and checkpoints are not written. Values that a device "
       "would have computed are stand-ins, each of them counted: losses are zero. Exit 0: fits; 1: "
       "does not fit; 2: the script failed by itself, or cannot be rehearsed.",
       {"steelyard rehearse --on 1xh100-sxm-80gb -- python train.py",
        "steelyard rehearse --on 8xh100-sxm-80gb --rank 0,7 -- torchrun --nproc-per-node 8 "
        "train.py",
        "steelyard rehearse --against run.toml -- accelerate launch train.py"},
       false,
       rehearse_command,
       true},
      {"import",
       "LAUNCH-FILE [flags]",
       "a launch configuration as a run file, each value with its line",
       "Reads what starts a training with Accelerate, Axolotl, DeepSpeed, DeepSpeed-Chat, "
       "GPT-NeoX, "
       "LitGPT, LLaMA-Factory, Megatron-LM, Megatron-Bridge, ms-swift, nanotron, NeMo, "
       "open-instruct, "
       "OpenRLHF, torchtitan, torchtune, transformers, TRL and verl: their files and flags, shell "
       "and sbatch "
       "scripts, Python scripts and notebooks. Nothing is executed. A trainer that is known and "
       "not "
       "weighed is refused by name. Lists what the files do not say. Every other command takes "
       "such a "
       "file in place of a run file. --check takes folders and files and prints a line for each: "
       "what "
       "it is read as, and which keys that may change memory were not read. Exit 0: imported; 1: "
       "--check found something; 2: not understood.",
       {"steelyard import job.sbatch", "steelyard import --check configs/",
        "steelyard import axolotl.yaml --on 1xrtx-4090 --write run.toml"},
       true,
       import_command},
      {"export",
       "RUN --to ENGINE [flags]",
       "a run as an engine's own files, or your own file changed",
       "ENGINE is deepspeed, accelerate, fsdp2, torchtitan, megatron, nanotron, axolotl, "
       "llama-factory, or slurm (the run's "
       "own engine under sbatch). Where RUN is a launch file of that engine, prints this file with "
       "the keys changed that the flags change: comments, order and all other values stay; --diff "
       "shows it. Otherwise prints one script that writes the configuration and launches; "
       "--to-folder writes the files "
       "apart. What the engine cannot say is an error, or listed as left out. `export ENGINE RUN` "
       "is the same.",
       {"steelyard export qlora.yml --to axolotl --sequence-length 4096 --diff",
        "steelyard export deepspeed examples/llama-3.1-8b-deepspeed.toml",
        "steelyard export slurm examples/llama-3-70b-megatron.toml > job.sbatch"},
       true,
       export_command},
      {"gate",
       "LAUNCH-FILE|RUN... [flags]",
       "one line and an exit status, for schedulers and CI",
       "Weighs what a job would launch: exit 0 lets it through, 1 refuses it, 2 is not understood. "
       "--policy FILE says what is "
       "refused and which device a partition has; --slurm-plugin prints a job_submit.lua that asks "
       "this command.",
       {"steelyard gate job.sbatch --on h100-sxm-80gb",
        "steelyard gate jobs/*.sbatch --policy gate.toml",
        "steelyard gate jobs/*.sbatch --on h100-sxm-80gb --format github",
        "steelyard gate --slurm-plugin > /etc/slurm/job_submit.lua"},
       true,
       gate_command},
      {"validate",
       "FILES|FOLDERS [flags]",
       "predictions held to measured runs: how far off, and where",
       "Reads recorded runs (*.json, schema steelyard.record/1; truth/records of the source tree) "
       "and your own measured runs (*.jsonl), a line each: {\"run\": {a run file as JSON}, "
       "\"step_seconds\": 1.25, \"peak_allocated_bytes\": 61234567890, \"peak_reserved_bytes\": "
       "64424509440, \"device_bytes\": 65498251264, \"out_of_memory\": false}, of which what was "
       "not measured is left out. A folder means all of both, - is lines on stdin. Prints the "
       "error "
       "of what was allocated, reserved and on the device and of the step, what was said of runs "
       "that died and ran, why lines were not weighed, and the worst. Exit 0: validated, however "
       "far off; 2: bad input.",
       {"steelyard validate truth/records", "steelyard validate runs.jsonl --worst 5",
        "steelyard validate runs.jsonl --rows"},
       false,
       validate_command},
      {"calibrate",
       "FILE [flags]",
       "the cost model's constants from your own measured steps",
       "FILE holds a line for each: {\"run\": {a run file as JSON}, \"step_seconds\": 1.25}, two "
       "or "
       "more, of one kind of device. Only constants that mean something move (products, attention, "
       "memory, links, host), and only where a step predicted from the others gets better by it. "
       "weigh, plan, sweep and compare read what --output writes, by --calibrated.",
       {"steelyard calibrate steps.jsonl --output rates.json"},
       false,
       calibrate_command},
      {"list",
       "models|devices|engines|optimizers|precisions|schedules|rules|keys|errors",
       "what is known, with sources",
       "Everything that a run file may name.",
       {"steelyard list models", "steelyard list devices --json"},
       false,
       list_command},
      {"page",
       "[flags]",
       "the same in a browser: sliders, charts, files dropped on it",
       "Serves the page to this machine alone and opens it. Nothing is uploaded: the page computes "
       "in its own tab, also without a network.",
       {"steelyard page", "steelyard page --no-open --port 8080"},
       false,
       page_command},
      {"completion",
       "bash|zsh|fish",
       "a completion script for the shell",
       "Prints a script to be sourced by the shell; it completes commands, flags, models and "
       "devices.",
       {"steelyard completion bash"},
       false,
       completion_command},
      {"help",
       "[COMMAND]",
       "everything about a command",
       "The same as COMMAND --help.",
       {"steelyard help weigh"},
       false,
       help_command},
  };
  return kCommands;
}

const Command* find_command(std::string_view name) {
  for (const Command& command : commands())
    if (command.name == name) return &command;
  return nullptr;
}

}  // namespace steelyard
