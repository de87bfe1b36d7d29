// The formats of documents, as a table.
#include <algorithm>
#include <initializer_list>

#include "formats/launch/formats.h"
#include "formats/launch/launch.h"
#include "formats/launch/open_instruct.h"

namespace steelyard {

#define DOCUMENT(id) extern const DocumentFormat id##_document;
#include "formats/launch/document_formats.def"
#undef DOCUMENT

namespace {

#define DOCUMENT(id) &id##_document,
constexpr const DocumentFormat* kOwnFiles[] = {
#include "formats/launch/document_formats.def"
};
#undef DOCUMENT

bool has_any(const Value& document, std::initializer_list<std::string_view> paths) {
  return std::any_of(paths.begin(), paths.end(),
                     [&](std::string_view path) { return document.at(path) != nullptr; });
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
    std::replace(key.begin(), key.end(), '-', '_');
    if (flags.member(key) == nullptr)
      flags.members().push_back({key, member.key_mark, member.value});
  }
  return flags;
}

bool is_deepspeed(const Value& document) {
  return has_any(document,
                 {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"});
}

bool is_accelerate(const Value& document) {
  return has_any(document, {"distributed_type", "compute_environment"});
}

bool is_axolotl_yaml(const Value& document) { return has_any(document, {"base_model"}); }

bool is_torchtune(const Value& document) {
  return has_any(document,
                 {"model._component_", "policy_model._component_", "tokenizer._component_"});
}

void read_torchtune_document(const Value& document, Launch& launch) {
  read_torchtune(document, launch, "");
}

bool is_nemo(const Value& document) {
  return has_any(document,
                 {"trainer.num_nodes", "trainer.devices", "model.tensor_model_parallel_size",
                  "train.global_batch_size", "train.micro_batch_size"});
}

bool is_nanotron(const Value& document) {
  return has_any(document, {"model.model_config", "parallelism.dp", "parallelism.pp_engine"});
}

bool is_torchtitan_toml(const Value& document) {
  return has_any(document, {"model.flavor", "job.description", "job.dump_folder", "lr_scheduler",
                            "activation_checkpoint", "parallelism.data_parallel_shard_degree"});
}

bool is_llama_factory(const Value& document) {
  return document.find("model_name_or_path") != nullptr &&
         has_any(document, {"stage", "finetuning_type", "cutoff_len", "template", "lora_rank"});
}

bool is_megatron(const Value& document) {
  return has_any(document, {"MODEL_ARGS", "tensor_model_parallel_size", "--num-layers"}) ||
         (document.find("num_layers") != nullptr && document.find("seq_length") != nullptr);
}

void read_megatron_document(const Value& document, Launch& launch) {
  read_megatron(flags_of(document), launch);
}

bool is_llama_factory_v1(const Value& document) {
  const Value* model = document.find("model");
  return model != nullptr && model->is_string() &&
         has_any(document, {"model_class", "dist_config", "peft_config", "kernel_config"});
}

bool is_trainer(const Value& document) {
  return has_any(document, {"per_device_train_batch_size", "model_name_or_path",
                            "gradient_accumulation_steps"});
}

void read_trainer(const Value& document, Launch& launch) {
  launch.into.formats.emplace_back("Trainer arguments");
  read_hugging_face(document, launch, "trainer");
}

using Says = DocumentFormat::Says;
constexpr DocumentFormat kFormats[] = {
    {"deepspeed", "DeepSpeed JSON", is_deepspeed, read_deepspeed, "deepspeed", Says::kPart},
    {"accelerate", "Accelerate configuration", is_accelerate, read_accelerate, "accelerate",
     Says::kPart},
    {"axolotl", "Axolotl YAML", is_axolotl_yaml, read_axolotl, "axolotl"},
    {"torchtune", "torchtune YAML", is_torchtune, read_torchtune_document},
    {"nemo", "NeMo YAML", is_nemo, read_nemo},
    {"nanotron", "nanotron YAML", is_nanotron, read_nanotron, "nanotron"},
    {"torchtitan", "torchtitan TOML", is_torchtitan_toml, read_torchtitan, "torchtitan"},
    // Before Megatron's own: LLaMA-Factory passes Megatron-core's sizes on by the same names.
    {"llama-factory", "LLaMA-Factory YAML", is_llama_factory, read_llama_factory, "llama-factory"},
    {"megatron", "Megatron-LM arguments", is_megatron, read_megatron_document, "megatron"},
    {"llama-factory-v1", "LLaMA-Factory v1 YAML", is_llama_factory_v1, read_llama_factory_v1},
    {"open-instruct", "open-instruct (Trainer-like arguments)", is_open_instruct_yaml,
     read_open_instruct_yaml},
    {"trl", "Trainer arguments", is_trainer, read_trainer, "accelerate", Says::kFlags},
};

}  // namespace

std::span<const DocumentFormat> document_formats() { return kFormats; }

std::string_view format_of(const Value& document) {
  if (!document.is_table()) return {};
  for (const DocumentFormat* format : kOwnFiles)
    if (format->is_this(document)) return format->name;
  for (const DocumentFormat& format : kFormats)
    if (format.is_this(document)) return format.name;
  return {};
}

bool read_format(std::string_view name, const Value& document, Launch& launch) {
  for (const DocumentFormat* format : kOwnFiles)
    if (format->name == name) {
      format->read(document, launch);
      return true;
    }
  for (const DocumentFormat& format : kFormats)
    if (format.name == name) {
      format.read(document, launch);
      return true;
    }
  return false;
}

std::string_view target_of(const Imported& imported) {
  for (const Says says : {Says::kRun, Says::kPart, Says::kFlags})
    for (const DocumentFormat& format : kFormats)
      if (format.says == says && !format.target.empty() &&
          std::find(imported.formats.begin(), imported.formats.end(), format.label) !=
              imported.formats.end())
        return format.target;
  const bool launched = std::find(imported.formats.begin(), imported.formats.end(),
                                  "accelerate launch") != imported.formats.end();
  return launched ? "accelerate" : std::string_view{};
}

}  // namespace steelyard
