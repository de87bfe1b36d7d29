#include "data/embedded.h"

#include <algorithm>
#include <string>

namespace steelyard {
namespace {

const EmbeddedFile* first_not_before(std::string_view path) {
  const auto files = embedded_files();
  return std::lower_bound(
      files.data(), files.data() + files.size(), path,
      [](const EmbeddedFile& file, std::string_view wanted) { return file.path < wanted; });
}

}  // namespace

std::span<const EmbeddedFile> embedded_files_in(std::string_view folder) {
  // '0' follows '/' in ASCII, so "models0" is the first path that can stand after all of "models/...".
  const EmbeddedFile* first = first_not_before(std::string(folder) + '/');
  const EmbeddedFile* last = first_not_before(std::string(folder) + '0');
  return {first, last};
}

std::optional<std::string_view> embedded_text(std::string_view path) {
  const auto files = embedded_files();
  const EmbeddedFile* file = first_not_before(path);
  if (file == files.data() + files.size() || file->path != path) return std::nullopt;
  return file->text;
}

}  // namespace steelyard
