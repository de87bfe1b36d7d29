#include "job/draft.h"

#include <fmt/format.h>

#include <utility>

namespace steelyard {

std::int64_t Draft::count_or(KeyId id, std::int64_t fallback, std::string_view reason) {
  if (const auto given = settings_.count(id)) return *given;
  assume(id, fmt::format("{}", fallback), reason);
  return fallback;
}

bool Draft::truth_or(KeyId id, bool fallback, std::string_view reason) {
  if (const auto given = settings_.truth(id)) return *given;
  assume(id, fallback ? "true" : "false", reason);
  return fallback;
}

int Draft::index_or(KeyId id, int fallback, std::string_view reason) {
  if (const auto given = settings_.name(id)) return *given;
  assume(id, std::string(key_of(id).names[static_cast<std::size_t>(fallback)]), reason);
  return fallback;
}

void Draft::assume(KeyId id, std::string value, std::string_view reason) {
  job_.assumptions.push_back({key_of(id).path, std::move(value), std::string(reason)});
}

void Draft::refuse(KeyId id, std::string_view code, std::string message, std::string label,
                   std::string help) {
  add_problem(problems_, {Severity::kError, std::string(code), std::move(message),
                          settings_.place(id), std::move(label), std::move(help)});
}

void Draft::warn(KeyId id, std::string_view code, std::string message, std::string label,
                 std::string help) {
  add_problem(problems_, {Severity::kWarning, std::string(code), std::move(message),
                          settings_.place(id), std::move(label), std::move(help)});
}

}  // namespace steelyard
