#include "predict/draw.h"

#include <algorithm>
#include <utility>

namespace steelyard {

std::vector<std::size_t> steadiest_first(const std::vector<std::vector<double>>& steps) {
  std::vector<std::pair<double, std::size_t>> near;
  double fastest = steps.empty() ? 0 : steps.front().front();
  for (const std::vector<double>& row : steps) fastest = std::min(fastest, row.front());
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].front() <= fastest * (1 + kDraw)) near.emplace_back(0, i);
  const std::size_t machines = steps.empty() ? 0 : steps.front().size();
  for (std::size_t machine = 0; machine < machines; ++machine) {
    double least = steps[near.front().second][machine];
    for (const auto& [loss, i] : near) least = std::min(least, steps[i][machine]);
    for (auto& [loss, i] : near) loss = std::max(loss, steps[i][machine] / least - 1);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::size_t> order;
  for (const auto& [loss, i] : near) order.push_back(i);
  return order;
}

}  // namespace steelyard
