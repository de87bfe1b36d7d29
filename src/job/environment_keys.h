// Names of [environment] that are known: what `steelyard list environment` shows.
//
//   transformers    a version, "4.57"      5.17     experts are linear modules before 5 ...      models/*/modeling_*.py
//   NCCL_BUFFSIZE   not weighed            ...
//
// One row a name: what it takes, what is weighed where nobody says it, what it changes and where that was read.
#pragma once

#include <string_view>
#include <vector>

namespace steelyard {

struct EnvironmentKey {
  std::string_view name;
  std::string_view takes;   // "a version, as 4.57"
  std::string_view absent;  // what is weighed then
  std::string_view changes;
  std::string_view source;
  bool is_read = true;  // false: known to change memory, not weighed, and said so
};

const std::vector<EnvironmentKey>& environment_keys();
const EnvironmentKey* find_environment_key(std::string_view name);

}  // namespace steelyard
