#include "formats/launch/nemo_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/arguments.h"

namespace steelyard {
namespace {

// Stages of the launcher that train a model, as main.py's `stages` names them.
constexpr std::string_view kTrainingStages[] = {
    "training",     "peft",    "fine_tuning", "prompt_learning", "adapter_learning",
    "ia3_learning", "rlhf_rm", "rlhf_ppo",    "steerlm_reg",
};

bool is_training_stage(std::string_view word) {
  return std::find(std::begin(kTrainingStages), std::end(kTrainingStages), word) !=
         std::end(kTrainingStages);
}

// hydra's words: a=b, +a=b, ++a=b; ~a takes the key away. `null` is nothing.
Value overrides_of(std::span<const Value> words) {
  Value over = Value::table();
  lay_over_assignments(over, words);
  return over;
}

void take_nulls(Value& table, int depth = 0) {
  if (!table.is_table() || depth > 32) return;
  for (Value::Member& member : table.members()) {
    if (member.value.is_string() && member.value.as_string() == "null") member.value = Value();
    take_nulls(member.value, depth + 1);
  }
}

// "peft" of peft=llama/sft, or the stage that `stages=[peft]` names.
struct Stage {
  std::string name;
  const Value* choice = nullptr;  // the word peft=llama/sft
};
Stage stage_of(std::span<const Value> words) {
  Stage stage;
  std::string stages;
  for (const Value& word : words) {
    const std::string& text = word.as_string();
    const std::size_t sign = text.find('=');
    if (sign == std::string::npos) continue;
    const std::string key = text.substr(0, sign);
    if (key == "stages") stages = text.substr(sign + 1);
    if (!is_training_stage(key)) continue;
    if (stage.choice == nullptr || stages.find(key) != std::string::npos) stage = {key, &word};
  }
  return stage;
}

// The file, when it is there; an optional file that is missing is no problem.
std::optional<Value> file_if_there(Launch& launch, std::string path, const Value& at) {
  const std::size_t before = launch.into.problems.size();
  Value name = Value::string(std::move(path));
  name.set_mark(at.mark());
  auto document = named_document(launch, name);
  if (!document) launch.into.problems.resize(before);
  return document;
}

void read_laid_over(Value document, const Value& over, const ProgramCall& call, Launch& launch) {
  lay_over_document(document, over);
  take_nulls(document);
  if (document.mark().source == nullptr) document.set_mark(call.program.mark());
  // What tells NeMo's configurations from Megatron-Bridge's.
  if (document.find("trainer") == nullptr)
    document.members().push_back({"trainer", call.program.mark(), Value::table()});
  read_nemo(document, launch);
}

}  // namespace

bool is_nemo_launcher(const ProgramCall& call) {
  return call.name == "main" &&
         std::any_of(call.words.begin(), call.words.end(), [](const Value& word) {
           const std::string& text = word.as_string();
           return text.starts_with("launcher_scripts_path=") || text.starts_with("stages=") ||
                  text.starts_with("training=");
         });
}

bool read_nemo_launcher(const ProgramCall& call, Launch& launch) {
  const Stage stage = stage_of(call.words);
  if (stage.choice == nullptr) return false;
  const std::string& word = stage.choice->as_string();
  const std::string choice = word.substr(word.find('=') + 1);
  auto document = file_if_there(
      launch, fmt::format("launcher_scripts/conf/{}/{}.yaml", stage.name, choice), *stage.choice);
  if (!document)
    document =
        file_if_there(launch, fmt::format("conf/{}/{}.yaml", stage.name, choice), *stage.choice);
  const Value none = Value::table();
  ConfigReader reading(none, "nemo", launch.into);
  if (!document) {
    reading.lacks("model", fmt::format("launcher_scripts/conf/{}/{}.yaml says it, and is not here",
                                       stage.name, choice));
    document = Value::table();
    document->set_mark(stage.choice->mark());
  }
  const Value over = overrides_of(call.words);
  const std::string prefix = fmt::format("~{}.", stage.name);
  for (const Value& gone : call.words)
    if (gone.as_string().starts_with(prefix))
      remove_path(*document, gone.as_string().substr(prefix.size()));
  const Value* own = over.find(stage.name);
  read_laid_over(std::move(*document), own != nullptr && own->is_table() ? *own : none, call,
                 launch);
  return true;
}

bool is_nemo_program(const ProgramCall& call) {
  static constexpr std::string_view kEndings[] = {"_pretraining",       "_finetuning",  "_pretrain",
                                                  "_continue_training", "_peft_tuning", "_sft"};
  if (!call.name.starts_with("megatron_")) return false;
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view ending) { return call.name.ends_with(ending); });
}

bool read_nemo_program(const ProgramCall& call, Launch& launch) {
  // Flags, `--config-path=conf --config-name=llama2`, stand before or among hydra's own words.
  std::string folder = "conf", file;
  std::vector<Value> words;
  for (std::size_t i = 0; i < call.words.size(); ++i) {
    std::string text = call.words[i].as_string();
    const auto value_of = [&](std::string_view flag) -> std::optional<std::string> {
      if (text.starts_with(std::string(flag) + "=")) return text.substr(flag.size() + 1);
      if (text != flag || i + 1 >= call.words.size()) return std::nullopt;
      return call.words[i + 1].as_string();
    };
    if (const auto path = value_of("--config-path"))
      folder = *path;
    else if (const auto name = value_of("--config-name"))
      file = *name;
    else if (text.find('=') != std::string::npos || text.starts_with("~"))
      words.push_back(call.words[i]);
  }
  std::optional<Value> document;
  if (!file.empty()) {
    if (!file.ends_with(".yaml")) file += ".yaml";
    document = file_if_there(launch, fmt::format("{}/{}", folder, file), call.program);
  }
  if (!document) {
    const Value none = Value::table();
    ConfigReader(none, "nemo", launch.into)
        .lacks("model", fmt::format("{} says it, and is not here",
                                    file.empty() ? "the program's own configuration" : file));
    document = Value::table();
    document->set_mark(call.program.mark());
  }
  // The program's name says which model, where the configuration has none.
  if (document->find("name") == nullptr) {
    Value name = Value::string(call.name);
    name.set_mark(call.program.mark());
    document->members().push_back({"name", call.program.mark(), std::move(name)});
  }
  read_laid_over(std::move(*document), overrides_of(words), call, launch);
  return true;
}

}  // namespace steelyard
