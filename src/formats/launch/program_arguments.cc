// What a launcher starts, by the words behind it: torchtitan and Axolotl by their names, others by their configuration file or
// by whose flags they are given.
#include <fmt/format.h>

#include <algorithm>

#include "document/read.h"
#include "formats/launch/arguments.h"
#include "formats/launch/formats.h"

namespace steelyard {
namespace {

using Words = std::span<const Value>;

void lay_over(Value& base, const Value& top) {
  for (const Value::Member& member : top.members()) {
    Value::Member* there = base.member(member.key);
    if (there == nullptr)
      base.members().push_back(member);
    else if (there->value.is_table() && member.value.is_table())
      lay_over(there->value, member.value);
    else
      *there = member;
  }
}

bool is_file_of(const Value& word, std::initializer_list<std::string_view> endings) {
  const std::string& text = word.as_string();
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return text.ends_with(ending); });
}

// `--deepspeed --deepspeed_config FILE` beside Megatron's own flags.
void read_megatron_deepspeed(const Value& flags, Launch& launch, const Value& file) {
  read_megatron(flags, launch);
  for (const char* key :
       {"engine", "training.precision", "parallel.zero_stage", "training.gradient_clip"})
    remove_path(launch.into.run, key);
  std::erase_if(launch.into.unsaid, [](const Unsaid& unsaid) {
    return unsaid.key == "training.precision" || unsaid.key == "parallel.zero_stage" ||
           unsaid.key == "training.gradient_clip";
  });
  const Value none = Value::table();
  ConfigReader reading(none, "megatron", launch.into);
  reading.say("implementation", "megatron", file);
  if (const auto document = named_document(launch, file)) read_deepspeed(*document, launch);
}

}  // namespace

std::optional<Value> named_document(Launch& launch, const Value& at) {
  const auto text = named_file(launch, at);
  if (!text) return std::nullopt;
  const std::string name = text->mark().source ? text->mark().source->name : word_of(at);
  const std::string file = word_of(at);
  ReadValue read = file.ends_with(".json")   ? read_json(text->as_string(), name)
                   : file.ends_with(".toml") ? read_toml(text->as_string(), name)
                                             : read_yaml(text->as_string(), name);
  if (!read) {
    for (Diagnostic& problem : read.error()) launch.into.problems.push_back(std::move(problem));
    return std::nullopt;
  }
  if (!read->is_table() || is_too_large(*read, launch.into)) return std::nullopt;
  return std::move(*read);
}

bool read_program(const Value& program, Words words, Launch& launch) {
  const std::string& path = program.as_string();
  const std::string name =
      path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  std::vector<Value> kept;
  for (const Value& word : words)
    if (!word.as_string().empty()) kept.push_back(word);
  if (name == "torchtitan.train" || name.starts_with("torchtitan")) {
    const Arguments arguments = read_arguments(kept, true);
    Value document = Value::table();
    document.set_mark(program.mark());
    const Value* file = arguments.flags.at("job.config_file");
    if (file == nullptr) file = arguments.flags.at("job.config-file");
    if (file != nullptr) {
      const auto read = named_document(launch, *file);
      if (!read) return true;
      document = *read;
    }
    lay_over(document, arguments.flags);
    read_torchtitan(document, launch);
    return true;
  }
  const Arguments arguments = read_arguments(kept);
  if (name == "axolotl.cli.train" || name == "axolotl") {
    for (const Value& word : arguments.words)
      if (is_file_of(word, {".yaml", ".yml"})) {
        if (const auto document = named_document(launch, word)) {
          Value whole = *document;
          lay_over(whole, arguments.flags);
          read_axolotl(whole, launch);
        }
        return true;
      }
    return false;
  }
  const Value* config = nullptr;
  for (const char* key : {"config_file", "config", "config_path"})
    if (config == nullptr) config = arguments.flags.find(key);
  if (config == nullptr && arguments.words.size() == 1 &&
      is_file_of(arguments.words[0], {".yaml", ".yml", ".json"}))
    config = &arguments.words[0];
  if (config != nullptr && config->is_string()) {
    const auto document = named_document(launch, *config);
    if (!document) return true;
    std::string_view format = format_of(*document);
    Value whole = *document;
    if (format.starts_with("llama-factory") || format == "trl" || format.empty()) {
      Value flags = arguments.flags;
      for (const char* key : {"config_file", "config", "config_path"}) remove_path(flags, key);
      lay_over(whole, flags);
      lay_over_assignments(whole, arguments.words);
      if (format.empty()) format = format_of(whole).empty() ? "trl" : format_of(whole);
    }
    return read_format(format, whole, launch);
  }
  const bool megatron = arguments.flags.find("num_layers") != nullptr ||
                        arguments.flags.find("tensor_model_parallel_size") != nullptr ||
                        arguments.flags.find("micro_batch_size") != nullptr;
  if (megatron) {
    Value flags = arguments.flags;
    flags.set_mark(program.mark());
    const Value* json = flags.find("deepspeed_config");
    if (json != nullptr && json->is_string()) {
      const Value file = *json;
      read_megatron_deepspeed(flags, launch, file);
    } else {
      read_megatron(flags, launch);
    }
    return true;
  }
  static constexpr std::string_view kTrainer[] = {"per_device_train_batch_size",
                                                  "model_name_or_path",
                                                  "gradient_accumulation_steps",
                                                  "deepspeed",
                                                  "fsdp",
                                                  "use_peft"};
  for (const std::string_view key : kTrainer)
    if (arguments.flags.find(key) != nullptr) {
      Value flags = arguments.flags;
      flags.set_mark(program.mark());
      launch.into.formats.emplace_back("Trainer arguments");
      read_hugging_face(flags, launch, "trainer");
      return true;
    }
  launch.into.problems.push_back({Severity::kWarning,
                                  "E602",
                                  fmt::format("the arguments of {} are not known", name),
                                  program.place(),
                                  "what it trains is not read",
                                  {}});
  return true;
}

}  // namespace steelyard
