// Text of others on a terminal: names, keys, values and quoted lines may hold what steers it.
//
//   ESC [2J, a bell            control characters below 32 and 127, and those from 128 to 159
//   U+202E, U+2066 ...         which turn the direction of what follows, so that it reads as another text
//   bytes that are no UTF-8    which a terminal of one byte a character takes as one of the above
//
// Each is shown by its number, \u001b, which JSON reads as the same character again.
#pragma once

#include <string>
#include <string_view>

namespace steelyard {

// A colour of ours. The seal is digits that no text of others can know: "" where nothing of theirs is near.
std::string colour_sequence(std::string_view seal, std::string_view code);

// Ends of lines and tabs stay. With `seal` the colours that bear it stay, too, without it; null: none does.
std::string harmless(std::string_view text, const std::string* seal);

// Of one word or sentence that stands within a line of ours: ends of lines are shown, too.
std::string printable(std::string_view text);

// The same with one character for one, so that a caret stays under its word.
std::string printable_in_place(std::string_view text);

}  // namespace steelyard
