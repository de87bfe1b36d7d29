// TRL's own command: trl sft --config sft.yaml --accelerate_config zero3 --num_processes 4 --learning_rate 2e-4
// trl/cli.py and trl/scripts (0.24): the script's arguments win over --config's; what is accelerate's goes to its launcher, with
// one of trl/accelerate_configs by name, or a file.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "document/read.h"
#include "formats/launch/arguments.h"
#include "formats/launch/formats.h"

namespace steelyard {
namespace {

struct NamedConfig {
  std::string_view name, text;
};
constexpr std::array kConfigs = {
    NamedConfig{"single_gpu", "distributed_type: 'NO'\nmixed_precision: bf16\nnum_processes: 1\n"},
    NamedConfig{"multi_gpu",
                "distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 8\n"},
    NamedConfig{"zero1",
                "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\n"
                "deepspeed_config:\n  gradient_accumulation_steps: 1\n  zero_stage: 1\n"},
    NamedConfig{"zero2",
                "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\n"
                "deepspeed_config:\n  offload_optimizer_device: none\n"
                "  offload_param_device: none\n  zero_stage: 2\n"},
    NamedConfig{"zero3",
                "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\n"
                "deepspeed_config:\n  offload_optimizer_device: none\n"
                "  offload_param_device: none\n  zero3_save_16bit_model: true\n  zero_stage: 3\n"},
    NamedConfig{"fsdp1",
                "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n"
                "  fsdp_activation_checkpointing: false\n"
                "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                "  fsdp_backward_prefetch: BACKWARD_PRE\n  fsdp_forward_prefetch: true\n"
                "  fsdp_offload_params: false\n  fsdp_reshard_after_forward: FULL_SHARD\n"
                "  fsdp_state_dict_type: FULL_STATE_DICT\n  fsdp_use_orig_params: true\n"
                "  fsdp_version: 1\n"},
    NamedConfig{"fsdp2",
                "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n"
                "  fsdp_activation_checkpointing: false\n"
                "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                "  fsdp_offload_params: false\n  fsdp_reshard_after_forward: true\n"
                "  fsdp_state_dict_type: FULL_STATE_DICT\n  fsdp_version: 2\n"},
};

// The launcher's keys among all that were said: --num_processes 4 stands with the script's.
constexpr std::array<std::string_view, 5> kLauncher = {
    "num_processes", "num_machines", "mixed_precision", "machine_rank", "gpu_ids"};

// What accelerate launches with; nothing where nobody says it.
std::optional<Value> launcher_document(const Value& said, Launch& launch) {
  Value document = Value::table();
  const Value* config = said.find("accelerate_config");
  if (config == nullptr) config = said.find("config_file");
  if (config != nullptr) {
    const std::string name = word_of(*config);
    const auto* const known = std::find_if(
        kConfigs.begin(), kConfigs.end(), [&](const NamedConfig& one) { return one.name == name; });
    if (known != kConfigs.end()) {
      const ReadValue read = read_yaml(known->text, fmt::format("TRL's {}.yaml", name));
      if (!read) return std::nullopt;
      document = *read;
    } else if (auto read = named_document(launch, *config)) {
      document = std::move(*read);
    } else {
      return std::nullopt;
    }
  }
  for (const std::string_view key : kLauncher)
    if (const Value* value = said.find(key)) set_path(document, key, *value, value->place());
  return document.members().empty() ? std::nullopt : std::optional(std::move(document));
}

}  // namespace

bool read_trl(std::span<const Value> words, Launch& launch) {
  if (words.empty()) return false;
  static constexpr std::string_view kMethods = "sft=sft|dpo=dpo|kto=kto|grpo=grpo|reward=rm";
  const std::string command = words.front().as_string();
  const auto method = ours_of(kMethods, command);
  if (!method && command != "rloo") return false;
  launch.into.formats.push_back(fmt::format("trl {}", command));
  const Value none = Value::table();
  ConfigReader reading(none, "trl", launch.into);
  if (!method) {
    reading.refuse(words.front(), fmt::format("trl {} is not weighed", command),
                   "its losses and models are not known here", "trl sft is");
    return true;
  }
  reading.say("training.method", *method, words.front());
  const Arguments arguments = read_arguments(words.subspan(1));
  Value said = Value::table();
  said.set_mark(words.front().mark());
  if (const Value* file = arguments.flags.find("config")) {
    const auto read = named_document(launch, *file);
    if (!read) return true;
    said = *read;
  }
  for (const Value::Member& member : arguments.flags.members()) {
    if (member.key == "config") continue;
    if (Value::Member* there = said.member(member.key))
      *there = member;
    else
      said.members().push_back(member);
  }
  const std::optional<Value> launcher = launcher_document(said, launch);
  Value script = said;
  for (const char* key : {"accelerate_config", "config_file"}) remove_path(script, key);
  for (const std::string_view key : kLauncher) remove_path(script, key);
  launch.into.formats.emplace_back("Trainer arguments");
  launch.trl = true;
  read_hugging_face(script, launch, "trainer");
  if (!launcher) {
    reading.lacks("cluster.devices",
                  "accelerate starts one process for each device of the machine");
    return true;
  }
  Value whole = *launcher;
  if (whole.find("distributed_type") == nullptr) {
    const Value* processes = whole.find("num_processes");
    const bool several = processes != nullptr && count_of(*processes).value_or(1) > 1;
    set_path(whole, "distributed_type", Value::string(several ? "MULTI_GPU" : "NO"),
             whole.members().front().value.place());
  }
  read_accelerate(whole, launch);
  return true;
}

}  // namespace steelyard
