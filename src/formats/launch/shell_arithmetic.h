// $((NNODES * 8)): whole numbers, + - * / %, brackets and comparisons; nothing when a name is not known, when it
// divides by zero or does not fit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace steelyard {

using Lookup = std::function<std::optional<std::string>(std::string_view name)>;

std::optional<std::int64_t> arithmetic(std::string_view expression, const Lookup& lookup);

}  // namespace steelyard
