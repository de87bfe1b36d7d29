// A table without boxes: two spaces between columns, numbers to the right, a dim heading.
//
//   rank 0, GiB    param   grad  total
//     load           3.7      -    4.2
//     forward        3.7      -   52.6
//
// A cell that is empty stays empty; "-" says "none". Cells may be painted.
#pragma once

#include <string>
#include <vector>

#include "report/style.h"

namespace steelyard {

struct Column {
  std::string heading;
  bool number = false;  // right-aligned
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::size_t rows() const { return rows_.size(); }

  // Ends with a newline. When the style elides and the table is too wide, the last text column is
  // shortened.
  std::string text(const Style& style) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// `text` without blanks before line ends.
std::string without_trailing_blanks(const std::string& text);

}  // namespace steelyard
