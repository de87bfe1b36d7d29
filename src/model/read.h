// From a config.json to an architecture, or to everything that is wrong with it.
//
//   auto document = read_json(text, "config.json");
//   Diagnostics problems;
//   auto model = read_architecture(*document, "my-model", problems);
//
// The language model of a multimodal file is read from its `text_config`. Warnings go to the same
// list: a key that is not followed, a tower that is not counted.
#pragma once

#include <optional>
#include <string>

#include "document/diagnostic.h"
#include "document/value.h"
#include "model/architecture.h"

namespace steelyard {

std::optional<Architecture> read_architecture(const Value& document, std::string name,
                                              Diagnostics& diagnostics);

}  // namespace steelyard
