#include "diagnose/growth.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <tuple>

namespace steelyard {
namespace {

constexpr std::size_t kFewestPoints = 5;
constexpr std::int64_t kFirstSteps = 2;  // the optimizer's state and the library's buffers

std::int64_t median_of(std::vector<std::int64_t> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Rises in nearly every interval, by amounts a step that are alike: growth that no batch explains.
bool is_steady(const std::vector<MemorySeries::Point>& points, std::int64_t least) {
  const auto& first = points.front();
  const auto& last = points.back();
  const std::int64_t rise = last.bytes - first.bytes;
  const std::int64_t steps = last.step - first.step;
  if (rise < least || steps <= 0) return false;
  const double per_step = static_cast<double>(rise) / static_cast<double>(steps);
  std::size_t alike = 0;
  double furthest = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double interval = static_cast<double>(points[i].step - points[i - 1].step);
    const double rate =
        static_cast<double>(points[i].bytes - points[i - 1].bytes) / std::max(interval, 1.0);
    alike += rate > per_step / 4 && rate < per_step * 3 ? 1 : 0;
    const double straight = static_cast<double>(first.bytes) +
                            per_step * static_cast<double>(points[i].step - first.step);
    furthest = std::max(furthest, std::abs(static_cast<double>(points[i].bytes) - straight));
  }
  return alike * 5 >= (points.size() - 1) * 4 && furthest * 3 < static_cast<double>(rise);
}

// Of a peak since the start, which never falls: the one step that raised it, if it is one.
const MemorySeries::Point* only_jump(const std::vector<MemorySeries::Point>& points) {
  const std::int64_t rise = points.back().bytes - points.front().bytes;
  if (rise * 5 <= points.front().bytes) return nullptr;
  const MemorySeries::Point* jump = nullptr;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const std::int64_t by = points[i].bytes - points[i - 1].bytes;
    if (by < 0) return nullptr;
    if (by * 10 >= rise * 9) jump = &points[i];
  }
  return jump;
}

}  // namespace

std::optional<std::int64_t> told_bytes(const MemoryReading& reading, std::string* what) {
  const auto say = [&](const std::optional<Bytes>& bytes,
                       const char* name) -> std::optional<std::int64_t> {
    if (!bytes) return std::nullopt;
    if (what != nullptr) *what = name;
    return bytes->value().value();
  };
  if (const auto bytes = say(reading.allocated, "allocated")) return bytes;
  if (const auto bytes = say(reading.max_allocated, "max allocated")) return bytes;
  if (const auto bytes = say(reading.reserved, "reserved")) return bytes;
  if (const auto bytes = say(reading.max_reserved, "max reserved")) return bytes;
  return say(reading.device_used, "device memory used");
}

std::vector<MemorySeries> series_of(std::span<const Evidence> evidence) {
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::int64_t>,
           MemorySeries>
      found;
  const auto add = [&](const Evidence& one, const MemoryReading& reading, const std::string& what,
                       std::int64_t bytes) {
    const std::int64_t device = reading.rank ? *reading.rank : -1 - reading.device.value_or(0);
    // Two logs of one rank are two launches.
    MemorySeries& series =
        found[{one.file, reading.source, reading.label + reading.phase, what, device}];
    series.source = reading.source;
    series.label = reading.label;
    series.what = what;
    series.rank = reading.rank;
    series.has_steps = reading.step && (series.has_steps || series.points.empty());
    const std::int64_t number = series.points.empty() ? 0 : series.points.back().step + 1;
    const std::int64_t step = series.has_steps ? *reading.step : number;
    // A launch begins again: what was before is another history.
    if (!series.points.empty() && step < series.points.back().step) series.points.clear();
    if (!series.points.empty() && series.points.back().step == step) {
      if (bytes > series.points.back().bytes) series.points.back() = {step, bytes, reading.place};
      return;
    }
    series.points.push_back({step, bytes, reading.place});
  };
  for (const Evidence& one : evidence)
    for (const MemoryReading& reading : one.readings) {
      std::string what;
      if (const auto bytes = told_bytes(reading, &what)) add(one, reading, what, *bytes);
      // Between steps and at their peak are two stories.
      if (reading.allocated && reading.max_allocated)
        add(one, reading, "max allocated", reading.max_allocated->value().value());
    }
  std::vector<MemorySeries> series;
  for (auto& [key, one] : found) series.push_back(std::move(one));
  return series;
}

GrowthVerdict growth_of(const MemorySeries& series) {
  GrowthVerdict verdict;
  std::vector<MemorySeries::Point> points = series.points;
  if (points.size() >= kFewestPoints + 2) {
    const std::int64_t from = points.front().step + kFirstSteps;
    points.erase(std::remove_if(points.begin(), points.end(),
                                [&](const auto& point) { return point.step < from; }),
                 points.end());
  }
  if (points.size() < kFewestPoints) return verdict;
  std::vector<std::int64_t> values;
  for (const auto& point : points) values.push_back(point.bytes);
  verdict.median = median_of(values);
  const auto highest = std::max_element(
      points.begin(), points.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  verdict.highest = highest->bytes;
  verdict.highest_step = highest->step;
  verdict.first = points.front().bytes;
  verdict.last = points.back().bytes;
  verdict.first_step = points.front().step;
  verdict.last_step = points.back().step;
  verdict.place = points.back().place;
  const std::int64_t least = std::max<std::int64_t>(verdict.median / 50, std::int64_t{1} << 20);
  if (is_steady(points, least)) {
    verdict.kind = GrowthVerdict::Kind::kSteady;
    verdict.per_step = (verdict.last - verdict.first) / (verdict.last_step - verdict.first_step);
    return verdict;
  }
  if (const auto* const jump = only_jump(points)) {
    verdict.kind = GrowthVerdict::Kind::kSpike;
    verdict.median = verdict.first;
    verdict.highest_step = jump->step;
    verdict.place = jump->place;
    return verdict;
  }
  std::int64_t near = 0;
  for (const std::int64_t value : values)
    near += std::abs(value - verdict.median) * 20 <= verdict.median ? 1 : 0;
  const std::int64_t all = static_cast<std::int64_t>(values.size());
  const bool high = (verdict.highest - verdict.median) * 5 > verdict.median;
  if (high && near * 4 >= all * 3) {
    verdict.kind = GrowthVerdict::Kind::kSpike;
    verdict.place = highest->place;
  } else {
    verdict.kind = near == all ? GrowthVerdict::Kind::kFlat : GrowthVerdict::Kind::kVarying;
  }
  return verdict;
}

}  // namespace steelyard
