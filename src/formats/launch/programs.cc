#include "formats/launch/programs.h"

#include <fmt/format.h>

#include <algorithm>

#include "document/read.h"
#include "formats/launch/arguments.h"
#include "formats/launch/deepspeed_chat.h"
#include "formats/launch/hugging_face_scripts.h"
#include "formats/launch/llama_factory.h"
#include "formats/launch/megatron_program.h"
#include "formats/launch/nemo_program.h"
#include "formats/launch/open_instruct.h"

namespace steelyard {

#define PROGRAM(id) extern const TrainingProgram id##_program;
#include "formats/launch/training_programs.def"
#undef PROGRAM

namespace {

#define PROGRAM(id) &id##_program,
constexpr const TrainingProgram* kNamed[] = {
#include "formats/launch/training_programs.def"
};
#undef PROGRAM

// --- torchtitan --------------------------------------------------------------------------------------------
bool is_torchtitan(const ProgramCall& call) { return call.name.starts_with("torchtitan"); }

bool read_torchtitan_program(const ProgramCall& call, Launch& launch) {
  const Arguments arguments = read_arguments(call.words, true);
  Value document = Value::table();
  document.set_mark(call.program.mark());
  const Value* file = arguments.flags.at("job.config_file");
  if (file == nullptr) file = arguments.flags.at("job.config-file");
  if (file != nullptr) {
    const auto read = named_document(launch, *file);
    if (!read) return true;
    document = *read;
  }
  lay_over_document(document, arguments.flags);
  read_torchtitan(document, launch);
  return true;
}

// --- Axolotl -----------------------------------------------------------------------------------------------
bool is_axolotl(const ProgramCall& call) {
  return call.name == "axolotl.cli.train" || call.name == "axolotl";
}

bool read_axolotl_program(const ProgramCall& call, Launch& launch) {
  const Arguments& arguments = call.arguments;
  for (const Value& word : arguments.words)
    if (is_file_of(word, {".yaml", ".yml"})) {
      if (const auto document = named_document(launch, word)) {
        Value whole = *document;
        lay_over_document(whole, arguments.flags);
        read_axolotl(whole, launch);
      }
      return true;
    }
  return false;
}

// --- programs that are told by what they are given -----------------------------------------------------------
constexpr std::string_view kConfigFlags[] = {"config_file", "config", "config_path"};

const Value* configuration_of(const Arguments& arguments) {
  for (const std::string_view key : kConfigFlags)
    if (const Value* config = arguments.flags.find(key))
      return config->is_string() ? config : nullptr;
  const bool alone =
      arguments.words.size() == 1 && is_file_of(arguments.words[0], {".yaml", ".yml", ".json"});
  return alone ? &arguments.words[0] : nullptr;
}

bool has_configuration(const ProgramCall& call) {
  const Arguments& arguments = call.arguments;
  return configuration_of(arguments) != nullptr;
}

bool read_configuration(const ProgramCall& call, Launch& launch) {
  const Arguments& arguments = call.arguments;
  const Value* config = configuration_of(arguments);
  if (config == nullptr) return false;
  const auto document = named_document(launch, *config);
  if (!document) return true;
  std::string_view format = format_of(*document);
  Value whole = *document;
  if (format.starts_with("llama-factory") || format == "trl" || format.empty()) {
    Value flags = arguments.flags;
    for (const std::string_view key : kConfigFlags) remove_path(flags, key);
    lay_over_document(whole, flags);
    lay_over_assignments(whole, arguments.words);
    if (format.empty()) format = format_of(whole).empty() ? "trl" : format_of(whole);
  }
  if (format == "trl") say_method_of_script(call.name, call.program, launch);
  return read_format(format, whole, launch);
}

// --- LLaMA-Factory by flags ----------------------------------------------------------------------------------
bool is_llama_factory_script(const ProgramCall& call) {
  const Value& flags = call.arguments.flags;
  const Value* stage = flags.find("stage");
  static constexpr std::string_view kStages = "pt=|sft=|rm=|ppo=|dpo=|kto=|orpo=";
  return call.name == "train_bash" || call.name.ends_with("llamafactory.launcher") ||
         flags.find("finetuning_type") != nullptr ||
         (stage != nullptr && ours_of(kStages, word_of(*stage)));
}

bool read_llama_factory_script(const ProgramCall& call, Launch& launch) {
  return read_llama_factory_flags(call.program, call.words, launch);
}

// Flags of TrainingArguments beside those that scripts with a loop of their own have, too.
bool has_trainer_flags(const ProgramCall& call) {
  static constexpr std::string_view kTrainer[] = {
      "per_device_train_batch_size", "model_name_or_path", "use_peft",      "fsdp",
      "lr_scheduler_type",           "logging_steps",      "save_strategy", "report_to"};
  const Value& flags = call.arguments.flags;
  return std::any_of(std::begin(kTrainer), std::end(kTrainer),
                     [&](std::string_view key) { return flags.find(key) != nullptr; });
}

bool read_trainer_flags(const ProgramCall& call, Launch& launch) {
  Value flags = call.arguments.flags;
  flags.set_mark(call.program.mark());
  launch.into.formats.emplace_back("Trainer arguments");
  say_method_of_script(call.name, call.program, launch);
  read_hugging_face(flags, launch, "trainer");
  refuse_flags_of_others(launch);
  return true;
}

constexpr TrainingProgram kPrograms[] = {
    // By the program's name.
    {"torchtitan", is_torchtitan, read_torchtitan_program},
    {"Axolotl", is_axolotl, read_axolotl_program},
    {"NeMo", is_nemo_launcher, read_nemo_launcher},
    {"NeMo", is_nemo_program, read_nemo_program},
    {"Megatron-LM", is_megatron_program, read_megatron_program},
    {"mason", is_mason, read_mason},
    {"open-instruct", is_open_instruct, read_open_instruct},
    {"DeepSpeed-Chat", is_deepspeed_chat, read_deepspeed_chat},
    // By what it is given.
    {"a configuration file", has_configuration, read_configuration},
    {"LLaMA-Factory", is_llama_factory_script, read_llama_factory_script},
    {"Megatron-LM", has_megatron_flags, read_program_with_megatron_flags},
    {"scripts on Trainer", is_hugging_face_script, read_hugging_face_script},
    {"DeepSpeed's file", is_script_with_deepspeed_file, read_script_with_deepspeed_file},
    {"Trainer", has_trainer_flags, read_trainer_flags},
};

}  // namespace

std::span<const TrainingProgram> training_programs() { return kPrograms; }
std::span<const TrainingProgram* const> named_programs() { return kNamed; }

bool is_training_command(std::string_view word) {
  return std::any_of(std::begin(kNamed), std::end(kNamed), [&](const TrainingProgram* program) {
    return ours_of(program->commands, word).has_value();
  });
}

void lay_over_document(Value& base, const Value& top) {
  for (const Value::Member& member : top.members()) {
    Value::Member* there = base.member(member.key);
    if (there == nullptr)
      base.members().push_back(member);
    else if (there->value.is_table() && member.value.is_table())
      lay_over_document(there->value, member.value);
    else
      *there = member;
  }
}

bool is_file_of(const Value& word, std::initializer_list<std::string_view> endings) {
  const std::string& text = word.as_string();
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return text.ends_with(ending); });
}

bool read_program(const Value& program, std::span<const Value> words, Launch& launch) {
  const std::string file = program.as_string().substr(program.as_string().rfind('/') + 1);
  const std::string name = file.ends_with(".py") ? file.substr(0, file.size() - 3) : file;
  std::vector<Value> kept;
  for (const Value& word : words)
    if (!word.as_string().empty()) kept.push_back(word);
  const ProgramCall call{program, kept, name, read_arguments(kept)};
  for (const TrainingProgram* row : named_programs())
    if (row->is_this(call)) return row->read(call, launch);
  for (const TrainingProgram& row : training_programs())
    if (row.is_this(call)) return row.read(call, launch);
  launch.into.problems.push_back({Severity::kWarning,
                                  "E602",
                                  fmt::format("the arguments of {} are not known", file),
                                  program.place(),
                                  "what it trains is not read",
                                  {}});
  return true;
}

}  // namespace steelyard
