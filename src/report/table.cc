#include "report/table.h"

#include <algorithm>

namespace steelyard {

std::string without_trailing_blanks(const std::string& text) {
  std::string result;
  for (const char character : text) {
    if (character == '\n')
      while (!result.empty() && result.back() == ' ') result.pop_back();
    result.push_back(character);
  }
  return result;
}

std::string Table::text(const Style& style) const {
  constexpr int kGap = 2;
  std::vector<int> widths;
  for (const Column& column : columns_) widths.push_back(columns_of(column.heading));
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) {
      // The first column of the body stands two to the right of its heading.
      const int wide = columns_of(row[i]) + (i == 0 ? kGap : 0);
      widths[i] = std::max(widths[i], wide);
    }

  int total = kGap * (static_cast<int>(widths.size()) - 1);
  for (const int wide : widths) total += wide;
  if (style.elide && total > style.width)
    for (std::size_t i = columns_.size(); i-- > 1;)
      if (!columns_[i].number) {
        widths[i] = std::max(12, widths[i] - (total - style.width));
        break;
      }

  const auto line = [&](const std::vector<std::string>& cells, bool heading) {
    std::string result;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      std::string cell = cells[i];
      if (i == 0 && !heading) cell.insert(0, kGap, ' ');
      if (!columns_[i].number && columns_of(cell) > widths[i])
        cell = shortened(style, cell, widths[i]);
      if (i > 0) result.append(kGap, ' ');
      result += columns_[i].number ? padded_left(std::move(cell), widths[i])
                                   : padded_right(std::move(cell), widths[i]);
    }
    while (!result.empty() && result.back() == ' ') result.pop_back();
    return heading ? painted(style, Ink::kQuiet, result) : result;
  };

  std::string result;
  std::vector<std::string> headings;
  bool any = false;
  for (const Column& column : columns_) {
    headings.push_back(column.heading);
    any = any || !column.heading.empty();
  }
  if (any) result += line(headings, true) + "\n";
  for (const auto& row : rows_) result += line(row, false) + "\n";
  return without_trailing_blanks(result);
}

}  // namespace steelyard
