// Launchers: torchrun, accelerate launch, deepspeed, srun, and the programs that read one file.
// torch/distributed/run.py, accelerate/commands/launch.py, deepspeed/launcher/runner.py.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "document/read.h"
#include "formats/launch/arguments.h"
#include "formats/launch/formats.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/launcher_devices.h"
#include "formats/launch/llama_factory.h"
#include "formats/launch/programs.h"
#include "formats/launch/shell.h"
#include "formats/launch/torchtune_configs.h"

namespace steelyard {
namespace {

using Words = std::span<const Value>;

std::string base_name(std::string_view word) {
  return std::string(
      word.substr(word.rfind('/') == std::string_view::npos ? 0 : word.rfind('/') + 1));
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_python(std::string_view word) {
  const std::string name = base_name(word);
  return name.starts_with("python") || name == "pypy";
}

bool more_scripts(Words words) {
  return std::any_of(words.begin(), words.end(), [](const Value& word) {
    return is_file_of(word, {".py"}) || word.as_string() == "-m" || word.as_string() == "--module";
  });
}

// The launcher's own options end at its first word that is none: the script.
struct Split {
  Value options = Value::table();
  Words rest;
};
Split launcher_options(Words words, std::initializer_list<std::string_view> switches) {
  Split split;
  std::size_t i = 0;
  std::vector<Value> own;
  while (i < words.size() && words[i].as_string().starts_with("-")) {
    std::string name = words[i].as_string();
    own.push_back(words[i]);
    ++i;
    if (name.find('=') != std::string::npos) continue;
    name.erase(0,
               name.find_first_not_of('-') == std::string::npos ? 0 : name.find_first_not_of('-'));
    std::replace(name.begin(), name.end(), '-', '_');
    if (is_one_of(name, switches)) continue;
    // A value that is empty is not there: the next flag is no value, nor is the only script.
    if (i < words.size() && !begins_like_a_flag(words[i]) &&
        !(is_file_of(words[i], {".py"}) && !more_scripts(words.subspan(i + 1))))
      own.push_back(words[i++]);
  }
  split.options = read_arguments(own).flags;
  split.rest = words.subspan(i);
  return split;
}

bool read_script(Words words, Launch& launch) {
  if (words.empty()) return false;
  if (is_python(words.front().as_string()) && words.size() > 1)
    return read_command_line(words, launch);
  return read_program(words.front(), words.subspan(1), launch);
}

bool read_torchrun(Words words, Launch& launch) {
  launch.into.formats.emplace_back("torchrun");
  const Split split = launcher_options(
      words, {"standalone", "m", "module", "no_python", "run_path", "use_env", "use-env"});
  const Value* nodes = split.options.find("nnodes");
  say_devices(launch, nodes, split.options.find("nproc_per_node"), "torchrun");
  return read_script(split.rest, launch);
}

bool read_accelerate_launch(Words words, Launch& launch) {
  launch.into.formats.emplace_back("accelerate launch");
  const Split split = launcher_options(
      words, {"multi_gpu", "use_fsdp", "use_deepspeed", "use_megatron_lm", "cpu", "tpu", "debug",
              "quiet", "m", "module", "no_python", "use_parallelism_config", "enable_cpu_affinity",
              "dynamo_use_fullgraph", "no_local_rank"});
  Value document = Value::table();
  document.set_mark(split.options.mark());
  const Value& flags = split.options;
  if (const Value* file = flags.find("config_file")) {
    const auto read = named_document(launch, *file);
    if (!read) return true;
    document = *read;
  }
  // Flags win over the file; those of the plugins live in its tables.
  const auto put = [&](std::string_view path, const Value& value) {
    set_path(document, path, value, value.place());
  };
  const auto mark_type = [&](const Value& at, const char* type) {
    Value value = Value::string(type);
    value.set_mark(at.mark());
    put("distributed_type", value);
  };
  for (const Value::Member& member : flags.members()) {
    const std::string& key = member.key;
    if (is_one_of(key, {"num_processes", "num_machines", "mixed_precision", "machine_rank",
                        "main_process_ip", "main_process_port", "rdzv_backend", "gpu_ids"}))
      put(key, member.value);
    else if (key == "use_fsdp")
      mark_type(member.value, "FSDP");
    else if (key == "use_deepspeed")
      mark_type(member.value, "DEEPSPEED");
    else if (key == "use_megatron_lm")
      mark_type(member.value, "MEGATRON_LM");
    else if (key == "multi_gpu")
      mark_type(member.value, "MULTI_GPU");
    else if (key.starts_with("fsdp_"))
      put("fsdp_config." + key, member.value);
    else if (key.starts_with("megatron_lm_"))
      put("megatron_lm_config." + key, member.value);
    else if (key.starts_with("parallelism_config_"))
      put("parallelism_config." + key, member.value);
    else if (is_one_of(key, {"zero_stage", "offload_optimizer_device", "offload_param_device",
                             "gradient_accumulation_steps", "gradient_clipping",
                             "deepspeed_config_file"}))
      put("deepspeed_config." + key, member.value);
  }
  // The script first: what its arguments say decides about the model, which "auto" needs.
  const bool read = read_script(split.rest, launch);
  if (document.find("distributed_type") == nullptr && !document.members().empty()) {
    const Value* processes = document.find("num_processes");
    mark_type(document.members().front().value,
              processes != nullptr && count_of(*processes).value_or(1) > 1 ? "MULTI_GPU" : "NO");
  }
  // A program that reads its own file (Axolotl, LLaMA-Factory) says the engine there.
  if (launch.into.run.find("engine") != nullptr && document.find("distributed_type") != nullptr &&
      flags.find("config_file") == nullptr)
    set_path(document, "distributed_type", Value(), Place{});
  if (document.find("distributed_type") != nullptr &&
      document.find("distributed_type")->is_null()) {
    say_devices(launch, nullptr, document.find("num_processes"), "accelerate");
  } else if (!document.members().empty()) {
    read_accelerate(document, launch);
  }
  return read || !document.members().empty();
}

bool read_deepspeed_launcher(Words words, Launch& launch) {
  launch.into.formats.emplace_back("deepspeed launcher");
  const Split split = launcher_options(
      words, {"no_ssh", "bind_cores_to_rank", "module", "no_python", "no_local_rank", "force_multi",
              "elastic_training", "save_pid", "no_ssh_check", "m"});
  const Value* nodes = split.options.find("num_nodes");
  const Value* each = split.options.find("num_gpus");
  if (each != nullptr) {
    say_devices(launch, nodes, each, "deepspeed");
  } else if (const Value* include = split.options.find("include"); include != nullptr) {
    // host1:0,1,2@host2:0,1
    const std::string word = word_of(*include);
    std::int64_t devices = 0;
    std::string_view rest = word;
    while (!rest.empty()) {
      const std::string_view host = rest.substr(0, rest.find('@'));
      if (const std::size_t colon = host.find(':'); colon != std::string_view::npos)
        devices +=
            1 + std::count(host.begin() + static_cast<std::ptrdiff_t>(colon), host.end(), ',');
      rest.remove_prefix(std::min(host.size() + 1, rest.size()));
    }
    if (devices > 0) {
      const Value none = Value::table();
      ConfigReader(none, "deepspeed", launch.into)
          .say("cluster.devices", Value::integer(devices), *include);
    }
  } else {
    const Value none = Value::table();
    ConfigReader(none, "deepspeed", launch.into)
        .lacks("cluster.devices", "the host file, or the devices of the machine, decide");
  }
  return read_script(split.rest, launch);
}

// Of torchtune's own configurations, "llama3_1/8B_lora": found where its checkout is around the script.
std::optional<Value> torchtune_configuration(Launch& launch, const Value& name) {
  const auto problems = static_cast<std::ptrdiff_t>(launch.into.problems.size());
  for (const char* folder : {"recipes/configs/", "configs/"}) {
    Value file = Value::string(folder + name.as_string() + ".yaml");
    file.set_mark(name.mark());
    if (auto document = named_document(launch, file)) return document;
    launch.into.problems.erase(launch.into.problems.begin() + problems, launch.into.problems.end());
    launch.into.asked.erase(file.as_string());
  }
  return std::nullopt;
}

bool read_tune(Words words, Launch& launch) {
  const Split split = launcher_options(words, {"standalone"});
  if (split.options.find("nproc_per_node") != nullptr || split.options.find("nnodes") != nullptr)
    say_devices(launch, split.options.find("nnodes"), split.options.find("nproc_per_node"),
                "tune run");
  if (split.rest.empty()) return false;
  const std::string recipe = split.rest.front().as_string();
  const Arguments arguments = read_arguments(split.rest.subspan(1));
  const Value* file = arguments.flags.find("config");
  if (file != nullptr && file->is_array() && !file->items().empty()) file = &file->items().front();
  if (file == nullptr || !file->is_string()) {
    launch.into.problems.push_back({Severity::kError,
                                    "E601",
                                    "a recipe without a configuration",
                                    split.rest.front().place(),
                                    "--config names it",
                                    {}});
    return true;
  }
  const std::string& name = file->as_string();
  const bool is_file = name.ends_with(".yaml") || name.ends_with(".yml");
  // A checkout of torchtune has the file itself; else what is known of it.
  std::optional<Value> document =
      is_file ? named_document(launch, *file) : torchtune_configuration(launch, *file);
  if (!is_file && !document) document = torchtune_config(name);
  if (document) {
    lay_over_assignments(*document, split.rest.subspan(1));
    read_torchtune(*document, launch, recipe);
  } else if (!is_file) {
    launch.into.problems.push_back(
        {Severity::kError, "E601",
         fmt::format("torchtune has no configuration {} that is known", name), file->place(),
         "tune ls lists its own, tune cp NAME FILE writes one", torchtune_config_help(name)});
  }
  return true;
}

bool read_llama_factory_cli(Words words, Launch& launch) {
  // v1 has a command for each stage.
  if (words.size() < 2 || !is_one_of(words[0].as_string(), {"train", "sft", "dpo", "rm"}))
    return false;
  if (begins_like_a_flag(words[1]))
    return read_llama_factory_flags(words[0], words.subspan(1), launch);
  const auto document = named_document(launch, words[1]);
  if (!document) return true;
  Value whole = *document;
  lay_over_assignments(whole, words.subspan(2));
  if (format_of(whole) != "llama-factory-v1") return read_format("llama-factory", whole, launch);
  if (words[0].as_string() != "train") set_path(whole, "stage", words[0], words[0].place());
  return read_format("llama-factory-v1", whole, launch);
}

bool is_program(std::string_view word) {
  const std::string name = base_name(word);
  return is_python(name) || is_training_command(name) ||
         is_one_of(name, {"torchrun", "accelerate", "deepspeed", "axolotl", "llamafactory-cli",
                          "trl", "tune", "bash", "sh", "torchrun.sh"});
}

bool is_launcher_module(std::string_view module) {
  return module.starts_with("torch.distributed.") || module == "accelerate.commands.launch" ||
         module == "deepspeed.launcher.runner";
}

// Behind `python`: a module that launches, or what trains.
bool read_python(Words rest, Launch& launch) {
  std::size_t i = 0;
  while (i < rest.size() && rest[i].as_string().starts_with("-") && rest[i].as_string() != "-m")
    ++i;
  if (i >= rest.size()) return false;
  if (rest[i].as_string() == "-m") {
    if (i + 1 >= rest.size()) return false;
    const std::string& module = rest[i + 1].as_string();
    const Words after = rest.subspan(i + 2);
    if (is_one_of(module, {"torch.distributed.run", "torch.distributed.launch",
                           "torch.distributed.elastic.multiprocessing"}))
      return read_torchrun(after, launch);
    if (module == "accelerate.commands.launch") return read_accelerate_launch(after, launch);
    if (module == "deepspeed.launcher.runner") return read_deepspeed_launcher(after, launch);
    if (is_one_of(module, {"pip", "venv", "json.tool", "http.server"})) return false;
    return read_program(rest[i + 1], after, launch);
  }
  if (!rest[i].as_string().ends_with(".py")) return false;
  const Words after = rest.subspan(i + 1);
  const bool trains = std::any_of(after.begin(), after.end(), [](const Value& word) {
    const std::string& text = word.as_string();
    return text.find("batch") != std::string::npos || text.find("config") != std::string::npos ||
           text.find("num-layers") != std::string::npos || text.ends_with(".yaml") ||
           text.starts_with("--model") || text.starts_with("stages=[");
  });
  return trains && read_program(rest[i], after, launch);
}

// uv run train.py, srun ./pretrain.py: a script that is started by its name.
bool read_started_script(Words words, Launch& launch) {
  static constexpr std::string_view kStarters[] = {"srun",    "uv",     "poetry", "conda",
                                                   "pixi",    "mpirun", "hatch",  "mpiexec",
                                                   "numactl", "env",    "pdm"};
  if (words.empty()) return false;
  const std::string first = base_name(words.front().as_string());
  const bool starts =
      std::find(std::begin(kStarters), std::end(kStarters), first) != std::end(kStarters);
  for (std::size_t at = 0; at < words.size() && (at == 0 || starts); ++at)
    if (is_file_of(words[at], {".py"}) && words.size() > at + 1) {
      const bool read = read_python(words.subspan(at), launch);
      if (read && at > 0) count_processes(words.first(at), launch);
      return read;
    }
  return false;
}

}  // namespace

bool read_command_line(Words words, Launch& launch) {
  if (++launch.depth > 16) return false;
  struct Leave {
    int& depth;
    ~Leave() { --depth; }
  } leave{launch.depth};
  // env, srun, mpirun, numactl, singularity exec ...: what they start comes after their own words.
  std::size_t at = 0;
  while (at < words.size() && !is_program(words[at].as_string())) ++at;
  if (at == words.size()) return read_started_script(words, launch);
  const std::string name = base_name(words[at].as_string());
  const std::string starter = at == 0 ? "" : base_name(words[0].as_string());
  const bool runs = at > 1 && words[1].as_string() == "run";  // conda run
  if (at > 0 && !runs &&
      is_one_of(starter, {"echo", "printf", "export", "which", "pip", "conda", "cd", "ls", "cat",
                          "tee", "grep", "mkdir", "source", "git", "apt", "rm", "cp"}))
    return false;
  if (starter == "srun") launch.into.formats.emplace_back("srun");
  const Words rest = words.subspan(at + 1);
  if (name == "torchrun") return read_torchrun(rest, launch);
  if (name == "accelerate")
    return !rest.empty() && rest.front().as_string() == "launch" &&
           read_accelerate_launch(rest.subspan(1), launch);
  if (name == "deepspeed") return read_deepspeed_launcher(rest, launch);
  if (name == "tune")
    return !rest.empty() && rest.front().as_string() == "run" && read_tune(rest.subspan(1), launch);
  if (name == "trl") return read_trl(rest, launch);
  if (name == "llamafactory-cli") return read_llama_factory_cli(rest, launch);
  if (is_training_command(name)) return read_program(words[at], rest, launch);
  if (name == "axolotl")
    return !rest.empty() && rest.front().as_string() == "train" &&
           read_program(words[at], rest.subspan(1), launch);
  if (name == "bash" || name == "sh") {
    for (std::size_t i = 0; i + 1 < rest.size(); ++i)
      if (rest[i].as_string().starts_with("-") &&
          rest[i].as_string().find('c') != std::string::npos) {
        const ShellScript inner =
            read_shell(rest[i + 1].as_string(),
                       rest[i + 1].mark().source ? rest[i + 1].mark().source->name : "",
                       {launch.environment == nullptr ? ShellEnvironment{} : *launch.environment});
        for (const Diagnostic& problem : inner.problems)
          if (problem.severity == Severity::kError) add_problem(launch.into.problems, problem);
        for (const ShellCommand& command : inner.commands) {
          std::vector<Value> placed = command.words;
          for (Value& word : placed) word.set_mark(rest[i + 1].mark());
          if (read_command_line(placed, launch)) return true;
        }
      }
    return false;
  }
  const bool read = read_python(rest, launch);
  const bool launches =
      rest.size() > 1 && rest[0].as_string() == "-m" && is_launcher_module(rest[1].as_string());
  if (read && at > 0 && !launches) count_processes(words.first(at), launch);
  return read;
}

}  // namespace steelyard
