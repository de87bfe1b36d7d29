// Every flag that is not a key of the run file: one row, and the parser, the help and the
// completion follow. (Flags that mirror run-file keys come from run_file_keys(), job/read.h.)
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace steelyard {

enum class FlagKind : std::uint8_t { kSwitch, kCounted, kValue, kRepeated };

struct Flag {
  std::string_view name;  // "phases"
  char letter = 0;        // 'v', or none
  FlagKind kind = FlagKind::kSwitch;
  std::string_view value;     // "FILE", of kValue and kRepeated
  std::string_view choices;   // "auto always never": words that the value may be, if few
  std::string_view commands;  // "weigh explain"; empty: all
  std::string_view help;
  bool rare = false;  // in the full help alone: the short one is a screen
};

const std::vector<Flag>& flags();

// Whether `flag` belongs to the command of that name.
bool belongs(const Flag& flag, std::string_view command);

// The words of "auto always never".
std::vector<std::string_view> words_in(std::string_view list);

}  // namespace steelyard
