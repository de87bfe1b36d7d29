#include "report/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace steelyard {
namespace {

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, std::log(value));
    high = std::max(high, std::log(value));
  }
  // 0 to 1 along the axis.
  double share(double value) const {
    return high > low ? (std::log(value) - low) / (high - low) : 0.5;
  }
  double value(double share) const { return std::exp(low + share * (high - low)); }
};

class Canvas {
 public:
  Canvas(int columns, int rows, std::string_view dots)
      : columns_(columns),
        rows_(rows),
        dots_(dots),
        cells_(static_cast<std::size_t>(columns * rows), ' ') {}

  int column(double share) const { return static_cast<int>(std::lround(share * (columns_ - 1))); }
  int row(double share) const { return static_cast<int>(std::lround((1 - share) * (rows_ - 1))); }
  char& at(int column, int row) {
    return cells_[static_cast<std::size_t>(row * columns_ + column)];
  }

  // What lies between marks is drawn only where nothing is yet.
  void dot(int column, int row) {
    if (at(column, row) == ' ') at(column, row) = '.';
  }
  std::string line(int row) {
    std::string text;
    for (int i = 0; i < columns_; ++i) {
      const char cell = at(i, row);
      if (cell == '.') {
        text.append(dots_);
      } else {
        text.push_back(cell);
      }
    }
    return text;
  }

 private:
  int columns_, rows_;
  std::string_view dots_;
  std::string cells_;
};

void draw(Canvas& canvas, const Series& series, const Range& across, const Range& up) {
  for (std::size_t i = 1; i < series.points.size(); ++i) {
    const auto [x0, y0] = series.points[i - 1];
    const auto [x1, y1] = series.points[i];
    const int first = canvas.column(across.share(x0));
    const int last = canvas.column(across.share(x1));
    for (int column = first + 1; column < last; ++column) {
      const double part = static_cast<double>(column - first) / (last - first);
      canvas.dot(column, canvas.row(up.share(y0) + part * (up.share(y1) - up.share(y0))));
    }
  }
}

std::vector<Series> drawable(const Plot& plot) {
  std::vector<Series> result;
  for (Series series : plot.series) {
    std::erase_if(series.points,
                  [](const auto& point) { return !(point.first > 0 && point.second > 0); });
    std::sort(series.points.begin(), series.points.end());
    result.push_back(std::move(series));
  }
  return result;
}

}  // namespace

std::string plot_text(const Plot& plot, const Style& style) {
  const std::vector<Series> series = drawable(plot);
  Range across;
  Range up;
  std::set<double> ticks;
  for (const Series& one : series)
    for (const auto& [x, y] : one.points) {
      across.add(x);
      up.add(y);
      ticks.insert(x);
    }
  if (ticks.size() < 2) return "";
  if (plot.limit > 0) up.add(plot.limit);
  // A level curve still gets a scale around it.
  if (up.high - up.low < 0.2) {
    up.low -= 0.35;
    up.high += 0.35;
  }

  std::vector<std::string> labels(static_cast<std::size_t>(plot.rows));
  int label_columns = 0;
  for (int row = 0; row < plot.rows; ++row) {
    const bool labelled = row == 0 || row == plot.rows - 1 || row == plot.rows / 2;
    if (labelled)
      labels[static_cast<std::size_t>(row)] =
          plot.y_text(up.value(1 - static_cast<double>(row) / (plot.rows - 1)));
  }
  std::string limit_label;
  if (plot.limit > 0) {
    limit_label = plot.limit_label;
    const auto row =
        static_cast<std::size_t>(std::lround((1 - up.share(plot.limit)) * (plot.rows - 1)));
    labels[row] = plot.y_text(plot.limit);
  }
  for (const std::string& label : labels)
    label_columns = std::max(label_columns, columns_of(label));

  const int beside = limit_label.empty() ? 0 : columns_of(limit_label) + 1;
  const int columns = std::clamp(style.width, 50, 120) - label_columns - beside - 4;
  Canvas canvas(columns, plot.rows, style.ascii ? "." : "·");
  // Marks first: a line never covers a point, nor does a later series an earlier one.
  for (const Series& one : series)
    for (const auto& [x, y] : one.points) {
      char& cell = canvas.at(canvas.column(across.share(x)), canvas.row(up.share(y)));
      if (cell == ' ') cell = one.mark;
    }
  for (const Series& one : series) draw(canvas, one, across, up);
  int limit_row = -1;
  if (plot.limit > 0) {
    limit_row = canvas.row(up.share(plot.limit));
    for (int column = 0; column < columns; ++column)
      if (canvas.at(column, limit_row) == ' ') canvas.at(column, limit_row) = '-';
  }

  std::string result = painted(style, Ink::kQuiet, plot.y_label) + "\n";
  for (int row = 0; row < plot.rows; ++row) {
    result += padded_left(labels[static_cast<std::size_t>(row)], label_columns + 1) + " |" +
              canvas.line(row);
    if (row == limit_row && !limit_label.empty()) result += " " + limit_label;
    result += "\n";
  }
  result.append(static_cast<std::size_t>(label_columns + 2), ' ');
  result += "+" + std::string(static_cast<std::size_t>(columns), '-') + "\n";

  // Ticks below the points, as many as stand apart; the last one always.
  std::string axis(static_cast<std::size_t>(columns + 12), ' ');
  int free_from = 0;
  for (const double x : ticks) {
    const std::string text = plot.x_text(x);
    const int wide = static_cast<int>(text.size());
    const int start = std::clamp(canvas.column(across.share(x)) - wide / 2, 0, columns - wide);
    if (start < free_from) continue;
    axis.replace(static_cast<std::size_t>(start), text.size(), text);
    free_from = start + wide + 2;
  }
  while (!axis.empty() && axis.back() == ' ') axis.pop_back();
  result += std::string(static_cast<std::size_t>(label_columns + 3), ' ') + axis + "\n";
  std::vector<std::string> legend;
  if (series.size() > 1)
    for (const Series& one : series) legend.push_back(std::string(1, one.mark) + " " + one.name);
  legend.push_back("across: " + plot.x_label);
  result += "  " + facts(style, legend, 2) + "\n";
  return result;
}

}  // namespace steelyard
