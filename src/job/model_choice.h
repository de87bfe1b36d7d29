// Which model was meant: a name, a file, a table, or a size.
//
//   model = "llama-3.1-8b"                  preset; hub id or link of one
//   model = "./my-model/config.json"        a file, or the folder that holds it
//   model = { model_type = "llama", ... }   config.json's own keys
//   model = "7B"                            a stated guess
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "document/diagnostic.h"
#include "document/value.h"
#include "model/architecture.h"
#include "model/stored_quantisation.h"

namespace steelyard {

// The text of a file, or why it cannot be read ("no such file"). The face supplies it; the core touches no disk.
using ReadFile = std::function<tl::expected<std::string, std::string>(const std::string& path)>;

struct ModelChoice {
  std::shared_ptr<const Architecture> architecture;
  std::string understood;      // how the name was taken, empty when it was exact
  bool states_dropout = true;  // false: the config says nothing of dropout
  std::optional<StoredQuantisation>
      stored;  // weights that have fewer than 16 bits in the checkpoint
};

// `value` is the run file's `model`. Relative paths start at `folder`.
std::optional<ModelChoice> choose_model(const Value& value, const ReadFile& read_file,
                                        const std::string& folder, Diagnostics& problems);

}  // namespace steelyard
