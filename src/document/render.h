// Diagnostics as people and as programs read them.
//
//   error[E104]: unknown key "sequence_lenght"                      run.toml:11:1
//      11 | sequence_lenght = 16384
//         | ^^^^^^^^^^^^^^^ not a key of [training]
//   help: the key is "sequence_length"
//
//   {"schema":"steelyard.error/1","problems":[{"code":"E104","message":...,"source":"run.toml","line":11,...}]}
#pragma once

#include <string>
#include <string_view>

#include "document/diagnostic.h"

namespace steelyard {

struct RenderStyle {
  bool colour = false;  // ANSI: red error, yellow warning, bold message, dim gutter
  int width = 80;
  std::string seal = {};  // of colour sequences: document/printable.h
};

// One block, with a newline at its end.
std::string render(const Diagnostic& problem, const RenderStyle& style = {});

// All blocks, and the closing line: "2 problems, nothing weighed. `steelyard explain E210` says why the rule exists".
// `outcome` says what did not happen ("nothing weighed"); without one there is no closing line.
std::string render(const Diagnostics& problems, std::string_view outcome,
                   const RenderStyle& style = {});

// One line of JSON, without a newline. Text that is not UTF-8 is made so.
std::string problems_as_json(const Diagnostics& problems);

}  // namespace steelyard
