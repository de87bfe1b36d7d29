// Somebody's launch files with a few keys changed: everything else stays as it was written.
//
//   Imported imported = import_launch(text, "qlora.yml", context);
//   Patched patched = patch_launch("qlora.yml", imported, wanted, context);
//   patched.files            qlora.yml before and after: comments, order, quotes and all other values are kept
//
// What has to change is found by writing both runs with the format's own writer and comparing their documents, so a key
// that means the same in both is never touched. The result is read again: it must be the run that was wanted, and of the
// edits only those are kept that it needs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "document/diagnostic.h"
#include "document/value.h"
#include "formats/launch/launch.h"

namespace steelyard {

struct PatchedFile {
  std::string name;
  std::string before;
  std::string after;  // equal to `before` where nothing changes
};

struct Patched {
  std::vector<PatchedFile> files;  // the one that was given first, then those it names that change
  Diagnostics problems;
  std::vector<std::string> left_out;  // keys of the run that no file of these says
  std::vector<std::string> also;      // what changed with them, and why
};

// Whether `target` is what these files already are, so that an export to it is a patch of them.
bool is_own_target(const Imported& imported, std::string_view target);

// `main`: the name under which the first file was imported; `wanted`: the imported run with keys changed.
Patched patch_launch(std::string_view main, const Imported& imported, const Value& wanted,
                     const LaunchContext& context);

}  // namespace steelyard
