// Writes a pickle of plain values: None, bool, int, float, str, list, tuple, dict.
//
//   PickleWriter pickle;
//   pickle.begin_dict();
//   pickle.string("size");   pickle.integer(512);
//   pickle.string("frames"); pickle.begin_list();
//   const auto frames = pickle.remember();      the list or dict just begun, to be written again
//   ... pickle.end_list();
//   pickle.string("other");  pickle.recall(frames);
//   pickle.end_dict();
//   std::string bytes = std::move(pickle).finish();
//
// Protocol 2, and of it only what PyTorch's viewer knows (torch/utils/viz/MemoryViz.js, unpickle). Lists and dicts are
// filled a thousand at a time, as Python does: the viewer hands each portion to a function as its arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace steelyard {

class PickleWriter {
 public:
  using Memo = std::uint32_t;

  PickleWriter();
  void none();
  void boolean(bool truth);
  void integer(std::int64_t number);
  void number(double number);
  void string(std::string_view text);  // equal texts are written once
  void begin_list();
  void end_list() { end_portions(); }
  void begin_dict();  // then keys and values in turn
  void end_dict() { end_portions(); }
  void begin_tuple();
  void end_tuple();
  Memo remember();
  void recall(Memo memo);
  std::string finish() &&;

 private:
  enum class Kind : std::uint8_t { kList, kDict, kTuple };
  struct Open {
    Kind kind;
    int values = 0;  // of the portion begun
  };
  void begin_value();
  void end_value();
  void end_portion(Open& open);
  void end_portions();
  void byte(int value) { text_ += static_cast<char>(value); }
  void little_endian(std::uint64_t value, int bytes);

  std::string text_;
  std::vector<Open> open_;
  std::unordered_map<std::string, Memo> strings_;
  Memo memos_ = 0;
};

}  // namespace steelyard
