// A file that another one names, as a document.
#include "document/read.h"
#include "formats/launch/formats.h"

namespace steelyard {

std::optional<Value> named_document(Launch& launch, const Value& at) {
  const auto text = named_file(launch, at);
  if (!text) return std::nullopt;
  const std::string name = text->mark().source ? text->mark().source->name : word_of(at);
  const std::string file = word_of(at);
  ReadValue read = file.ends_with(".json") ? read_json(text->as_string(), name)
                   : file.ends_with(".toml")
                       ? read_toml(text->as_string(), name)
                       : read_yaml(text->as_string(), name, &launch.into.problems);
  if (!read) {
    for (Diagnostic& problem : read.error()) launch.into.problems.push_back(std::move(problem));
    return std::nullopt;
  }
  if (!read->is_table() || is_too_large(*read, launch.into)) return std::nullopt;
  return std::move(*read);
}

}  // namespace steelyard
