// A file that is no evidence is named for what it is, with what to do about it.
//
//   memory_256.pickle    "is a Git LFS pointer: the file itself was not downloaded", "git lfs pull"
//   core.4711            "is a core dump of a process: it says how a program crashed, not what it allocated"
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace steelyard {

struct ForeignFile {
  std::string what;  // "is a Git LFS pointer: ..."
  std::string help;
};
// From the first 64 KiB and the name; nothing for what may be evidence.
std::optional<ForeignFile> foreign_file(std::string_view head, std::string_view name);

}  // namespace steelyard
