#include "report/bar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace steelyard {
namespace {

std::string repeated(std::string_view mark, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result.append(mark);
  return result;
}

}  // namespace

std::string bar(const Style& style, double share, int columns) {
  static constexpr std::array<std::string_view, 8> kEighths = {"",  "▏", "▎", "▍",
                                                               "▌", "▋", "▊", "▉"};
  const double length = std::clamp(share, 0.0, 1.0) * columns;
  if (style.ascii) {
    const int count = static_cast<int>(std::lround(length));
    return repeated("#", share > 0 ? std::max(count, 1) : 0);
  }
  int eighths = static_cast<int>(std::lround(length * 8));
  if (share > 0) eighths = std::max(eighths, 1);
  return repeated("█", eighths / 8).append(kEighths[static_cast<std::size_t>(eighths % 8)]);
}

std::string line_with_limit(const Style& style, double total, double limit, int columns) {
  const std::string_view stroke = style.ascii ? "-" : "─";
  const std::string_view over = style.ascii ? ":" : "░";
  if (columns < 1) return "";  // a narrow terminal draws no bars
  const int at = std::clamp(static_cast<int>(std::lround(limit * columns)) - 1, 0, columns - 1);
  const int end = std::clamp(static_cast<int>(std::lround(total * columns)), 1, columns);
  if (total > limit) return repeated(stroke, at) + "|" + repeated(over, std::max(1, end - at - 1));
  const int drawn = std::min(end, at);
  return repeated(stroke, drawn) + repeated(" ", at - drawn) + "|";
}

}  // namespace steelyard
