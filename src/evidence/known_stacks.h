// Stacks by the bytes that write them.
//
//   known.look(bytes, at)          at the first fetch behind a MARK: the stack that the same bytes were before, if any
//   known.learn(end, 17, 36)       what they turned out to be, at the end of a list that was not known
//   known.forget()                 a place of the memo has a new value: the same bytes may be another stack
//
// PyTorch writes a list for each capture, and a program has few places that allocate: the same thirty fetches from the memo
// follow each other again and again. One comparison of bytes stands for all of them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace steelyard {

class KnownStacks {
 public:
  struct Known {
    std::size_t begin = 0;
    std::uint32_t size =
        0;  // bytes, with the APPENDS behind the last fetch; 0: nothing is known here
    std::uint32_t frames = 0;
    std::int64_t stack = 0;
  };

  const Known* look(std::string_view bytes, std::size_t at);
  // `end`: behind the APPENDS that has just been read.
  void learn(std::size_t end, std::int64_t stack, std::size_t frames);
  void forget();

 private:
  std::vector<Known>
      slots_;  // by hash; each has the latest: a bound for files that never repeat one
  Known asked_;
  std::size_t place_ = 0;
};

}  // namespace steelyard
