// Walks through JSON without building it: a trace of a gigabyte is read once, event by event.
//
//   JsonScan scan(text);
//   if (scan.enter('{'))
//     while (scan.next_member(key)) {
//       if (key == "traceEvents") ...
//       else scan.skip();
//     }
//
// Tolerant: names of kernels may hold raw backslashes, and a file may end anywhere. `cut` says that it ended early.
#pragma once

#include <optional>
#include <string_view>

namespace steelyard {

class JsonScan {
 public:
  explicit JsonScan(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  // Into a list or table, if one stands here.
  bool enter(char bracket);
  // The next member of a table, at its value; false at the table's end, or where the text breaks.
  bool next_member(std::string_view& key);
  // The next item of a list; false at its end.
  bool next_item();
  char peek();
  // The value here, and beyond it. A string is as written, with its escapes.
  std::optional<std::string_view> string();
  std::optional<double> number();
  void skip();

  bool cut() const { return cut_; }

 private:
  void space();
  void break_off() {
    cut_ = true;
    at_ = end_;
  }

  const char* at_;
  const char* end_;
  bool cut_ = false;
};

}  // namespace steelyard
