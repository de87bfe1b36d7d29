// What the person's terminal and environment ask of the text.
//
// Colour, first rule that speaks: --json or a file: none · --color, then STEELYARD_COLOR ·
// NO_COLOR: none · CLICOLOR_FORCE: yes · TERM=dumb: none · else only on a terminal. Width: COLUMNS,
// else the terminal's, else 80. Not a terminal: nothing is left out.
#pragma once

#include <optional>
#include <string>

#include "report/style.h"

namespace steelyard {

// Where one of the program's streams leads, and what the environment says.
struct Surroundings {
  bool terminal = false;
  int columns = 0;  // of the terminal; 0: unknown
  std::string columns_variable, no_color, clicolor_force, term, locale;
  std::string color, units, format;  // STEELYARD_COLOR, STEELYARD_UNITS, STEELYARD_FORMAT
};
Surroundings surroundings_of_stdout();
Surroundings surroundings_of_stderr();

// What the flags said; nothing where they were silent.
struct StyleChoice {
  std::optional<std::string> color, units;
  bool ascii = false, no_bars = false;
};
Style style_for(const StyleChoice& choice, const Surroundings& around);

}  // namespace steelyard
