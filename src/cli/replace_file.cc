#include "cli/replace_file.h"

#include <unistd.h>

#include <filesystem>

#include "cli/outlet.h"

namespace steelyard {

bool replace_file(const std::string& path, std::string_view text) {
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::path there = path;
  const fs::file_status was = fs::status(there, failed);
  if (fs::exists(was) && !fs::is_regular_file(was)) return write_file(path, text);  // /dev/stdout
  if (fs::exists(was)) there = fs::canonical(there, failed);
  if (failed && fs::exists(was)) return false;
  const fs::path beside = there.string() + ".steelyard-" + std::to_string(getpid());
  if (!write_file(beside.string(), text)) {
    fs::remove(beside, failed);
    return false;
  }
  failed.clear();
  if (fs::exists(was)) fs::permissions(beside, was.permissions(), failed);
  if (!failed) fs::rename(beside, there, failed);
  if (!failed) return true;
  std::error_code ignored;
  fs::remove(beside, ignored);
  return false;
}

}  // namespace steelyard
