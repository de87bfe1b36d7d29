// Whether a key was there before, in tables of any size.
//
//   RepeatedKeys keys;
//   if (keys.repeats(table, "micro_batch")) ...      else it is about to be put into the table
#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>

#include "document/value.h"

namespace steelyard {

class RepeatedKeys {
 public:
  bool repeats(const Value& table, const std::string& key) {
    constexpr std::size_t kSmall = 24;
    const auto& members = table.members();
    if (members.size() < kSmall) return table.member(key) != nullptr;
    if (seen_.empty())
      for (const auto& member : members) seen_.insert(member.key);
    return !seen_.insert(key).second;
  }

 private:
  std::unordered_set<std::string> seen_;  // filled for large tables only
};

}  // namespace steelyard
