#include "model/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "document/read.h"
#include "document/value.h"
#include "quantity/checked.h"

namespace steelyard {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMostDimensions = 16;

struct StoredType {
  std::string_view name;
  std::int64_t bits;
};
constexpr std::array kTypes = {
    StoredType{"F64", 64},    StoredType{"I64", 64},    StoredType{"U64", 64},
    StoredType{"F32", 32},    StoredType{"I32", 32},    StoredType{"U32", 32},
    StoredType{"F16", 16},    StoredType{"BF16", 16},   StoredType{"I16", 16},
    StoredType{"U16", 16},    StoredType{"F8_E4M3", 8}, StoredType{"F8_E5M2", 8},
    StoredType{"F8_E8M0", 8}, StoredType{"I8", 8},      StoredType{"U8", 8},
    StoredType{"BOOL", 8},    StoredType{"F4", 4},
};

Diagnostic fault(std::string message, const Place& place, std::string label = {}) {
  return {Severity::kError, "E309", std::move(message), place, std::move(label), {}};
}

Diagnostics whole_file_fault(std::string_view source_name, std::string message) {
  Place place;
  place.source = source_name;
  return {fault(std::move(message), place)};
}

// Reads one member of the header; a fault is added to `problems`.
class TensorReader {
 public:
  TensorReader(std::optional<std::int64_t> data_bytes, Diagnostics& problems)
      : data_bytes_(data_bytes), problems_(problems) {}

  std::optional<StoredTensor> read(const Value::Member& member) {
    const Value* type = member.value.find("dtype");
    const Value* shape = member.value.find("shape");
    const Value* offsets = member.value.find("data_offsets");
    if (type == nullptr || !type->is_string() || shape == nullptr || !shape->is_array() ||
        offsets == nullptr || !offsets->is_array() || offsets->items().size() != 2)
      return refuse(member, "has no dtype, shape and two data_offsets");
    StoredTensor tensor{member.key, {}, type->as_string(), 0};
    if (shape->items().size() > kMostDimensions) return refuse(member, "has too many dimensions");
    for (const Value& item : shape->items()) {
      if (!item.is_integer() || item.as_integer() < 0)
        return refuse(member, "has a dimension that is no count");
      tensor.shape.push_back(item.as_integer());
    }
    const Value& begin = offsets->items()[0];
    const Value& end = offsets->items()[1];
    if (!begin.is_integer() || !end.is_integer() || begin.as_integer() < 0 ||
        end.as_integer() < begin.as_integer())
      return refuse(member, "has offsets that are no stretch of bytes");
    if (data_bytes_ && end.as_integer() > *data_bytes_)
      return refuse(member, "ends behind the end of the file");
    try {
      Checked elements = 1;
      for (const std::int64_t dimension : tensor.shape) elements = elements * Checked(dimension);
      tensor.elements = elements.value();
      const std::int64_t bytes = end.as_integer() - begin.as_integer();
      if (!fits(tensor, bytes))
        return refuse(member,
                      fmt::format("takes {} bytes, which its shape and type do not", bytes));
    } catch (const OverflowError&) {
      return refuse(member, "has more elements than 64 bits count");
    }
    return tensor;
  }

 private:
  // Types not known here are not checked: the format grows.
  static bool fits(const StoredTensor& tensor, std::int64_t bytes) {
    for (const StoredType& type : kTypes)
      if (type.name == tensor.type)
        return ceil_divide(Checked(tensor.elements) * Checked(type.bits), 8) == Checked(bytes);
    return true;
  }
  std::optional<StoredTensor> refuse(const Value::Member& member, std::string_view what) {
    add_problem(problems_, fault(fmt::format("tensor \"{}\" {}", member.key.substr(0, 200), what),
                                 short_place(member)));
    return std::nullopt;
  }
  // A header is one line of megabytes: the line's number and column stay, its text would drown the
  // rest.
  static Place short_place(const Value::Member& member) {
    Place place;
    if (member.key_mark.source != nullptr) place.source = member.key_mark.source->name;
    return place;
  }

