#include "model/sequence.h"

#include <cstddef>

namespace steelyard {
namespace {

// No published pattern has more runs in it; longer ones are written out, which is only longer.
constexpr std::size_t kLongestPattern = 16;

bool equal(const LayerRun& a, const LayerRun& b) { return a.kind == b.kind && a.count == b.count; }

// How often the `period` runs from `first` on stand there one after the other.
std::size_t repeats(const std::vector<LayerRun>& runs, std::size_t first, std::size_t period) {
  std::size_t times = 1;
  while (first + (times + 1) * period <= runs.size()) {
    for (std::size_t i = 0; i < period; ++i)
      if (!equal(runs[first + i], runs[first + times * period + i])) return times;
    ++times;
  }
  return times;
}

}  // namespace

std::vector<LayerGroup> grouped_sequence(const std::vector<int>& kind_of_layer) {
  std::vector<LayerRun> runs;
  for (const int kind : kind_of_layer) {
    if (runs.empty() || runs.back().kind != kind) runs.push_back({kind, 0});
    ++runs.back().count;
  }
  std::vector<LayerGroup> groups;
  for (std::size_t first = 0; first < runs.size();) {
    std::size_t best_period = 1;
    std::size_t best_times = 1;
    for (std::size_t period = 1; period <= kLongestPattern && first + period <= runs.size();
         ++period) {
      const std::size_t times = repeats(runs, first, period);
      if (times > 1 && times * period > best_times * best_period) {
        best_period = period;
        best_times = times;
      }
    }
    LayerGroup group;
    group.times = static_cast<std::int64_t>(best_times);
    for (std::size_t i = 0; i < best_period; ++i) group.runs.push_back(runs[first + i]);
    groups.push_back(group);
    first += best_times * best_period;
  }
  return groups;
}

std::vector<int> kind_of_each_layer(const Architecture& architecture) {
  std::vector<int> kinds;
  for (const LayerGroup& group : architecture.sequence)
    for (std::int64_t time = 0; time < group.times; ++time)
      for (const LayerRun& run : group.runs)
        for (std::int64_t i = 0; i < run.count; ++i) kinds.push_back(run.kind);
  return kinds;
}

}  // namespace steelyard
