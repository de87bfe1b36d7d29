// From a text to a run file: which form, which format, which files it names.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "document/edit_distance.h"
#include "document/read.h"
#include "formats/launch/formats.h"
#include "formats/launch/heavy_keys.h"
#include "formats/launch/launch.h"
#include "formats/launch/python_script.h"
#include "formats/launch/shell.h"

namespace steelyard {
namespace {

enum class Form { kJson, kToml, kYaml, kShell, kPython };

std::string_view first_line(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text.substr(0, text.find('\n'));
}

bool looks_like_shell(std::string_view text) {
  if (first_line(text).starts_with("#!")) return true;
  if (text.find("\n#SBATCH") != std::string_view::npos || text.starts_with("#SBATCH")) return true;
  for (const std::string_view word :
       {"torchrun ", "accelerate launch ", "deepspeed ", "srun ", "torch.distributed.run",
        "torch.distributed.launch", "axolotl train", "llamafactory-cli train", "tune run",
        "trl sft ", "trl dpo ", "trl grpo ", "trl kto ", "trl reward ", "trl rloo "})
    if (text.find(word) != std::string_view::npos && text.find("\": ") == std::string_view::npos)
      return true;
  return false;
}

Form form_of(std::string_view text, std::string_view name) {
  const auto ends = [&](std::initializer_list<std::string_view> endings) {
    return std::any_of(endings.begin(), endings.end(),
                       [&](std::string_view ending) { return name.ends_with(ending); });
  };
  if (ends({".json"})) return Form::kJson;
  if (ends({".toml"})) return Form::kToml;
  if (ends({".yaml", ".yml"})) return Form::kYaml;
  if (is_python_file(name)) return Form::kPython;
  if (ends({".sh", ".slurm", ".sbatch", ".bash"})) return Form::kShell;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return Form::kJson;
  if (looks_like_shell(text)) return Form::kShell;
  if (read_toml(text, name)) return Form::kToml;
  return Form::kYaml;
}

ReadValue read_as(Form form, std::string_view text, std::string_view name, Diagnostics& warnings) {
  return form == Form::kJson   ? read_json(text, name)
         : form == Form::kToml ? read_toml(text, name)
                               : read_yaml(text, name, &warnings);
}

// A name that begins with one of these changes what is allocated or sent; others are the script's own.
bool matters(std::string_view variable) {
  for (const std::string_view prefix : {"PYTORCH_", "NCCL_", "CUDA_DEVICE_MAX_CONNECTIONS", "NVTE_",
                                        "TORCH_NCCL_", "TORCH_DISTRIBUTED_DEBUG"})
    if (variable.starts_with(prefix)) return true;
  return false;
}

void read_environment(const ShellScript& script, Imported& into) {
  std::set<std::string_view> seen;
  for (const ShellCommand& command : script.commands)
    for (const auto& [name, value] : command.environment)
      if (matters(name) && !has_hole(word_of(value)) && seen.insert(name).second) {
        if (into.run.find("environment") == nullptr)
          set_path(into.run, "environment", Value::table(), value.place());
        Value& table = into.run.member("environment")->value;
        if (table.member(name) == nullptr) table.members().push_back({name, value.mark(), value});
      }
}

// gpu:h100:8, h100:8, 8 -> a type, if there is one, and a count.
struct Devices {
  std::string type;
  std::int64_t count = 0;
};
Devices devices_in(std::string_view word) {
  Devices devices;
  while (!word.empty()) {
    const std::size_t end = std::min(word.find_first_of(":,"), word.size());
    const std::string_view part = word.substr(0, end);
    const Value typed = typed_value(part);
    if (typed.is_integer())
      devices.count = typed.as_integer();
    else if (part != "gpu" && !part.empty())
      devices.type = part;
    if (end < word.size() && word[end] == ',') break;
    word.remove_prefix(std::min(end + 1, word.size()));
  }
  return devices;
}

void read_directives(const ShellScript& script, Launch& launch) {
  const Value& directives = script.directives;
  if (directives.members().empty()) return;
  Imported& into = launch.into;
  ConfigReader reading(directives, "sbatch", into);
  if (const Value* value = reading.take("partition"))
    reading.say("launch.partition", word_of(*value), *value);
  if (const Value* value = reading.take("time"))
    reading.say("launch.time", word_of(*value), *value);
  const Value* nodes = reading.take("nodes");
  std::int64_t machines = 1;
  if (nodes != nullptr) {
    std::string word = word_of(*nodes);
    if (const std::size_t dash = word.find('-'); dash != std::string::npos)
      word = word.substr(dash + 1);
    const Value typed = typed_value(word);
    if (typed.is_integer() && typed.as_integer() > 0 && typed.as_integer() < 1'000'000) {
      machines = typed.as_integer();
      reading.say("launch.nodes", Value::integer(machines), *nodes);
    } else {
      reading.lacks("launch.nodes", fmt::format("--nodes={} is to be filled in", word));
      machines = 0;
    }
  }
  const Value* tasks_each = directives.find("ntasks_per_node");
  const Value* tasks = directives.find("ntasks");
  if (const Value* value = reading.take("ntasks_per_node"))
    if (const auto count = count_of(*value))
      reading.say("launch.tasks_per_node", Value::integer(*count), *value);
  Devices found;
  const Value* at = nullptr;
  std::int64_t all = 0;
  for (const char* key : {"gpus_per_node", "gres", "gpus_per_task", "gpus"}) {
    const Value* value = reading.take(key);
    if (value == nullptr || at != nullptr) continue;
    found = devices_in(word_of(*value));
    if (found.count < 1 || found.count > 1'000'000) continue;
    at = value;
    const std::string_view name(key);
    if (name == "gpus") {
      all = found.count;
    } else if (name == "gpus_per_task") {
      const std::int64_t count = tasks != nullptr ? count_of(*tasks).value_or(1)
                                 : tasks_each != nullptr
                                     ? count_of(*tasks_each).value_or(1) * machines
                                     : machines;
      if (count > 0 && count < 1'000'000) all = found.count * count;
    } else {
      all = found.count * machines;
    }
  }
  if (at != nullptr && all < 1) {
    reading.lacks("cluster.devices", "the number of nodes is to be filled in");
  } else if (at != nullptr) {
    if (!found.type.empty() && into.run.at("cluster.device") == nullptr)
      reading.say("cluster.device", found.type, *at);
    const Value* said = into.run.at("cluster.devices");
    if (said == nullptr) {
      reading.say("cluster.devices", Value::integer(all), *at);
      if (machines > 0 && all % machines == 0)
        reading.say("cluster.devices_per_node", Value::integer(all / machines), *at);
    } else if (count_of(*said).value_or(0) > all) {
      reading.refuse(*said, fmt::format("{} ranks are launched on {} devices", shown(*said), all),
                     fmt::format("line {} asks for {}", at->place().line, all),
                     "make the launcher and the #SBATCH lines agree");
    } else if (count_of(*said).value_or(0) < all) {
      reading.warn(
          *at,
          fmt::format("{} devices are asked for, and {} ranks are launched", all, shown(*said)),
          "the others stay idle");
    }
  }
  reading.carry_rest();
}

void read_remarks(const ShellScript& script, Imported& into) {
  for (const Value::Member& member : script.remarks.members()) {
    const auto put = [&](const std::string& path, const Value& value) {
      std::erase_if(into.unsaid, [&](const Unsaid& unsaid) { return unsaid.key == path; });
      set_path(into.run, path, value, value.place());
    };
    if (!member.value.is_table() || member.key == "model") {
      put(member.key, member.value);
      continue;
    }
    for (const Value::Member& inner : member.value.members())
      put(member.key + "." + inner.key, inner.value);
  }
}

void read_script_text(std::string_view text, std::string_view name, Launch& launch) {
  ShellScript script = read_shell(text, name);
  Imported& into = launch.into;
  if (!script.directives.members().empty()) into.formats.emplace_back("sbatch script");
  for (Diagnostic& problem : script.problems) add_problem(into.problems, std::move(problem));
  if (into.failed()) return;
  launch.files = script.files;
  bool launched = false;
  for (const ShellCommand& command : script.commands) {
    if (command.words.empty()) continue;
    if (command.words.size() > static_cast<std::size_t>(kMostLaunchValues)) {
      into.problems.push_back({Severity::kError,
                               "E103",
                               fmt::format("a command of more than {} words", kMostLaunchValues),
                               command.words.front().place(),
                               {},
                               {}});
      return;
    }
    if (launched) {
      // A second launch in one script is another run.
      Launch second;
      second.read_file = launch.read_file;
      second.folder = launch.folder;
      // Lent and not copied: a script may have thousands of commands and megabytes of files.
      std::swap(second.files, launch.files);
      second.environment = &command.environment;
      const bool also = read_command_line(command.words, second);
      std::swap(second.files, launch.files);
      if (!also) continue;
      into.problems.push_back({Severity::kWarning,
                               "E602",
                               "a second launch in one script",
                               command.words.front().place(),
                               "only the first is read",
                               {}});
      break;
    }
    launch.environment = &command.environment;
    launched = read_command_line(command.words, launch);
  }
  if (!launched)
    into.problems.push_back({Severity::kError,
                             "E604",
                             "nothing in this script launches a training",
                             Place{std::string(name), 0, 0, {}, 0},
                             {},
                             "torchrun, accelerate launch, deepspeed, srun, axolotl, "
                             "llamafactory-cli and tune are known"});
  read_environment(script, into);
  read_directives(script, launch);
  read_remarks(script, into);
}

}  // namespace

namespace {

// A launch of which not one key was understood would be weighed as whatever is assumed.
void refuse_what_says_nothing(Imported& into, std::string_view name) {
  if (into.failed()) return;
  for (const Value::Member& member : into.run.members())
    if (member.key != "carried" && member.key != "environment" && member.key != "launch") return;
  into.problems.push_back({Severity::kError,
                           "E604",
                           "nothing of this launch is understood",
                           Place{std::string(name), 0, 0, {}, 0},
                           {},
                           "neither the model, nor how it is divided, nor the devices are said in "
                           "words that are known here"});
}

}  // namespace

bool is_launch_command(std::string_view word) {
  const std::string_view first = word.substr(0, word.find(' '));
  static constexpr std::string_view kCommands[] = {
      "torchrun", "accelerate", "deepspeed", "trl", "axolotl", "llamafactory-cli", "tune", "srun"};
  return first.size() < word.size() &&
         std::find(std::begin(kCommands), std::end(kCommands), first) != std::end(kCommands);
}

bool is_launch_file(std::string_view text, std::string_view name) {
  const Form form = form_of(text, name);
  if (form == Form::kShell || form == Form::kPython) return true;
  Diagnostics ignored;
  const ReadValue document = read_as(form, text, name, ignored);
  // A YAML file is no run file, whatever is wrong with it.
  if (!document) return form == Form::kYaml && (name.ends_with(".yaml") || name.ends_with(".yml"));
  if (form == Form::kYaml && document->is_table()) return true;
  return !format_of(*document).empty();
}

Imported import_launch(std::string_view text, std::string_view name, const LaunchContext& context) {
  Launch launch;
  launch.read_file = context.read_file;
  launch.folder = context.folder;
  const Form form = form_of(text, name);
  // A script in Python is read, and never written.
  if (form != Form::kPython)
    launch.into.sources[std::string(name)] = {
        std::string(text), form == Form::kShell  ? LaunchSource::Language::kShell
                           : form == Form::kJson ? LaunchSource::Language::kJson
                           : form == Form::kToml ? LaunchSource::Language::kToml
                                                 : LaunchSource::Language::kYaml};
  if (form == Form::kPython) {
    read_python_script(text, name, launch);
    if (launch.into.formats.empty())
      launch.into.problems.push_back(
          {Severity::kError, "E604", "not a training script that is known",
           Place{std::string(name), 0, 0, {}, 0}, "none of its calls is a trainer's",
           "Trainer's, TRL's and Unsloth's calls are read"});
  } else if (form == Form::kShell) {
    read_script_text(text, name, launch);
  } else {
    ReadValue document = read_as(form, text, name, launch.into.problems);
    if (!document) {
      for (Diagnostic& problem : document.error())
        launch.into.problems.push_back(std::move(problem));
      return std::move(launch.into);
    }
    const std::string_view format = format_of(*document);
    if (is_too_large(*document, launch.into)) return std::move(launch.into);
    if (format.empty()) {
      launch.into.problems.push_back(
          {Severity::kError, "E604", "not a launch configuration that is known", document->place(),
           "none of its keys says whose it is",
           "DeepSpeed, Accelerate, Trainer, torchtitan, Megatron-LM, NeMo, nanotron, Axolotl, "
           "LLaMA-Factory, torchtune and shell scripts are read"});
    } else {
      read_format(format, *document, launch);
    }
  }
  conclude(launch);
  warn_of_heavy_keys(launch.into);
  refuse_what_says_nothing(launch.into, name);
  // Sections in the order of a run file, with what stands at the top first.
  auto& members = launch.into.run.members();
  static constexpr std::string_view kOrder[] = {
      "model",   "engine",    "implementation", "cuda_graphs", "cuda_graph_modules",
      "cluster", "training",  "parallel",       "recompute",   "offload",
      "adapter", "checkpoint"};
  const auto rank = [](const std::string& key) {
    const auto found = std::find(std::begin(kOrder), std::end(kOrder), key);
    if (key == "carried") return std::ptrdiff_t{1000};
    return found - std::begin(kOrder);
  };
  std::stable_sort(
      members.begin(), members.end(),
      [&](const Value::Member& a, const Value::Member& b) { return rank(a.key) < rank(b.key); });
  for (const char* needed : {"model", "cluster.device", "cluster.devices"})
    if (launch.into.run.at(needed) == nullptr &&
        std::none_of(launch.into.unsaid.begin(), launch.into.unsaid.end(),
                     [&](const Unsaid& unsaid) { return unsaid.key == needed; }))
      launch.into.unsaid.push_back({needed, "",
                                    std::string(needed) == "model" ? "no file names the model"
                                    : std::string(needed) == "cluster.device"
                                        ? "launch files do not say which device: --on"
                                        : "the launcher decides: --on 8xDEVICE"});
  return std::move(launch.into);
}

}  // namespace steelyard
