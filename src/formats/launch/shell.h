// A launch script, understood without running it: variables, arrays, arithmetic, conditions, loops, functions,
// here-documents and other scripts that it reads, and the #SBATCH lines on top.
//
//   GPUS=${1:-8}                            known: what the caller gave, or 8
//   if [ $GPUS -gt 4 ]; then BATCH=2; else BATCH=1; fi
//   ARGS=(--num-layers 32)
//   torchrun --nproc-per-node $GPUS pretrain_gpt.py "${ARGS[@]}" --data-path $DATA
//                                           words; `--num-layers` stands where the array says it, and
//                                           ${DATA} stays as it is: a hole
//
// Nothing is executed; files are read only by the function that the caller gives. Where a condition is not known, both
// branches are read: what they agree about is known, the rest is a hole with a reason. Bounded: expansions, depth,
// commands, words.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "document/diagnostic.h"
#include "document/value.h"

namespace steelyard {

// A word after expansion: a string that stands where its first letter was written.
using ShellWord = Value;

// What the caller exported, by name.
using ShellEnvironment = std::map<std::string, Value, std::less<>>;

struct ShellCommand {
  std::vector<ShellWord> words;
  ShellEnvironment environment;    // set for this command or exported before it
  std::optional<Place> condition;  // it may not run: this is not known
};

// Why a variable is a hole, beside that nobody sets it.
struct ShellHole {
  std::string cause;     // of these variables one is not known: "1"; empty: `what`
  std::string what;      // "what a command prints", "decided by a condition that is not known"
  bool settable = true;  // a value from the environment would count: no assignment comes after it
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  Value directives = Value::table();  // #SBATCH --gpus-per-node=8 -> "gpus_per_node": 8
  Value remarks = Value::table();     // # steelyard: cluster.device = "h100-sxm-80gb"
  std::map<std::string, Value, std::less<>> files;  // what the script writes, by file name
  std::map<std::string, std::string, std::less<>>
      unwritten;  // files that it writes with what is not known here: why
  std::map<std::string, ShellHole, std::less<>> holes;
  Diagnostics problems;
};

struct ShellFile {
  std::string path;
  std::string text;
};

struct ShellContext {
  ShellEnvironment environment = {};
  std::optional<std::vector<std::string>> arguments =
      {};  // $1, $2, ...; absent: the caller did not say
  // A script or template that this one names; nothing: it cannot be read.
  std::function<std::optional<ShellFile>(const std::string& name)> read_file = {};
  // A framework's own launcher, whose words a reader knows: run_train.sh. It is not followed.
  std::function<bool(std::string_view name)> is_known_program = {};
};

ShellScript read_shell(std::string_view text, std::string_view source_name,
                       const ShellContext& context = {});

// Whether a variable that nobody set is part of the word: "${DATA}/x".
bool has_hole(std::string_view word);
// The variable whose hole is all of the word; empty.
std::string_view only_hole(std::string_view word);

}  // namespace steelyard
