// Calls of a Python script, with what their arguments say: read, never run.
//
//   SIZE = 2
//   args = SFTConfig(per_device_train_batch_size=SIZE, bf16=True, warmup_steps=steps // 10)
//   -> "SFTConfig" {"per_device_train_batch_size": 2, "bf16": true, "warmup_steps": null}
//
// Literals are read, lists and dictionaries of them, names that a module sets once to a literal, torch's own names (torch.bfloat16 is
// "bfloat16") and calls inside of calls ({"()": "BitsAndBytesConfig", ...}). Everything else is null: it is asked for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "document/value.h"

namespace steelyard {

struct PythonCall {
  std::string name;               // "FastLanguageModel.from_pretrained"
  std::vector<Value> positional;  // null: not read
  Value keywords = Value::table();
  Mark mark;
};

// Under this key stands the name of a call that is an argument.
constexpr std::string_view kCallName = "()";

// And under this one what a call is given by another dictionary: f(**options), which is not read.
constexpr std::string_view kMoreKeywords = "**";

// In the order of the text. Bounded: depth, items and calls.
std::vector<PythonCall> python_calls(std::string_view text, std::string_view source_name);

// The code of a notebook's cells, one after the other; of anything else nothing.
std::string notebook_code(std::string_view text);

}  // namespace steelyard
