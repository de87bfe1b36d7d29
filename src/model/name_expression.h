// Regular expressions that adapters' targets may be, of Python's syntax as far as names of modules need it: a whole name must match
// (peft/tuners/tuners_utils.py, check_target_module_exists: re.fullmatch).
//
//   model.language_model.layers.[\d]+.(mlp|self_attn).(up|down|gate|q|k|v|o)_proj
//
// Letters, `.`, classes, \d \w and escaped signs, groups, `|`, `*`, `+`, `?`. Matching takes time in the product of both lengths.
#pragma once

#include <string_view>

namespace steelyard {

// Whether it has what only an expression has; "*language_model*q_proj" and "self_attn.q_proj" do not.
bool is_name_expression(std::string_view target);

// False also where the expression is not understood.
bool matches_name_expression(std::string_view name, std::string_view expression);

}  // namespace steelyard
