#include "cli/command.h"

namespace steelyard {

const std::string* Invocation::value(std::string_view flag) const {
  const auto found = flags.find(flag);
  return found == flags.end() || found->second.empty() ? nullptr : &found->second.back();
}

std::size_t Invocation::count(std::string_view flag) const {
  const auto found = flags.find(flag);
  return found == flags.end() ? 0 : found->second.size();
}

}  // namespace steelyard
