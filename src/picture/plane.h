// Dots and curves on two axes: layouts by time and memory, the largest model against a cluster, a sweep against the line.
//
//   GiB |            o  o                   parameters
//       |  *   o   o                         200B |              / zero 3
//       |   \__*                                  |          ___/
//       |       \_____*                       5B  |_________/_____ ddp
//       +-----------------  step                  +---------------- devices
//
// A dot carries its number (data-index), by which a container links it with the row of a table.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "picture/svg.h"

namespace steelyard {

struct ChartAxis {
  std::string words;  // "step"
  std::function<std::string(double)> text;
  bool logarithmic = false;
  bool from_zero = true;  // of a linear axis
};

struct Dot {
  double x = 0, y = 0;
  std::string words;   // said on hover
  bool front = false;  // none beats it in both
  bool chosen = false;
  bool tight = false;
};

struct Curves {
  struct Line {
    std::string name;
    std::vector<std::pair<double, double>> points;
    std::vector<std::pair<double, double>> band;  // low and high of each point; may be empty
  };
  ChartAxis x, y;
  std::vector<Line> lines;
  double limit = 0;  // a level line; 0: none
  std::string limit_words, finding;
};

std::string dots_svg(const std::vector<Dot>& dots, const ChartAxis& x, const ChartAxis& y,
                     double limit, const std::string& limit_words, const std::string& finding,
                     const Frame& frame);
std::string curves_svg(const Curves& curves, const Frame& frame);

}  // namespace steelyard
