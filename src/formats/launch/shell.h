// A launch script, understood without running it: variables, arrays, arithmetic, here-documents, constant
// conditions, and the #SBATCH lines on top.
//
//   GPUS=8                                  known
//   ARGS=(--num-layers 32)                  known
//   torchrun --nproc-per-node $GPUS pretrain_gpt.py "${ARGS[@]}" --data-path $DATA
//                                           words; `--num-layers` stands where the array says it, and
//                                           ${DATA} stays as it is: a hole
//
// Nothing is executed, nothing is read from disk or the environment. What a condition decides that is not known
// is left out, and said. Bounded: expansions, depth and words.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "document/diagnostic.h"
#include "document/value.h"

namespace steelyard {

// A word after expansion: a string that stands where its first letter was written.
using ShellWord = Value;

struct ShellCommand {
  std::vector<ShellWord> words;
  std::map<std::string, Value, std::less<>>
      environment;  // set for this command or exported before it
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  Value directives = Value::table();  // #SBATCH --gpus-per-node=8 -> "gpus_per_node": 8
  Value remarks = Value::table();     // # steelyard: cluster.device = "h100-sxm-80gb"
  std::map<std::string, Value, std::less<>> files;  // what here-documents write, by file name
  Diagnostics problems;
};

// What the caller exported: `bash -c '$LAUNCHER $COMMAND'` expands its variables itself.
using ShellEnvironment = std::map<std::string, Value, std::less<>>;

ShellScript read_shell(std::string_view text, std::string_view source_name,
                       const ShellEnvironment& environment = {});

// Whether a variable that nobody set is part of the word: "${DATA}/x".
bool has_hole(std::string_view word);

}  // namespace steelyard
