// What is wrong with an input, said so that it can be mended.
//
//   error[E104]: unknown key "sequence_lenght"                      run.toml:11:1
//      11 | sequence_lenght = 16384
//         | ^^^^^^^^^^^^^^^ not a key of [training]
//   help: the key is "sequence_length"
//
// Errors are values: readers return all of them at once, worst first.
#pragma once

#include <string>
#include <vector>

namespace steelyard {

// Where something was written. `source` is a file name, a flag ("--sequence-length") or "<jobs>:17".
struct Place {
  std::string source;
  int line = 0;      // 1-based; 0: unknown
  int column = 0;    // 1-based; 0: unknown
  std::string text;  // the whole line as written, empty if unknown
  int length = 0;    // characters to underline from `column`
};

enum class Severity { kError, kWarning };

struct Diagnostic {
  Severity severity = Severity::kError;
  std::string code;     // "E104"
  std::string message;  // what was found
  Place place;
  std::string label;  // under the caret: what was expected here
  std::string help;   // the fix as a statement, may be empty
};

using Diagnostics = std::vector<Diagnostic>;

}  // namespace steelyard
