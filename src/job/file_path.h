// Paths within a run file.
//
//   path_from("runs", value)     "runs/our-pod.json" for "our-pod.json" in runs/a.toml; as typed for a flag
#pragma once

#include <string>
#include <string_view>

#include "document/value.h"

namespace steelyard {

// A name of ours has no slash at its start or end and no ".json".
inline bool looks_like_path(std::string_view text) {
  return text.starts_with("./") || text.starts_with("../") || text.starts_with("/") ||
         text.starts_with("~") || text.ends_with(".json") || text.ends_with("/") || text == ".";
}

// `written` is text. A path typed as a flag is meant from where it was typed; one in a run file from that file's folder.
inline std::string path_from(const std::string& folder, const Value& written) {
  std::string_view path = written.as_string();
  if (written.mark().line == 0) return std::string(path);
  if (path.starts_with("./")) path.remove_prefix(2);
  if (folder.empty() || folder == "." || path.starts_with("/") || path.starts_with("~"))
    return std::string(path);
  return folder + (folder.ends_with("/") ? "" : "/") + std::string(path);
}

}  // namespace steelyard
