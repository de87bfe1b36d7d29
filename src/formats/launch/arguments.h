// Flags as a document: what argparse, HfArgumentParser and tyro would make of the words behind a script.
//
//   --bf16 --window-size 128 0 --lr=1e-4 --training.steps 10
//   {"bf16": true, "window_size": [128, 0], "lr": 1e-4, "training": {"steps": 10}}
//
// Dashes inside a name are underscores; of a flag that is given twice the later one counts.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "document/value.h"

namespace steelyard {

struct Arguments {
  Value flags = Value::table();
  std::vector<Value> words;  // what stands before the first flag
};

// `dotted`: a dot in a name opens a table.
Arguments read_arguments(std::span<const Value> words, bool dotted = false);

// The same for `key=value` words, as OmegaConf reads them.
void lay_over_assignments(Value& document, std::span<const Value> words);

// The flags of a table, one with its values a string, quoted for a shell: `--seq-length 4096`. `dash`: names with dashes, as Megatron writes them.
std::vector<std::string> argument_words(const Value& flags, bool dash);

// A text that a reader of flags takes for one: -x, and not -1.
bool begins_like_a_flag(const Value& value);

}  // namespace steelyard
