#include "plan/sweep.h"

namespace steelyard {

std::optional<std::size_t> combinations_of(const std::vector<SweepAxis>& axes) {
  std::size_t count = 1;
  for (const SweepAxis& axis : axes) {
    count *= axis.values.size();
    if (count > kMostValues) return std::nullopt;
  }
  return count;
}

std::vector<SweepPoint> sweep(const Value& run, const std::vector<SweepAxis>& axes,
                              const Weigh& weigh) {
  std::vector<SweepPoint> points;
  const std::optional<std::size_t> count = combinations_of(axes);
  for (std::size_t number = 0; count && number < *count; ++number) {
    SweepPoint point;
    point.values.resize(axes.size());
    Value asked = run;
    std::size_t rest = number;
    for (std::size_t i = axes.size(); i-- > 0;) {
      const std::vector<Value>& values = axes[i].values;
      point.values[i] = values[rest % values.size()];
      rest /= values.size();
      set_path(asked, axes[i].key, point.values[i], point.values[i].place());
    }
    point.weighed = weigh(asked);
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace steelyard
