// From a run file to what an engine accepts: its configuration, and the script that launches it.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "document/quoting.h"
#include "formats/launch/arguments.h"
#include "formats/launch/carried_export.h"
#include "formats/launch/config_text.h"
#include "formats/launch/formats.h"
#include "formats/launch/fsdp2_python.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/launch.h"
#include "formats/launch/writable.h"
#include "job/keys.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 8> kTargets = {"deepspeed",  "accelerate",   "fsdp2",
                                                      "torchtitan", "megatron",     "nanotron",
                                                      "axolotl",    "llama-factory"};

std::int64_t at_least_one(std::int64_t count) { return std::max<std::int64_t>(1, count); }

struct Places {
  std::int64_t devices = 1, per_node = 1, nodes = 1;
  std::string device;
};

Places places_of(ConfigWriter& writing) {
  Places places;
  places.devices = at_least_one(writing.count("cluster.devices", 1));
  places.per_node = at_least_one(
      writing.count("cluster.devices_per_node", std::min<std::int64_t>(8, places.devices)));
  if (places.per_node > places.devices) places.per_node = places.devices;
  places.nodes = at_least_one((places.devices + places.per_node - 1) / places.per_node);
  places.device = writing.word("cluster.device");
  for (const char* key : {"launch.nodes", "launch.launcher", "launch.script", "launch.partition",
                          "launch.time", "launch.tasks_per_node"})
    writing.take(key);
  return places;
}

std::string torchrun_words(const Places& places, bool slurm) {
  if (places.nodes == 1 && !slurm)
    return fmt::format("torchrun --standalone --nproc-per-node {}", places.devices);
  if (places.nodes == 1)
    return fmt::format("srun torchrun --standalone --nnodes $SLURM_NNODES --nproc-per-node {}",
                       places.per_node);
  if (slurm)
    return fmt::format(
        "srun torchrun --nnodes $SLURM_NNODES --nproc-per-node {} --rdzv-backend c10d \\\n  "
        "--rdzv-endpoint \"$HEAD:29500\"",
        places.per_node);
  return fmt::format(
      "torchrun --nnodes {} --nproc-per-node {} --rdzv-backend c10d \\\n  --rdzv-endpoint "
      "\"${{HEAD:?the first machine}}:29500\"",
      places.nodes, places.per_node);
}

// Words of flags, a few a line.
std::string flag_lines(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " \\\n  " + word;
  return text;
}

// What Megatron writes: an array, with a comment a flag.
std::string array_lines(const Value& flags, const Comments& comments) {
  std::string text = "ARGUMENTS=(\n";
  for (const Value::Member& member : flags.members()) {
    Value one = Value::table();
    one.members().push_back(member);
    for (std::string line : argument_words(one, true)) {
      const auto found = comments.find(member.key);
      if (found != comments.end() && line.find('#') == std::string::npos)
        line += "  # " + comment_text(found->second);
      text += "  " + line + "\n";
    }
  }
  return text + ")\n";
}

std::string remark_line(const std::string& key, const Value& value) {
  std::string text;
  if (value.is_array()) {
    text = "[";
    for (const Value& item : value.items())
      text += (text.size() > 1 ? ", " : "") +
              (item.is_string() ? toml_string(item.as_string()) : word_of(item));
    text += "]";
  } else {
    text = value.is_string() ? toml_string(value.as_string()) : word_of(value);
  }
  const std::size_t dot = key.find('.');
  const std::string name = dot == std::string::npos
                               ? toml_key(key)
                               : toml_key(key.substr(0, dot)) + "." + toml_key(key.substr(dot + 1));
  return fmt::format("# steelyard: {} = {}\n", name, text);
}

// The pieces of one target, before they become a script.
struct Pieces {
  std::vector<ExportedFile> files;
  std::string before;  // lines ahead of the command
  std::string command;
  std::string remarks;  // what no file of the target says
};

void take_environment(ConfigWriter& writing, Pieces& pieces) {
  const Value* environment = writing.run().find("environment");
  if (environment == nullptr || !environment->is_table()) return;
  for (const Value::Member& member : environment->members()) {
    writing.take("environment." + member.key);
    if (is_package(member.key)) {
      // A version of what is installed: no launch file chooses it.
      pieces.remarks += remark_line("environment." + member.key, member.value);
    } else if (chooses_programs(member.key)) {
      writing.lose("environment." + member.key, "it decides which programs run: set it by hand");
    } else {
      pieces.before += fmt::format("export {}={}\n", member.key, shell_word(word_of(member.value)));
    }
  }
}