  std::optional<std::int64_t> data_bytes_;
  Diagnostics& problems_;
};

// "model-00001-of-00004.safetensors", and no way out of the folder.
bool is_plain_file_name(std::string_view name) {
  if (name.empty() || name.size() > 255 || name.front() == '.') return false;
  return name.find_first_of(std::string_view("/\\:\0", 4)) == std::string_view::npos;
}

}  // namespace

std::optional<std::int64_t> safetensors_header_bytes(std::string_view first_bytes) {
  if (first_bytes.size() < kLengthBytes) return std::nullopt;
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    length = (length << 8U) | static_cast<unsigned char>(first_bytes[i]);
  if (length < 2 || length > static_cast<std::uint64_t>(kLongestSafetensorsHeader))
    return std::nullopt;
  return static_cast<std::int64_t>(length + kLengthBytes);
}

tl::expected<StoredTensors, Diagnostics> read_safetensors_header(
    std::string_view bytes, std::string_view source_name, std::optional<std::int64_t> file_bytes) {
  const auto header = safetensors_header_bytes(bytes);
  if (!header)
    return tl::unexpected(whole_file_fault(
        source_name, fmt::format("not a safetensors file: its first 8 bytes are no length up to {}",
                                 kLongestSafetensorsHeader)));
  if (static_cast<std::int64_t>(bytes.size()) < *header)
    return tl::unexpected(whole_file_fault(
        source_name, fmt::format("the header takes {} bytes, and the file has {}: is it cut off?",
                                 *header, bytes.size())));
  auto document = read_json(
      bytes.substr(kLengthBytes, static_cast<std::size_t>(*header) - kLengthBytes), source_name);
  if (!document) {
    for (Diagnostic& problem : document.error()) problem.place.text.clear();
    return tl::unexpected(std::move(document.error()));
  }
  if (!document->is_table())
    return tl::unexpected(whole_file_fault(source_name, "the header is not a table of tensors"));

  Diagnostics problems;
  std::optional<std::int64_t> data_bytes;
  if (file_bytes) data_bytes = std::max<std::int64_t>(*file_bytes - *header, 0);
  TensorReader reader(data_bytes, problems);
  StoredTensors tensors;
  for (const Value::Member& member : document->members()) {
    if (member.key == "__metadata__") continue;
    if (auto tensor = reader.read(member)) tensors.push_back(std::move(*tensor));
  }
  if (!problems.empty()) return tl::unexpected(std::move(problems));
  return tensors;
}

tl::expected<ShardIndex, Diagnostics> read_shard_index(std::string_view text,
                                                       std::string_view source_name) {
  auto document = read_json(text, source_name);
  if (!document) return tl::unexpected(std::move(document.error()));
  const Value* map = document->find("weight_map");
  if (map == nullptr || !map->is_table())
    return tl::unexpected(Diagnostics{fault("an index of shards has a table \"weight_map\"",
                                            document->place(), "no \"weight_map\" in it")});
  ShardIndex index;
  Diagnostics problems;
  for (const Value::Member& member : map->members()) {
    if (!member.value.is_string() || !is_plain_file_name(member.value.as_string())) {
      add_problem(problems, fault(fmt::format("\"{}\" is not the name of a file beside the index",
                                              shown(member.value)),
                                  member.value.place(), "expected a file name without a path"));
      continue;
    }
    index.shards.push_back(member.value.as_string());
    ++index.tensors;
  }
  if (!problems.empty()) return tl::unexpected(std::move(problems));
  std::sort(index.shards.begin(), index.shards.end());
  index.shards.erase(std::unique(index.shards.begin(), index.shards.end()), index.shards.end());
  if (const Value* total = document->at("metadata.total_size"))
    if (total->is_integer()) index.total_bytes = total->as_integer();
  return index;
}

std::vector<std::pair<std::string, std::int64_t>> elements_by_type(const StoredTensors& tensors) {
  std::map<std::string, Checked> sums;
  for (const StoredTensor& tensor : tensors) sums[tensor.type] += Checked(tensor.elements);
  std::vector<std::pair<std::string, std::int64_t>> ordered;
  ordered.reserve(sums.size());
  for (const auto& [type, elements] : sums) ordered.emplace_back(type, elements.value());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return ordered;
}

}  // namespace steelyard
