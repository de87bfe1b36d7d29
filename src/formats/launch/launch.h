// Launch configurations of training engines to run files, and back.
//
//   Imported imported = import_launch(text, "axolotl.yaml", {.read_file = ..., .folder = "."});
//   imported.run                 a run file; every value stands where it was written
//   imported.unsaid              defaults that were taken, and what nobody says
//
//   Exported exported = export_launch(run, "axolotl", {.slurm = false});
//   exported.files               axolotl.yaml and launch.sh, complete
//
// Read: scripts (shell, sbatch), command lines, DeepSpeed JSON, Accelerate YAML, Trainer and TRL arguments, torchtitan
// TOML, Megatron-LM arguments, NeMo, nanotron, Axolotl, LLaMA-Factory and torchtune YAML; recognised by what they say.
// Nothing is executed.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "document/value.h"
#include "formats/launch/mapping.h"
#include "job/job.h"
#include "job/model_choice.h"

namespace steelyard {

struct LaunchContext {
  ReadFile read_file;  // of files that are named; absent: none can be read
  std::string folder;  // relative names start here
  // What a script is given: variables, and its own words ($1, $2, ...); absent: nobody says.
  std::map<std::string, Value, std::less<>> environment = {};
  std::optional<std::vector<std::string>> arguments = {};
  std::vector<std::string> roots = {};  // relative names are also looked for below these
};

// Whether this text is somebody's launch configuration, and not a run file or a model's config.json.
bool is_launch_file(std::string_view text, std::string_view name);

// Whether a word of the command line is a command of its own: "accelerate launch train.py --bf16".
bool is_launch_command(std::string_view word);

Imported import_launch(std::string_view text, std::string_view name,
                       const LaunchContext& context = {});

// What was recognised, what was read with its origin, what is unsaid, what is only carried: for a person.
std::string import_report(const Imported& imported);

struct ExportedFile {
  std::string name;
  std::string text;
};

struct Exported {
  std::vector<ExportedFile> files;  // the script that launches comes last
  std::vector<ConfigWriter::Loss> losses;
  Diagnostics problems;
  // One script that writes the other files and launches: what can be piped to a shell, or imported again.
  std::string script;
};

// "recompute.every = 2: megatron has no key for it"; without a value where a default is meant.
std::string words_of(const ConfigWriter::Loss& loss);

struct ExportChoice {
  bool slurm = false;                              // with #SBATCH lines, for sbatch
  std::string predicted;                           // a line of the prediction, as a comment
  std::string name = "run";                        // of the job
  std::vector<ConfigWriter::Loss> lost = {};       // known beside what the writer itself leaves out
  std::set<std::string, std::less<>> untold = {};  // keys that nobody said, and that nobody misses
};

// "deepspeed", "accelerate", "fsdp2", "torchtitan", "megatron", "nanotron", "axolotl", "llama-factory"
std::span<const std::string_view> export_targets();
// The target that a run's engine has of itself: what `export slurm` launches.
std::string_view target_of(const Value& run);
// The target whose files these were; empty where none is written for them, or a command alone was read.
std::string_view target_of(const Imported& imported);

Exported export_launch(const Value& run, std::string_view target, const ExportChoice& choice = {});

// Sizes that a table of config.json leaves to its family, written in: another family's code has other defaults.
void say_sizes(Value& run, const Architecture& model);

// What a target is of itself, said where the run says nothing: megatron is an engine, torchtitan its model code.
void settle_for(Value& run, std::string_view target);

// Keys that divide a run and for which a target's files have no word: a plan for it leaves them at one.
std::vector<std::string_view> divisions_without_words(std::string_view target);

// The run with its job's assumptions written in: an engine's file must say what a run file may leave out.
Value completed(const Value& run, const Job& job);

}  // namespace steelyard