// DeepSpeed's file alone divides no sequence: Trainer's Accelerator registers Ulysses' attention with what these say
// (accelerate 1.12, parallelism_config.py; deepspeed 0.18.2, runtime/sequence_parallel/ulysses_sp.py).
std::string ulysses_lines(const ConfigWriter& writing) {
  const std::int64_t context = writing.look_count("parallel.context", 1);
  if (context <= 1) return "";
  return fmt::format(
      "export ACCELERATE_USE_PARALLELISM_CONFIG=true PARALLELISM_CONFIG_SP_BACKEND=deepspeed\n"
      "export PARALLELISM_CONFIG_SP_SIZE={} PARALLELISM_CONFIG_SP_ATTN_IMPLEMENTATION={}\n",
      context, writing.look_word("training.attention") == "flash" ? "flash_attention_2" : "sdpa");
}

void merge(ConfigWriter& into, ConfigWriter& from) {
  into.brought.insert(from.brought.begin(), from.brought.end());
  into.losses.insert(into.losses.end(), from.losses.begin(), from.losses.end());
  into.problems.insert(into.problems.end(), from.problems.begin(), from.problems.end());
}

// Beside a configuration that names it.
void add_deepspeed_file(ConfigWriter& writing, Pieces& pieces) {
  ConfigWriter inner(writing.run(), "deepspeed");
  write_deepspeed(inner);
  inner.bring_carried();
  merge(writing, inner);
  for (const std::string& key : inner.expressed()) writing.take(key);
  pieces.files.push_back({"ds_config.json", json_text(inner.theirs)});
}

}  // namespace

std::span<const std::string_view> export_targets() { return kTargets; }

std::string_view target_of(const Value& run) {
  const Value* engine = run.find("engine");
  const std::string name = engine == nullptr ? "ddp" : word_of(*engine);
  const Value* code = run.find("implementation");
  if (name == "megatron" || name == "nanotron" || name == "deepspeed")
    return *std::find(kTargets.begin(), kTargets.end(), name);
  if (code != nullptr && word_of(*code) == "torchtitan") return "torchtitan";
  return "accelerate";
}

std::string words_of(const ConfigWriter::Loss& loss) {
  return comment_text(fmt::format("{}{}{}: {}", loss.key, loss.value.empty() ? "" : " = ",
                                  loss.value, loss.reason));
}

std::vector<std::string_view> divisions_without_words(std::string_view target) {
  if (target == "fsdp2" || target == "llama-factory")
    return {"parallel.tensor", "parallel.context", "parallel.pipeline"};
  if (target == "accelerate" || target == "axolotl" || target == "deepspeed")
    return {"parallel.pipeline"};
  return {};
}

Value completed(const Value& run, const Job& job) {
  Value whole = run;
  for (const Assumption& assumption : job.assumptions) {
    const Key* key = find_key_by_path(assumption.key);
    if (key == nullptr || whole.at(key->path) != nullptr) continue;
    Value value = typed_value(assumption.value);
    switch (key->kind) {
      case KeyKind::kCount:
      case KeyKind::kSequence:
      case KeyKind::kBytes:
        if (!value.is_integer()) continue;
        break;
      case KeyKind::kSwitch:
        if (!value.is_bool()) continue;
        break;
      case KeyKind::kFraction:
      case KeyKind::kNumber:
        if (!value.is_number()) continue;
        break;
      case KeyKind::kClip:
        if (!value.is_bool() && !value.is_number()) continue;
        break;
      case KeyKind::kName:
        if (std::find(key->names.begin(), key->names.end(), assumption.value) == key->names.end())
          continue;
        value = Value::string(assumption.value);
        break;
      case KeyKind::kTexts:  // "all-linear"; a list is not an assumption's word
        if (assumption.value.find_first_of(" ,") != std::string::npos) continue;
        value = Value::string(assumption.value);
        break;
      default:
        // A machine that nobody named is no part of a launch.
        if (key->kind == KeyKind::kModel || key->kind == KeyKind::kMachine ||
            key->kind == KeyKind::kNames || key->kind == KeyKind::kCounts)
          continue;
        value = Value::string(assumption.value);
    }
    set_path(whole, key->path, std::move(value), Place{});
  }
  // The device's own name, whatever short one was written.
  set_path(whole, "cluster.device", Value::string(job.cluster.device->name), Place{});
  return whole;
}

