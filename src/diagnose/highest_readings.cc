#include "diagnose/highest_readings.h"

#include <algorithm>
#include <map>

namespace steelyard {
namespace {

std::optional<Bytes> larger(const std::optional<Bytes>& a, const std::optional<Bytes>& b) {
  if (!a || !b) return a ? a : b;
  return std::max(*a, *b);
}

// What a reading says of one measure: the peak where it has one.
struct Measure {
  std::optional<Bytes> HighestReading::*highest;
  std::optional<Bytes> MemoryReading::*peak;
  std::optional<Bytes> MemoryReading::*now;
  std::optional<Bytes> of(const MemoryReading& reading) const {
    return larger(reading.*peak, reading.*now);
  }
};
constexpr Measure kMeasures[] = {
    {&HighestReading::allocated, &MemoryReading::max_allocated, &MemoryReading::allocated},
    {&HighestReading::reserved, &MemoryReading::max_reserved, &MemoryReading::reserved},
    {&HighestReading::device_used, &MemoryReading::device_used, &MemoryReading::device_used}};

void note_ranks(const std::vector<Evidence>& evidence, const Measure& measure,
                HighestReading& highest) {
  std::map<std::int64_t, Bytes> of_rank;
  for (const Evidence& one : evidence)
    for (const MemoryReading& reading : one.readings)
      if (const auto bytes = measure.of(reading); bytes && reading.rank) {
        Bytes& most = of_rank[*reading.rank];
        most = std::max(most, *bytes);
      }
  highest.ranks = of_rank.size();
  if (of_rank.size() < 2) return;
  const auto least =
      std::min_element(of_rank.begin(), of_rank.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  highest.least_rank = least->first;
  highest.least = least->second;
}

}  // namespace

std::optional<HighestReading> highest_reading(const std::vector<Evidence>& evidence) {
  HighestReading highest;
  const Measure* named = nullptr;
  for (const Measure& measure : kMeasures) {
    const MemoryReading* where = nullptr;
    for (const Evidence& one : evidence)
      for (const MemoryReading& reading : one.readings) {
        const auto bytes = measure.of(reading);
        std::optional<Bytes>& most = highest.*measure.highest;
        if (!bytes || *bytes <= most.value_or(Bytes())) continue;
        most = bytes;
        where = &reading;
      }
    if (where == nullptr || named != nullptr) continue;
    named = &measure;
    highest.rank = where->rank;
    highest.step = where->step;
    highest.place = where->place;
  }
  if (named == nullptr) return std::nullopt;
  note_ranks(evidence, *named, highest);
  return highest;
}

}  // namespace steelyard
