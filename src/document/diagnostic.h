// What is wrong with an input, said so that it can be mended.
//
//   error[E104]: unknown key "sequence_lenght"                      run.toml:11:1
//      11 | sequence_lenght = 16384
//         | ^^^^^^^^^^^^^^^ not a key of [training]
//   help: the key is "sequence_length"
//
// Errors are values: readers return all of them at once, worst first. Of more than kProblemsShown the rest is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace steelyard {

// Where something was written. `source` is a file name, a flag ("--sequence-length") or "<jobs>:17".
struct Place {
  std::string source;
  int line = 0;    // 1-based; 0: unknown
  int column = 0;  // 1-based; 0: unknown
  std::string
      text;  // the line as written, or of a long one what surrounds `column`; empty if unknown
  int length = 0;       // characters to underline from `column`
  int text_column = 1;  // the column at which `text` begins
};

enum class Severity { kError, kWarning };

struct Diagnostic {
  Severity severity = Severity::kError;
  std::string code;     // "E104"
  std::string message;  // what was found
  Place place;
  std::string label;      // under the caret: what was expected here
  std::string help;       // the fix as a statement, may be empty
  std::int64_t more = 0;  // > 0: stands for so many further problems, which nobody described
};

using Diagnostics = std::vector<Diagnostic>;

// Problems of one kind, errors or warnings, that are described; a file of a megabyte may hold a hundred thousand.
constexpr std::size_t kProblemsShown = 50;

// Whether another problem of that kind would only be counted: its description need not be made.
bool is_full(const Diagnostics& problems, Severity severity);
// Adds a problem; beyond kProblemsShown of its kind it is counted.
void add_problem(Diagnostics& problems, Diagnostic problem);
void count_problem(Diagnostics& problems, Severity severity, std::int64_t more = 1);

}  // namespace steelyard
