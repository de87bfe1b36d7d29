// Any text as JSON, as TOML and as YAML: a value whose places lie in the text, or reasons why not.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "document/amount.h"
#include "document/edit_distance.h"
#include "document/read.h"
#include "document/render.h"

namespace {

void look_at(const steelyard::Value& value, int depth) {
  if (depth > 3 * steelyard::kMaximumDepth) std::abort();
  const steelyard::Place place = value.place();
  if (place.line < 0 || place.column < 0 || place.length < 0) std::abort();
  if (steelyard::shown(value).size() > 4000) std::abort();
  if (value.is_array())
    for (const auto& item : value.items()) look_at(item, depth + 1);
  if (!value.is_table()) return;
  for (const auto& member : value.members()) {
    const steelyard::Place whole = member.whole_place();
    steelyard::render({steelyard::Severity::kError, "E000", member.key, whole, "here", ""});
    look_at(member.value, depth + 1);
  }
}

void look_at(const steelyard::ReadValue& read) {
  if (read) {
    look_at(*read, 0);
    return;
  }
  if (read.error().empty()) std::abort();
  if (steelyard::render(read.error(), "nothing read").find('\x1b') != std::string::npos)
    std::abort();
  steelyard::problems_as_json(read.error());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  look_at(steelyard::read_json(text, "input.json"));
  look_at(steelyard::read_toml(text, "input.toml"));
  look_at(steelyard::read_yaml(text, "input.yaml"));
  if (size < 100) {
    steelyard::count_written(text, 1024);
    steelyard::bytes_written(text);
    steelyard::number_written(text);
    steelyard::edit_distance(text, "sequence_length");
  }
  return 0;
}
