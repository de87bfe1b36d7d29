// Text in, values with places out; or everything that is wrong with the text.
//
//   auto document = read_document(text, "run.toml");
//   if (!document) print(document.error());
//
// Nothing is thrown, nothing is read from disk. Repeated keys are errors, depth and size are bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tl/expected.hpp>

#include "document/diagnostic.h"
#include "document/value.h"

namespace steelyard {

using ReadValue = tl::expected<Value, Diagnostics>;

ReadValue read_json(std::string_view text, std::string_view source_name);
ReadValue read_toml(std::string_view text, std::string_view source_name);
// What engines' own files are written in; plain words are typed as PyYAML types them.
// `repeated`: a key that stands twice is a warning there, and the later one counts, as PyYAML has it; absent: an error.
ReadValue read_yaml(std::string_view text, std::string_view source_name,
                    Diagnostics* repeated = nullptr);

// JSON when the name ends in .json or the text opens with a brace, else TOML.
ReadValue read_document(std::string_view text, std::string_view source_name);

// Tables and lists within each other, at most. Deeper text is refused, not followed.
constexpr int kMaximumDepth = 64;
// Values of one text, at most: each takes some hundred bytes of memory, where text takes one or two.
constexpr std::int64_t kMaximumValues = 1'000'000;
// The header of a checkpoint is the largest text of all; a run file or a config.json is far smaller.
constexpr std::size_t kMaximumDocumentBytes = std::size_t{64} << 20;
// What people write by hand, and so TOML, YAML and scripts.
constexpr std::size_t kMaximumConfigurationBytes = std::size_t{4} << 20;

}  // namespace steelyard
