// The header of a safetensors file: names, shapes and types of the tensors, without their data.
//
//   bytes 0-7     length of the JSON, little-endian
//   then          {"model.norm.weight": {"dtype": "BF16", "shape": [4096], "data_offsets": [0,
//   8192]}, ...} then          the data, which nobody here reads
//
// A caller reads the first 8 bytes, asks how long the header is, reads that much and hands it over.
// A large model lies in several files (shards) beside an index that says which tensor is where.
// Nothing read is believed: lengths, offsets, shapes and file names are checked before they are
// used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "document/diagnostic.h"

namespace steelyard {

struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string type;  // as the file says it: "BF16", "F8_E4M3"
  std::int64_t elements = 0;
};
using StoredTensors = std::vector<StoredTensor>;

// The library that writes these files refuses longer headers.
constexpr std::int64_t kLongestSafetensorsHeader = 100'000'000;

// How many bytes of the file make up the length and the header; nothing when `first_bytes` has
// fewer than 8 or the length is no header's.
std::optional<std::int64_t> safetensors_header_bytes(std::string_view first_bytes);

// `bytes`: the file from its start, at least to the end of the header. `file_bytes`: its whole
// length if it is known; offsets are held to it.
tl::expected<StoredTensors, Diagnostics> read_safetensors_header(
    std::string_view bytes, std::string_view source_name,
    std::optional<std::int64_t> file_bytes = std::nullopt);

// model.safetensors.index.json: which files to read. The names are plain file names, beside the
// index.
struct ShardIndex {
  std::vector<std::string> shards;  // each once, in alphabetical order
  std::int64_t tensors = 0;         // how many it promises
  std::optional<std::int64_t> total_bytes;
};
tl::expected<ShardIndex, Diagnostics> read_shard_index(std::string_view text,
                                                       std::string_view source_name);

// Elements of all tensors by type, most first: all that can be said without a config.json.
std::vector<std::pair<std::string, std::int64_t>> elements_by_type(const StoredTensors& tensors);

}  // namespace steelyard
