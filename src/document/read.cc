#include "document/read.h"

namespace steelyard {

ReadValue read_document(std::string_view text, std::string_view source_name) {
  std::string_view start = text;
  if (start.starts_with("\xEF\xBB\xBF")) start.remove_prefix(3);
  const std::size_t first = start.find_first_not_of(" \t\r\n");
  const bool braced = first != std::string_view::npos && start[first] == '{';
  if (braced || source_name.ends_with(".json")) return read_json(text, source_name);
  return read_toml(text, source_name);
}

}  // namespace steelyard
