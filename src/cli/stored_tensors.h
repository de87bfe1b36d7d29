// The headers of a checkpoint on disk, held against a model: `compare llama-3.1-8b ./checkpoint`.
//
//   model.safetensors                    one file
//   model.safetensors.index.json         the list of its shards, which lie beside it
//   ./checkpoint                         a folder with either
//
// Only headers are read, so a checkpoint of any size is checked in a moment.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"

namespace steelyard {

// The file to begin with when `word` names a stored checkpoint; nothing otherwise.
std::optional<std::string> stored_checkpoint(const std::string& word);

// `model`: anything that names a model. Without one (empty) only the counts by type are told.
int compare_with_checkpoint(const Invocation& invocation, const std::string& model,
                            const std::string& checkpoint);

}  // namespace steelyard
