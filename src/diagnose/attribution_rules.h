// What gives a live byte to a pile: one row a rule, the strongest first.
//
//   A4   autograd's thread    "No Python frames where other allocations have them: ..."
//
// `steelyard explain A4` prints a row.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace steelyard {

struct AttributionRule {
  std::uint8_t number;     // 4 is A4
  std::string_view name;   // "A4"
  std::string_view title;  // "autograd's thread"
  std::string_view what;   // sentences
  std::string_view needs;  // what a file must hold for it to decide
};

std::span<const AttributionRule> attribution_rules();
const AttributionRule* find_attribution_rule(std::string_view name);

}  // namespace steelyard
