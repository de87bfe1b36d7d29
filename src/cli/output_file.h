// A file that is written is written beside, and takes its name when it is complete: a full disk or Ctrl-C leaves the old one.
//
//   if (const auto problem = write_file("run.toml", text)) return refuse(invocation, {*problem}, "nothing written");
//
//   OutputFile file("trace.json");          piece by piece
//   file.write(events);
//   if (const auto problem = file.finish()) ...
//
// A device, a pipe or a terminal is written to as it is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "document/diagnostic.h"

namespace steelyard {

class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::string_view text);
  // E621 when it could not be written; the old file is then as it was.
  std::optional<Diagnostic> finish();

 private:
  void fail(int why);
  void open_beside();

  std::string name_;    // as said
  std::string path_;    // with links followed
  std::string beside_;  // empty: `path_` is written itself
  int descriptor_ = -1;
  int failure_ = 0;
  std::optional<std::string> kept_;  // where the world keeps files for its caller
};

// With those above it; what fails is seen when a file is written there.
void make_folder(const std::string& path);

std::optional<Diagnostic> write_file(const std::string& path, std::string_view text);

// Takes away what is half written; for a signal's handler.
void forget_unfinished_file();

// errno in words: "no space left on the device".
std::string reason_of(int failure);

}  // namespace steelyard
