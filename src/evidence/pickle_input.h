// The bytes of a pickle, one opcode after the other, and what is wrong with them.
//
// Every problem says the opcode at which it was met. After `stop` nothing more is read; `refuse` lets reading go on, so
// that all that is refused is told at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "document/diagnostic.h"

namespace steelyard {

class PickleInput {
 public:
  PickleInput(std::string_view bytes, std::string_view source) : bytes_(bytes), source_(source) {}

  // Whether this can be a pickle: its size, and how it begins.
  bool is_pickle();
  // The next opcode; the file must not end before its STOP.
  int opcode() {
    start_ = at_;
    if (at_ == bytes_.size()) {
      stop("the file ends before its STOP");
      return 0;
    }
    return static_cast<unsigned char>(bytes_[at_++]);
  }

  // What stands behind an opcode.
  std::string_view take(std::uint64_t length) {
    if (length > bytes_.size() - at_) {
      stop("the file ends within a value");
      return {};
    }
    const std::string_view taken(bytes_.data() + at_, static_cast<std::size_t>(length));
    at_ += taken.size();
    return taken;
  }
  // Little-endian; 0 where the file ends. The loop is over the constant of the call, which makes it one load.
  std::uint64_t number(int length) {
    const std::string_view taken = take(static_cast<std::uint64_t>(length));
    if (taken.empty()) return 0;
    std::uint64_t number = 0;
    for (int i = 0; i < length; ++i)
      number |= static_cast<std::uint64_t>(static_cast<unsigned char>(taken.data()[i])) << (8 * i);
    return number;
  }
  std::string_view line();

  std::string_view bytes() const { return bytes_; }
  std::size_t at() const { return at_; }
  std::size_t start() const { return start_; }  // of the opcode that is read

  void stop(std::string message);
  void refuse(const std::string& what);
  void end() { ended_ = true; }
  bool ended() const { return ended_; }
  Diagnostics& problems() { return problems_; }

 private:
  void report(std::string message, std::string code, std::string help);

  std::string_view bytes_;
  std::string source_;
  std::size_t at_ = 0, start_ = 0;
  bool ended_ = false;
  Diagnostics problems_;
};

}  // namespace steelyard
