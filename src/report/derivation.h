// `explain` as text and as JSON: every line with its formula, its numbers, its rule and the rule's
// source.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "predict/explain.h"
#include "report/style.h"

namespace steelyard {

std::string derivation_text(const Derivation& derivation, const Style& style, bool all);
nlohmann::ordered_json json_of(const Derivation& derivation);

std::string rule_text(const Rule& rule, const Style& style);
nlohmann::ordered_json json_of(const Rule& rule);

}  // namespace steelyard
