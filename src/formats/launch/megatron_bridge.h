// What Megatron-Bridge says otherwise than Megatron-LM and NeMo 1.x: Python objects, recipes, its own adapters.
//
// Two forms are written. A whole configuration (ConfigContainer.to_yaml, run_config.yaml beside a checkpoint) names its
// classes under _target_ and says everything. Overrides (conf/*.yaml, `section.key=value` of a command) say what differs
// from a recipe, which is Python: what they leave out is the recipe's, and said to be so.
#pragma once

#include <string_view>

#include "formats/launch/mapping.h"

namespace steelyard {

void translate_bridge(ConfigReader& reading, Value& flags);

// A flag of Megatron-LM, said where `at` is; the first one stays.
void put_flag(Value& flags, std::string_view name, Value value, const Value& at);

// Flags that a framework adds of itself are marked by "<why>" in the place of a file: each is listed as not said, with that.
void list_added_flags(Imported& into);

}  // namespace steelyard
