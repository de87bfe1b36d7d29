#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "evidence/snapshot_builder.h"
#include "evidence/snapshot_pickle.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostNested = 256;

// The events of the JSON parser: values gather on a stack until their list or dict ends.
class SnapshotJson {
 public:
  using Value = SnapshotBuilder::Value;
  using Kind = SnapshotBuilder::Kind;

  explicit SnapshotJson(std::size_t bytes) : builder_(bytes) {}

  bool null() { return take({}); }
  bool boolean(bool yes) { return take(SnapshotBuilder::truth(yes)); }
  bool number_integer(std::int64_t number) { return take(SnapshotBuilder::integer(number)); }
  bool number_unsigned(std::uint64_t number) {
    return take(SnapshotBuilder::integer(static_cast<std::int64_t>(number)));
  }
  bool number_float(double number, const std::string&) {
    return take(SnapshotBuilder::number(number));
  }
  bool string(const std::string& text) { return take(builder_.text(text)); }
  bool binary(const std::vector<std::uint8_t>&) { return false; }
  bool key(const std::string& text) { return take(builder_.text(text)); }
  bool start_object(std::size_t) { return open(); }
  bool start_array(std::size_t) { return open(); }
  bool end_object() {
    const std::size_t begin = close();
    return put(begin, builder_.dict({0, 0, Kind::kEmptyDict}, values_from(begin)));
  }
  bool end_array() {
    const std::size_t begin = close();
    const auto items = values_from(begin);
    const bool pool = items.size() == 2 && items[0].kind == Kind::kInteger;
    return put(begin,
               pool ? builder_.tuple(items) : builder_.list({0, 0, Kind::kEmptyList}, items));
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    fault_ = fmt::format("byte {}: JSON is not understood from here on", position);
    return false;
  }

  const std::string& fault() const { return fault_.empty() ? builder_.fault() : fault_; }
  MemoryHistory finish() { return builder_.finish(values_.empty() ? Value{} : values_.back()); }

 private:
  std::span<const Value> values_from(std::size_t begin) const {
    return std::span<const Value>(values_).subspan(begin);
  }
  bool take(const Value& value) {
    values_.push_back(value);
    return builder_.fault().empty();
  }
  bool open() {
    if (begins_.size() >= kMostNested) {
      fault_ = fmt::format("values are nested deeper than {}", kMostNested);
      return false;
    }
    begins_.push_back(values_.size());
    return true;
  }
  std::size_t close() {
    const std::size_t begin = begins_.back();
    begins_.pop_back();
    return begin;
  }
  bool put(std::size_t begin, const Value& value) {
    values_.resize(begin);
    return take(value);
  }

  SnapshotBuilder builder_;
  std::vector<Value> values_;
  std::vector<std::size_t> begins_;
  std::string fault_;
};

}  // namespace

tl::expected<MemoryHistory, Diagnostics> read_snapshot_json(std::string_view bytes,
                                                            std::string_view name) {
  SnapshotJson reader(bytes.size());
  nlohmann::json::sax_parse(bytes.begin(), bytes.end(), &reader);
  MemoryHistory history;
  if (reader.fault().empty()) history = reader.finish();
  if (reader.fault().empty()) return history;
  Diagnostic problem;
  problem.code = "E115";
  problem.message = "the JSON holds no memory snapshot: " + reader.fault();
  problem.place.source = std::string(name);
  return tl::unexpected(Diagnostics{problem});
}

}  // namespace steelyard
