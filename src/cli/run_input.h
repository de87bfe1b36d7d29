// From the words of the command line to a run file, and from there to a job.
//
//   RUN     run.toml, run.json, - (stdin)                     the file itself
//   MODEL   llama-3.1-8b, ./my-model, config.json, 7b         a run file that says only `model`
//   LAUNCH  axolotl.yaml, ds_config.json, job.sbatch          read as `steelyard import` reads it
//
// Flags are laid over it: the later word wins, and errors name the flag.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "cli/command.h"
#include "document/value.h"
#include "formats/launch/launch.h"
#include "job/read.h"
#include "plan/sweep.h"
#include "report/run_file_text.h"

namespace steelyard {

struct RunInput {
  std::string tool;    // whose configuration it was, as `export` names it; empty: a run file
  std::string word;    // as typed
  std::string name;    // for headings: the file without folder and ending, or the model
  Value document;      // as written
  std::string text;    // of a run file; empty for a model
  bool toml = false;   // `text` can be edited in place
  std::string folder;  // relative paths of the document start here
  std::shared_ptr<const Imported> imported;  // of a launch file: what was read, and where
};

// The text of a configuration; a problem when it cannot be read, or is larger than any.
tl::expected<std::string, Diagnostics> configuration_text(const std::string& word);

// How a launch file reads the files that it names, and what its own is called.
LaunchContext launch_context_of(const std::string& path);
std::string source_name_of(const std::string& path);

// A launch configuration as a run file; other files that it names are read beside it.
Imported import_file(const std::string& path, std::string_view text);

tl::expected<RunInput, Diagnostics> read_run(const std::string& word);

// What is to know of a launch file that was read: keys that were not understood, branches that were not followed.
Diagnostics warnings_of_import(const RunInput& input);

// The keys that the flags said, as edits of the document.
std::vector<KeyEdit> edits_of(const std::vector<SaidKey>& keys);
void lay_over(Value& document, const std::vector<KeyEdit>& edits);

// The same for a suggestion: "parallel.context", "2".
KeyEdit edit_of(std::string_view key, std::string_view text, std::string_view source);

// The model alone, for questions that need no device.
tl::expected<std::shared_ptr<const Architecture>, Diagnostics> model_of(const RunInput& input);

// config.json of a model that is named by its file or folder; nothing for presets and names of a hub.
std::optional<Value> model_file_of(const Value& document, const std::string& folder);

tl::expected<Job, Diagnostics> job_of(const Value& document, const std::string& folder);

// Document in, prediction or problems out; overflow is a problem like any other. `by`: predict or estimate.
Weighed weigh_document(const Value& document, const std::string& folder,
                       Prediction (*by)(const Job&) = predict);

// The arguments that weigh this again: the words and the keys as typed, quoted where a shell needs it.
std::string arguments_of(const Invocation& invocation);

}  // namespace steelyard
