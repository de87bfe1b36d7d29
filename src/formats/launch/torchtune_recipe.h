// Which of torchtune's recipes runs a configuration: the file does not say it in a key, and everything depends on it.
//
//   # To launch on 4 devices, run the following command from root:
//   #   tune run --nproc_per_node 4 full_finetune_distributed --config llama3_1/8B_full
//
// A `*_distributed` recipe is always FSDP2, on one device too; all others run one process (recipes/*.py).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "document/value.h"

namespace steelyard {

struct TorchtuneRecipe {
  enum class Ranks { kUnknown, kOne, kFsdp2 };
  Ranks ranks = Ranks::kUnknown;
  std::string name;                       // "lora_dpo_distributed"; empty where a key alone decides
  std::string why;                        // "its header names full_finetune_distributed"
  std::optional<std::int64_t> processes;  // of the command in the header
  Mark mark;
};

// `told`: of the launch line; empty: from the file's header, then from keys that one kind of recipe alone has, then from its name.
TorchtuneRecipe torchtune_recipe(const Value& document, std::string_view told);

}  // namespace steelyard
