// A curve in characters, both axes logarithmic: straight lines are powers.
//
//   parameters
//    200B |                                                      3
//         |                                             3···
//      5B |0·····0·····0·····0······0······0······0·······0
//         +--------------------------------------------------------
//          1      2      4      8      16     32     64    devices
//   0 ddp   3 zero 3
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "report/style.h"

namespace steelyard {

struct Series {
  std::string name;
  char mark = 'o';
  std::vector<std::pair<double, double>> points;  // both positive; others are left out
};

struct Plot {
  std::string x_label, y_label;
  std::vector<Series> series;
  double limit = 0;         // a level line; 0: none
  std::string limit_label;  // "usable"
  std::function<std::string(double)> x_text, y_text;
  int rows = 12;
};

// Empty when fewer than two points can be drawn.
std::string plot_text(const Plot& plot, const Style& style);

}  // namespace steelyard
