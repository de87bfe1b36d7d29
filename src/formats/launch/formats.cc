#include "formats/launch/formats.h"

#include <fmt/format.h>

namespace steelyard {
namespace {

bool has_any(const Value& document, std::initializer_list<std::string_view> paths) {
  for (const std::string_view path : paths)
    if (document.at(path) != nullptr) return true;
  return false;
}

// MODEL_ARGS of Megatron-LM's tests: flags with their dashes as keys.
Value flags_of(const Value& document) {
  const Value* arguments = document.find("MODEL_ARGS");
  const Value& table = arguments != nullptr && arguments->is_table() ? *arguments : document;
  Value flags = Value::table();
  flags.set_mark(table.mark());
  for (const Value::Member& member : table.members()) {
    std::string key = member.key;
    key.erase(0, std::min(key.find_first_not_of('-'), key.size()));
    for (char& c : key)
      if (c == '-') c = '_';
    if (flags.member(key) == nullptr)
      flags.members().push_back({key, member.key_mark, member.value});
  }
  return flags;
}

std::int64_t values_in(const Value& value) {
  std::int64_t count = 1;
  if (value.is_table())
    for (const Value::Member& member : value.members()) count += values_in(member.value);
  if (value.is_array())
    for (const Value& item : value.items()) count += values_in(item);
  return count;
}

// Where a file that is named may lie: beside the one that names it, or in a folder above (names are often relative to the
// repository's root), or where the command runs; an absolute name of another machine beside it.
std::vector<std::string> places_of(const std::string& name, const std::string& folder) {
  std::vector<std::string> places;
  if (name.starts_with("/")) {
    places.push_back(name);
    const std::string base = name.substr(name.rfind('/') + 1);
    places.push_back(folder.empty() ? base : fmt::format("{}/{}", folder, base));
    return places;
  }
  std::string above = folder;
  for (int i = 0; i < 8 && !above.empty(); ++i) {
    places.push_back(fmt::format("{}/{}", above, name));
    const std::size_t slash = above.rfind('/');
    above.resize(slash == std::string::npos ? 0 : slash);
  }
  places.push_back(name);
  return places;
}

}  // namespace

bool is_too_large(const Value& document, Imported& into) {
  if (values_in(document) <= kMostLaunchValues) return false;
  into.problems.push_back({Severity::kError,
                           "E103",
                           fmt::format("more than {} values", kMostLaunchValues),
                           document.place(),
                           "no launch configuration is as large",
                           {}});
  return true;
}

std::string_view format_of(const Value& document) {
  if (!document.is_table()) return {};
  if (has_any(document,
              {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"}))
    return "deepspeed";
  if (has_any(document, {"distributed_type", "compute_environment"})) return "accelerate";
  if (has_any(document, {"base_model"})) return "axolotl";
  if (has_any(document, {"model._component_", "policy_model._component_", "tokenizer._component_"}))
    return "torchtune";
  if (has_any(document, {"trainer.num_nodes", "trainer.devices", "model.tensor_model_parallel_size",
                         "train.global_batch_size", "train.micro_batch_size"}))
    return "nemo";
  if (has_any(document, {"model.model_config", "parallelism.dp", "parallelism.pp_engine"}))
    return "nanotron";
  if (has_any(document, {"model.flavor", "job.description", "job.dump_folder", "lr_scheduler",
                         "activation_checkpoint", "parallelism.data_parallel_shard_degree"}))
    return "torchtitan";
  if (has_any(document, {"MODEL_ARGS", "tensor_model_parallel_size", "--num-layers"}) ||
      (document.find("num_layers") != nullptr && document.find("seq_length") != nullptr))
    return "megatron";
  if (const Value* model = document.find("model");
      model != nullptr && model->is_string() &&
      has_any(document, {"model_class", "dist_config", "peft_config", "kernel_config"}))
    return "llama-factory-v1";
  if (document.find("model_name_or_path") != nullptr &&
      has_any(document, {"stage", "finetuning_type", "cutoff_len", "template", "lora_rank"}))
    return "llama-factory";
  if (has_any(document,
              {"per_device_train_batch_size", "model_name_or_path", "gradient_accumulation_steps"}))
    return "trl";
  return {};
}

bool read_format(std::string_view format, const Value& document, Launch& launch) {
  if (format == "deepspeed")
    read_deepspeed(document, launch);
  else if (format == "accelerate")
    read_accelerate(document, launch);
  else if (format == "axolotl")
    read_axolotl(document, launch);
  else if (format == "torchtune")
    read_torchtune(document, launch, "");
  else if (format == "nanotron")
    read_nanotron(document, launch);
  else if (format == "torchtitan")
    read_torchtitan(document, launch);
  else if (format == "nemo")
    read_nemo(document, launch);
  else if (format == "megatron")
    read_megatron(flags_of(document), launch);
  else if (format == "llama-factory")
    read_llama_factory(document, launch);
  else if (format == "llama-factory-v1")
    read_llama_factory_v1(document, launch);
  else if (format == "trl") {
    launch.into.formats.emplace_back("Trainer arguments");
    read_hugging_face(document, launch, "trainer");
  } else
    return false;
  return true;
}

std::optional<Value> named_file(Launch& launch, const Value& at) {
  const std::string name = word_of(at);
  const auto refuse = [&](std::string_view why) {
    launch.into.problems.push_back({Severity::kError,
                                    "E100",
                                    fmt::format("cannot read {}: {}", name, why),
                                    at.place(),
                                    "named here",
                                    {}});
    return std::nullopt;
  };
  const std::size_t slash = name.rfind('/');
  for (const auto& [file, text] : launch.files)
    if (file == name || file == name.substr(slash == std::string::npos ? 0 : slash + 1) ||
        file.ends_with("/" + name))
      return text;
  if (name.find("${") != std::string::npos)
    return refuse("its name is a variable that nobody sets");
  if (!launch.read_file) return refuse("other files are not read here");
  if (++launch.depth > 16) return refuse("files that name each other");
  tl::expected<std::string, std::string> text = tl::unexpected(std::string("no such file"));
  std::string path;
  for (const std::string& place : places_of(name, launch.folder)) {
    path = place;
    text = launch.read_file(path);
    if (text) break;
  }
  --launch.depth;
  if (!text) return refuse(text.error());
  Value value = Value::string(std::move(*text));
  Mark mark;
  mark.source = source_of(path, value.as_string());
  mark.line = 1;
  value.set_mark(mark);
  return value;
}

void conclude(Launch& launch) {
  Imported& into = launch.into;
  const Value none = Value::table();
  ConfigReader reading(none, "launch", into);
  if (!launch.hugging_face) return;
  if (!reading.has("engine"))
    reading.take_default("engine", Value::string("ddp"),
                         "Trainer copies the model to every device unless told");
  if (reading.has("training.precision")) return;
  const std::string engine = word_of(*reading.said("engine"));
  if (engine == "megatron") {
    const std::string word = word_of(launch.mixed);
    const std::string precision = word == "bf16"   ? "bf16-mixed-fp32-gradients"
                                  : word == "fp16" ? "fp16-mixed"
                                                   : "fp32";
    if (!launch.mixed.is_null()) reading.say("training.precision", precision, launch.mixed);
    return;
  }
  const std::string mixed = launch.mixed.is_null() ? "no" : word_of(launch.mixed);
  const std::string load = launch.load.is_null() ? "float32" : word_of(launch.load);
  const bool halves = load == "bfloat16" || load == "torch.bfloat16" || load == "bf16";
  const bool whole = engine == "ddp";
  // Beside quantised weights PEFT keeps the rest in fp32, and autocast narrows it.
  const bool narrow = halves && !reading.has("adapter.base");
  std::string precision = "fp32";
  if (mixed == "bf16") precision = whole ? (narrow ? "bf16-pure" : "bf16-autocast") : "bf16-mixed";
  if (mixed == "fp16") precision = whole ? "fp16-autocast" : "fp16-mixed";
  if (mixed == "fp8") precision = "fp8-delayed";
  if (mixed == "no" && halves && engine != "deepspeed") precision = "bf16-pure";
  const Value& at = mixed == "no" ? launch.load : launch.mixed;
  if (at.is_null())
    reading.take_default("training.precision", Value::string(precision),
                         "neither bf16 nor fp16 is said");
  else
    reading.say("training.precision", precision, at);
}

}  // namespace steelyard
