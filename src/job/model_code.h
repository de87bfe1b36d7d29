// Which model families the codes have, from data/implementations: nanotron's own code has Llama, and no Qwen3.
//
//   code_of(Implementation::kNanotron).has("qwen3", Engine::kNanotron)   false
//   codes_with("qwen3")                                                  "transformers, torchtitan, Megatron, ... have qwen3"
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/draft.h"
#include "job/job.h"

namespace steelyard {

// A family in somebody's code: the first version that has it, and the file where that is seen.
struct CodedFamily {
  std::string model_type;
  std::string since;
  std::string until;  // the last version that has it; empty: the newest does
  std::string repository, path;
  std::string note;
};

struct ModelCode {
  std::string title;     // "Megatron"
  std::string versions;  // those that were looked at
  std::vector<CodedFamily> families;

  const CodedFamily* find(std::string_view model_type) const;  // null: the code has none
};

const ModelCode& code_of(Implementation implementation);
bool has_code_of(const Architecture& model, Implementation implementation);
// "transformers, torchtitan and Megatron have qwen3"; "no code has it" where none does.
std::string codes_with(std::string_view model_type);
// Where a job's code has no such model: "nanotron has no qwen3".
std::optional<std::string> missing_code(const Job& job);
// Its sizes are weighed all the same: as if the code had it.
void warn_of_missing_code(Draft& draft);

}  // namespace steelyard
