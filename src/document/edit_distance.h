// Which name was meant.
//
//   nearest_names("sequence_lenght", keys)   {"sequence_length"}
//   nearest_names("llama3.1-8b", presets)    {"llama-3.1-8b"}
//   nearest_names("qwen3-235b", presets)     {"qwen3-235b-a22b"}
//   nearest_names("qwertz", engines)         {}
//
// A suggestion that is wrong costs more than none, so only near names are returned.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace steelyard {

// How far apart two words are, in half slips: a letter put in, left out, changed, or swapped with its
// neighbour counts 2; a missing or additional `-`, `_`, `.` or space counts 1; capitals and the choice
// between those four count nothing; a digit that became another counts 3, because 8b and 7b are two models.
int edit_distance(std::string_view a, std::string_view b);

// At most three of `names`: those that begin with the word and go on behind a separator, shortest first; else the nearest,
// within two slips or a third of the word (one slip for words of up to four letters), and none much farther than that.
std::vector<std::string> nearest_names(std::string_view word,
                                       std::span<const std::string_view> names);
std::vector<std::string> nearest_names(std::string_view word, std::span<const std::string> names);

// Names of products differ by little and mean something else: llama-3.1-8b and -70b, l40 and l40s, a800 and h800. Of these
// only two slips of a letter and a separator count as near, one in words of up to four letters, and
//   kNumbers   all numbers must be those of the word: a model        qwen3-next-80b is not qwen3-coder-480b
//   kCodes     so must the letters beside them: a device             b100 is not h100, rtx 6000 is not rtx a6000
enum class MustKeep : std::uint8_t { kNumbers, kCodes };
std::vector<std::string> nearest_products(std::string_view word,
                                          std::span<const std::string_view> names, MustKeep keep);
std::vector<std::string> nearest_products(std::string_view word, std::span<const std::string> names,
                                          MustKeep keep);

// `the NOUN is "a"` or `the NOUN may be "a", "b" or "c"`; empty for no names.
std::string did_you_mean(std::string_view noun, std::span<const std::string> nearest);

// `"a", "b" or "c"`: what is accepted.
std::string any_of(std::span<const std::string_view> names);
std::string any_of(std::span<const std::string> names);

}  // namespace steelyard
