// Growth of memory from step to step, from the memory lines of a log: a leak rises by the same amount every step, a longer
// batch is one high step between equal ones, and varying batches go up and down.
//
//   rank 3, allocated   steps 10 to 60   41.0 41.6 42.2 42.8 ...   steady: 0.06 GiB a step
//   rank 0, allocated   steps 10 to 60   41.0 41.0 58.3 41.0 ...   spike: 17.3 GiB more in step 40
//
// Frameworks print the peak since the start or since the last line; each series holds one kind of number of one rank,
// source and label. The first steps are left out: the optimizer's state appears in them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evidence/evidence.h"

namespace steelyard {

struct MemorySeries {
  struct Point {
    std::int64_t step = 0;  // of the log; without steps the number of the line of this series
    std::int64_t bytes = 0;
    EvidencePlace place;
  };
  std::string source, label, what;  // what: "allocated", "max allocated", "reserved", "device used"
  std::optional<std::int64_t> rank;
  bool has_steps = false;
  std::vector<Point> points;  // by step
};

struct GrowthVerdict {
  enum class Kind : std::uint8_t { kFlat, kSteady, kSpike, kVarying, kTooFew };
  Kind kind = Kind::kTooFew;
  std::int64_t per_step = 0;                                        // of a steady one
  std::int64_t first = 0, last = 0, first_step = 0, last_step = 0;  // without the first steps
  std::int64_t median = 0, highest = 0, highest_step = 0;
  EvidencePlace place;  // of the last reading, or of the spike
};

// The number of a reading that says most: what is allocated, else the peak, reserved, the device.
std::optional<std::int64_t> told_bytes(const MemoryReading& reading, std::string* what = nullptr);

std::vector<MemorySeries> series_of(std::span<const Evidence> evidence);
GrowthVerdict growth_of(const MemorySeries& series);

}  // namespace steelyard
