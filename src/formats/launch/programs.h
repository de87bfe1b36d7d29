// The programs that a launch line may start, one row each: what a program is called by, and who reads its words.
//
//   torchrun --nproc-per-node 8 -m torchtitan.train --job.config_file llama3.toml
//                                  |                 +- words
//                                  +- program: the row "torchtitan" reads them
//
// Whose program it is decides what its flags mean: `--lora_r` is one thing to TRL and another to a script of somebody's
// own. A program that no row knows is read by nobody: what its launcher said is said, and the rest is asked for.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "formats/launch/arguments.h"
#include "formats/launch/formats.h"

namespace steelyard {

struct ProgramCall {
  const Value& program;          // as it was written: a script's path or a module
  std::span<const Value> words;  // behind it, none of them empty
  std::string name;              // without folders and ".py": "pretrain_gpt", "torchtitan.train"
  Arguments arguments;  // the words as flags; of frameworks whose names have dots: read_arguments
};

struct TrainingProgram {
  std::string_view name;  // its framework's: "torchtitan"
  bool (*is_this)(const ProgramCall& call);
  // False: it trains nothing.
  bool (*read)(const ProgramCall& call, Launch& launch);
  std::string_view commands = {};  // its own, which need no python before them: "swift|megatron"
};

// In the order in which they are asked; those that go by a program's name stand before those that go by its flags.
std::span<const TrainingProgram> training_programs();
// Those with a file of their own (training_programs.def), asked first: each goes by a name that is its own.
std::span<const TrainingProgram* const> named_programs();
// A command of one of these: `swift`, `litgpt`.
bool is_training_command(std::string_view word);

// The later document over the earlier one, table by table.
void lay_over_document(Value& base, const Value& top);

// A word that ends like a file of one of these kinds.
bool is_file_of(const Value& word, std::initializer_list<std::string_view> endings);

}  // namespace steelyard