Exported export_launch(const Value& run, std::string_view target, const ExportChoice& choice) {
  Exported exported;
  exported.problems = unwritable(run, choice.slurm);
  if (!exported.problems.empty()) return exported;
  ConfigWriter writing(run, target);
  if (const std::string method = writing.look_word("training.method");
      !method.empty() && method != "pretrain" && method != "sft")
    writing.refuse("training.method",
                   fmt::format("{} is its trainer's own script, which is not written", method),
                   "steelyard import reads TRL's files of it");
  Pieces pieces;
  const Places places = places_of(writing);
  pieces.remarks += remark_line("cluster.device", Value::string(places.device));
  // No launch file has a word for what the machines are; a table of one is said to be left out.
  for (const char* key : {"cluster.machine", "cluster.network"})
    if (const Value* said = writing.look(key); said != nullptr && said->is_string()) {
      writing.take(key);
      if (target != "fsdp2") pieces.remarks += remark_line(key, *said);
    }
  take_environment(writing, pieces);
  const std::string torchrun = torchrun_words(places, choice.slurm);
  const auto trainer_flags = [&](ConfigWriter& own) {
    // Flags of a Trainer's script; what its engine's file says is not said again.
    ConfigWriter flags(own.run(), "trainer");
    write_hugging_face(flags);
    flags.bring_carried();
    leave_out_unwritable_flags(flags);
    merge(own, flags);
    for (const char* key : {"model",
                            "training.micro_batch",
                            "training.gradient_accumulation",
                            "training.global_batch",
                            "training.sequence_length",
                            "training.compile",
                            "recompute.mode",
                            "recompute.reentrant",
                            "training.optimizer",
                            "training.optimizer_form",
                            "training.gradient_clip",
                            "training.attention",
                            "training.loss",
                            "training.kernels",
                            "adapter.method",
                            "adapter.rank",
                            "adapter.alpha",
                            "adapter.dropout",
                            "adapter.target_modules",
                            "adapter.base",
                            "adapter.double_quantization",
                            "training.precision",
                            "training.method",
                            "training.dropout",
                            "parallel.data"})
      own.take(key);
    take_trl_defaults(own);
    if (own.look_word("implementation") == "transformers") own.take("implementation");
    return flags.theirs;
  };

  if (target == "deepspeed") {
    write_deepspeed(writing);
    writing.bring_carried();
    const bool megatron_code = writing.look_word("implementation") == "megatron";
    if (megatron_code)
      writing.refuse("implementation", "Megatron-DeepSpeed's own script is not written");
    Value flags = trainer_flags(writing);
    pieces.files.push_back({"ds_config.json", json_text(writing.theirs)});
    set_path(flags, "deepspeed", Value::string("ds_config.json"), Place{});
    pieces.before += ulysses_lines(writing);
    pieces.command = torchrun + " train.py" + flag_lines(argument_words(flags, false));
  } else if (target == "accelerate") {
    write_accelerate(writing);
    writing.bring_carried();
    leave_out_unwritable_keys(writing);
    const Value flags = trainer_flags(writing);
    pieces.files.push_back({"accelerate.yaml", yaml_text(writing.theirs, writing.comments)});
    if (writing.look_word("engine") == "deepspeed") add_deepspeed_file(writing, pieces);
    pieces.command = fmt::format("{}accelerate launch --config_file accelerate.yaml",
                                 choice.slurm ? "srun " : "");
    if (places.nodes > 1)
      pieces.command += fmt::format(
          " \\\n  --machine_rank {} --main_process_ip \"$HEAD\" --main_process_port 29500",
          choice.slurm ? "$SLURM_NODEID" : "\"${RANK_OF_MACHINE:?0 on the first}\"");
    pieces.command += " train.py" + flag_lines(argument_words(flags, false));
  } else if (target == "fsdp2") {
    pieces.files.push_back({"setup_fsdp2.py", fsdp2_python(writing)});
    // Python is not read again: what it says stands here, too.
    for (const Value::Member& section : run.members()) {
      if (section.key == "carried" || section.key == "environment" ||
          (section.key == "model" && section.value.is_table()))
        continue;
      if (!section.value.is_table())
        pieces.remarks += remark_line(section.key, section.value);
      else
        for (const Value::Member& member : section.value.members())
          if (section.key + "." + member.key != "cluster.device" && !member.value.is_table())
            pieces.remarks += remark_line(section.key + "." + member.key, member.value);
    }
    pieces.command = torchrun + " train.py  # imports setup_fsdp2";
  } else if (target == "torchtitan") {
    write_torchtitan(writing);
    writing.bring_carried();
    pieces.files.push_back({"torchtitan.toml", toml_text(writing.theirs, writing.comments)});
    pieces.command = torchrun + " -m torchtitan.train --job.config_file torchtitan.toml";
  } else if (target == "megatron") {
    write_megatron(writing);
    writing.bring_carried();
    leave_out_unwritable_flags(writing);
    if (run.at("environment.CUDA_DEVICE_MAX_CONNECTIONS") == nullptr &&
        writing.look_count("parallel.zero_stage", 0) < 2)
      pieces.before += "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
    pieces.before += array_lines(writing.theirs, writing.comments);
    pieces.command = torchrun + " pretrain_gpt.py \"${ARGUMENTS[@]}\"";
  } else if (target == "nanotron") {
    write_nanotron(writing);
    writing.bring_carried();
    leave_out_unwritable_keys(writing);
    if (run.at("environment.CUDA_DEVICE_MAX_CONNECTIONS") == nullptr)
      pieces.before += "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
    pieces.files.push_back({"nanotron.yaml", yaml_text(writing.theirs, writing.comments)});
    pieces.command = torchrun + " run_train.py --config-file nanotron.yaml";
  } else if (target == "axolotl") {
    write_axolotl(writing);
    writing.bring_carried();
    leave_out_unwritable_keys(writing);
    pieces.files.push_back({"axolotl.yaml", yaml_text(writing.theirs, writing.comments)});
    pieces.command = torchrun + " -m axolotl.cli.train axolotl.yaml";
  } else if (target == "llama-factory") {
    write_llama_factory(writing);
    writing.bring_carried();
    leave_out_unwritable_keys(writing);
    pieces.files.push_back({"llama_factory.yaml", yaml_text(writing.theirs, writing.comments)});
    if (writing.look_word("engine") == "deepspeed") add_deepspeed_file(writing, pieces);
    pieces.command = torchrun + " src/train.py llama_factory.yaml";
  } else {
    exported.problems.push_back({Severity::kError,
                                 "E604",
                                 fmt::format("no export called \"{}\"", target),
                                 Place{},
                                 {},
                                 "targets are deepspeed, accelerate, fsdp2, torchtitan, megatron, "
                                 "nanotron, axolotl, llama-factory and slurm"});
    return exported;
  }
  writing.close();
  const std::string directives = choice.slurm ? carried_directives(writing) : "";
  lose_carried(writing, target);
  for (const ConfigWriter::Loss& loss : writing.losses)
    if (choice.untold.count(loss.key) == 0) exported.losses.push_back(loss);
  for (const ConfigWriter::Loss& loss : choice.lost)
    if (std::none_of(exported.losses.begin(), exported.losses.end(),
                     [&](const ConfigWriter::Loss& other) { return other.key == loss.key; }))
      exported.losses.push_back(loss);
  exported.problems = writing.problems;

  std::string head = "#!/bin/bash\n";
  if (choice.slurm) {
    head += fmt::format(
        "#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=1\n#SBATCH "
        "--gpus-per-node={}\n",
        slurm_job_name(choice.name), places.nodes, places.per_node);
    const std::string time = writing.look_word("launch.time");
    const std::string partition = writing.look_word("launch.partition");
    head += time.empty() ? "##SBATCH --time=HH:MM:SS        to be filled in\n"
                         : fmt::format("#SBATCH --time={}\n", time);
    head += partition.empty() ? "##SBATCH --partition=NAME       to be filled in\n"
                              : fmt::format("#SBATCH --partition={}\n", partition);
    head += directives;
  }
  head +=
      comment_text(fmt::format("# Written by steelyard for {}.{}", target,
                               choice.predicted.empty() ? "" : " Predicted: " + choice.predicted)) +
      "\n";
  for (const ConfigWriter::Loss& loss : exported.losses)
    head += fmt::format("# Left out: {}\n", words_of(loss));
  head += pieces.remarks;
  if (choice.slurm && places.nodes > 1)
    pieces.before += "HEAD=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n";
  std::string documents;
  for (const ExportedFile& file : pieces.files) documents += here_document(file.name, file.text);
  exported.script = head + pieces.before + documents + pieces.command + "\n";
  exported.files = std::move(pieces.files);
  exported.files.push_back(
      {choice.slurm ? "job.sbatch" : "launch.sh", head + pieces.before + pieces.command + "\n"});
  return exported;
}

}  // namespace steelyard
