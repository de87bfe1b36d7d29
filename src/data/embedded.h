#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace steelyard {

// The files of data/ (devices, models, optimizers, precisions, rules ...), carried inside the program:
// one binary, no installation, and the page in the browser makes no requests. The build writes the
// table from the folder as it stands; a file added or changed there is in the next build.
struct EmbeddedFile {
  std::string_view path;  // below data/, with forward slashes: "models/llama-3.1-8b.json"
  std::string_view text;  // the file, byte for byte
};

// Every file, sorted by path.
std::span<const EmbeddedFile> embedded_files();

// The files below one folder, sorted by path: embedded_files_in("models"). Empty for an unknown folder.
std::span<const EmbeddedFile> embedded_files_in(std::string_view folder);

// The text of one file, or nothing: embedded_text("devices/h100-sxm-80gb.json").
std::optional<std::string_view> embedded_text(std::string_view path);

}  // namespace steelyard
