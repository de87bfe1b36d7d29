// torchtitan since it left TOML: a configuration is a Python function, asked for by its name (torchtitan/models/*/config_registry.py,
// August 2026). What the usual ones say stands here; flags are laid over them.
//
//   torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 --config llama3_8b --parallelism.tensor_parallel_degree 2
//   MODULE=llama3 CONFIG=llama3_8b NGPU=8 ./run_train.sh
//   CONFIG_FILE=llama3_8b.toml ./run_train.sh           before, with TOML
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "formats/launch/arguments.h"
#include "formats/launch/programs.h"

namespace steelyard {
namespace {

struct NamedConfiguration {
  std::string_view name, module, flavor;
  std::int64_t length,
      sequences;  // max_context_length, and num_tokens_per_microbatch_per_dp_rank by it
  std::string_view recompute;  // SelectiveAC, FullAC, or none
  std::int64_t tensor = 1, expert = 1;
  std::string_view schedule = {};
  std::string_view converter = {};  // arithmetic of few bits
};
constexpr std::array kConfigurations = {
    NamedConfiguration{"llama3_debugmodel", "llama3", "debugmodel", 2048, 8, "selective", 1, 1,
                       "Interleaved1F1B"},
    NamedConfiguration{"llama3_8b", "llama3", "8B", 8192, 1, "selective"},
    NamedConfiguration{"llama3_70b", "llama3", "70B", 8192, 8, "full", 8},
    NamedConfiguration{
        "llama3_405b", "llama3", "405B", 8192, 2, "full", 8, 1, {}, "Float8LinearConverter"},
    NamedConfiguration{"qwen3_0_6b", "qwen3", "0.6B", 4096, 4, "selective"},
    NamedConfiguration{"qwen3_1_7b", "qwen3", "1.7B", 4096, 4, "selective"},
    NamedConfiguration{"sft_qwen3_8b_math", "qwen3", "8B", 2048, 1, "selective"},
    NamedConfiguration{"qwen3_14b", "qwen3", "14B", 4096, 4, "full"},
    NamedConfiguration{"qwen3_32b", "qwen3", "32B", 4096, 2, "full"},
    NamedConfiguration{"deepseek_v3_16b", "deepseek_v3", "16B", 4096, 4, "selective", 1, 8,
                       "Interleaved1F1B"},
    NamedConfiguration{"deepseek_v3_671b", "deepseek_v3", "671B", 4096, 4, "selective", 1, 2,
                       "Interleaved1F1B"},
    NamedConfiguration{"gpt_oss_20b", "gpt_oss", "20b", 8192, 1, "full"},
    NamedConfiguration{"gpt_oss_120b", "gpt_oss", "120b", 8192, 1, "full"},
};

// As TOML said the same.
Value document_of(const NamedConfiguration& one) {
  Value document = Value::table();
  Place place;
  place.source = fmt::format("torchtitan's {}", one.name);
  place.line = 1;
  const auto put = [&](std::string_view path, Value value) {
    value.set_mark(mark_of(place));
    set_path(document, path, std::move(value), place);
  };
  document.set_mark(mark_of(place));
  put("model.name", Value::string(std::string(one.module)));
  put("model.flavor", Value::string(std::string(one.flavor)));
  put("training.seq_len", Value::integer(one.length));
  put("training.local_batch_size", Value::integer(one.sequences));
  put("activation_checkpoint.mode", Value::string(std::string(one.recompute)));
  if (one.recompute == "selective")
    put("activation_checkpoint.selective_ac_option", Value::string("op"));
  if (one.tensor > 1) put("parallelism.tensor_parallel_degree", Value::integer(one.tensor));
  if (one.expert > 1) put("parallelism.expert_parallel_degree", Value::integer(one.expert));
  if (!one.schedule.empty())
    put("parallelism.pipeline_parallel_schedule", Value::string(std::string(one.schedule)));
  return document;
}

// Tokens are counted there, and sequences here.
void translate_tokens(Value& document) {
  const Value* length = document.at("training.max_context_length");
  if (length != nullptr) {
    const Value said = *length;
    set_path(document, "training.seq_len", said, said.place());
    remove_path(document, "training.max_context_length");
  }
  const Value* whole = document.at("training.seq_len");
  const std::int64_t tokens = whole == nullptr ? 2048 : count_of(*whole).value_or(0);
  for (const auto& [theirs, ours] :
       {std::pair{"training.num_tokens_per_microbatch_per_dp_rank", "training.local_batch_size"},
        std::pair{"training.num_tokens_per_train_step", "training.global_batch_size"}}) {
    const Value* said = document.at(theirs);
    if (said == nullptr || tokens < 1 || count_of(*said).value_or(0) < tokens) continue;
    Value sequences = Value::integer(*count_of(*said) / tokens);
    const Place place = said->place();
    sequences.set_mark(said->mark());
    remove_path(document, theirs);
    set_path(document, ours, std::move(sequences), place);
  }
}

void read_named(const Value* module, const Value* name, const Value& flags, Launch& launch,
                const Value& at) {
  const std::string word = name == nullptr ? "llama3_debugmodel" : word_of(*name);
  const auto* const found =
      std::find_if(kConfigurations.begin(), kConfigurations.end(),
                   [&](const NamedConfiguration& one) { return one.name == word; });
  const bool known = found != kConfigurations.end();
  ConfigReader reading(flags, "torchtitan", launch.into);
  const Value& place = name != nullptr ? *name : at;
  if (!known) {
    launch.into.formats.emplace_back("torchtitan configuration");
    reading.say("implementation", "torchtitan", at);
    for (const char* key : {"model", "training.micro_batch", "training.sequence_length"})
      reading.lacks(
          key, fmt::format("--config {}{}{} is a function of torchtitan's that is not known",
                           module == nullptr ? "" : word_of(*module), module == nullptr ? "" : ".",
                           word));
    return;
  }
  Value document = document_of(*found);
  lay_over_document(document, flags);
  translate_tokens(document);
  if (!found->converter.empty())
    reading.unweighed(place, found->converter, "products in 8 bits beside weights of 32");
  reading.take_default("training.loss", Value::string("chunked"),
                       "torchtitan's configurations take the loss in chunks");
  if (!truth_of(document.at("training.disable_cuda_graphs") == nullptr
                    ? Value::boolean(false)
                    : *document.at("training.disable_cuda_graphs"))
           .value_or(false))
    reading.warn(place, "CUDA graphs of the step", "their own memory is not weighed",
                 "--training.disable_cuda_graphs has none");
  read_torchtitan(document, launch);
}

bool is_registry(const ProgramCall& call) {
  if (call.name == "run_train.sh") return true;
  if (!call.name.starts_with("torchtitan")) return false;
  const Value flags = read_arguments(call.words, true).flags;
  const Value* config = flags.find("config");
  return flags.find("module") != nullptr || (config != nullptr && config->is_string());
}

bool read_registry(const ProgramCall& call, Launch& launch) {
  Value flags = read_arguments(call.words, true).flags;
  flags.set_mark(call.program.mark());
  const auto variable = [&](const char* name) -> const Value* {
    if (call.name != "run_train.sh" || launch.environment == nullptr) return nullptr;
    const auto found = launch.environment->find(name);
    return found == launch.environment->end() ? nullptr : &found->second;
  };
  if (call.name == "run_train.sh") {
    const Value none = Value::table();
    ConfigReader reading(none, "torchtitan", launch.into);
    if (const Value* devices = variable("NGPU"); devices != nullptr && count_of(*devices))
      reading.say("cluster.devices", Value::integer(*count_of(*devices)), *devices);
    else if (!reading.has("cluster.devices"))
      reading.take_default("cluster.devices", Value::integer(8), "run_train.sh starts 8 processes");
    if (const Value* file = variable("CONFIG_FILE")) {
      const auto document = named_document(launch, *file);
      if (!document) return true;
      Value whole = *document;
      lay_over_document(whole, flags);
      read_torchtitan(whole, launch);
      return true;
    }
  }
  std::optional<Value> module;
  std::optional<Value> name;
  for (const auto& [key, from, into] :
       {std::tuple{"module", "MODULE", &module}, std::tuple{"config", "CONFIG", &name}}) {
    const Value* said = flags.find(key);
    if (said == nullptr) said = variable(from);
    if (said != nullptr) *into = *said;
    remove_path(flags, key);
  }
  read_named(module ? &*module : nullptr, name ? &*name : nullptr, flags, launch, call.program);
  return true;
}

}  // namespace

extern const TrainingProgram torchtitan_registry_program = {"torchtitan by name", is_registry,
                                                            read_registry, "run_train.sh"};

}  // namespace steelyard
