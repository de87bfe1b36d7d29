// Which of many words stand in a line, in one pass: most lines of a log hold none of those that any reader looks for.
//
//   LogWords words({{"out of memory"}, {"max allocated: ", "MA "}});
//   words.found_in("... CUDA out of memory. Tried ...")         bit 0
//
// A word is found by its first three characters, which are looked up in a table; so a word has at least three.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace steelyard {

class LogWords {
 public:
  // A set of words for each bit, 64 at most.
  explicit LogWords(const std::vector<std::span<const std::string_view>>& sets);
  std::uint64_t found_in(std::string_view line) const;

 private:
  struct Word {
    std::string_view text;
    std::uint64_t bit = 0;
  };
  static std::size_t slot_of(const char* first) {
    const auto a = static_cast<unsigned char>(first[0]);
    const auto b = static_cast<unsigned char>(first[1]);
    const auto c = static_cast<unsigned char>(first[2]);
    return ((a | (std::uint32_t{b} << 8U) | (std::uint32_t{c} << 16U)) * 2654435761U) >> 18U;
  }
  static constexpr std::size_t kSlots = std::size_t{1} << 14U;

  // Of each slot the words that begin so; slot 0 of `stretches_` is none.
  std::array<std::uint8_t, kSlots> slots_{};
  std::vector<std::vector<Word>> stretches_;
};

}  // namespace steelyard
