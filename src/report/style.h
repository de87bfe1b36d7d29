// How text looks: decided once by the face (terminal, pipe, page) and obeyed by every table below.
//
//   Style{.colour = true, .width = 96}      an interactive terminal
//   Style{}                                 a pipe: 80 columns, no colour, nothing left out
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quantity/print.h"

namespace steelyard {

struct Style {
  bool colour = false;
  bool ascii = false;  // no characters above 127
  bool bars = true;
  bool elide = false;  // a terminal: long lists are cut, and what is hidden is counted
  int width = 80;
  Units units = Units::kBinary;
  // Digits within every colour sequence, which the outlet takes out again: text of others that has a sequence of its own does
  // not know them (document/printable.h). Empty: plain sequences.
  std::string seal;
};

// What a word means to the reader. Each is one of the 16 colours of the terminal's own theme.
enum class Ink { kPlain, kStrong, kQuiet, kGood, kWarning, kBad };
std::string painted(const Style& style, Ink ink, std::string_view text);

// Columns that `text` takes on a terminal: characters, not bytes, and no colour sequences.
int columns_of(std::string_view text);
std::string padded_right(std::string text, int columns);  // "ab  "
std::string padded_left(std::string text, int columns);   // "  ab"

// At most `columns` wide; what is cut ends in an ellipsis.
std::string shortened(const Style& style, std::string_view text, int columns);

// The marks of a style: UTF-8, or their plain spelling.
std::string_view dot(const Style& style);    // between facts: " · " or " - "
std::string_view times(const Style& style);  // "×" or "x"

// Facts joined by dots and broken into lines of the style's width; later lines start with `indent`
// spaces.
std::string facts(const Style& style, const std::vector<std::string>& parts, int indent = 0);

// Words broken into lines of the style's width, each after the first indented.
std::string wrapped(const Style& style, std::string_view text, int indent);

// UTF-8 text as a plain terminal can show it: "·" becomes "*", "─" "-", and so on. Unknown
// characters become "?".
std::string plain_characters(std::string_view text);

}  // namespace steelyard
