// Times as logs write them, on one clock: seconds since 1970 without a time zone, for order within the files of one run.
//
//   2026-06-16 23:42:02,990 · 2026-06-16T23:42:02Z · 2026-06-16_23:42:02 · 2026/06/16 23:42:02.990
//   E0616 23:42:02.368000 · [W616 23:42:02.061727749 · Jun 16 23:42:02 · Mon Jun 16 23:42:02 2026
//
// Where the year is not written, the caller's is taken.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace steelyard {

struct ClockTime {
  std::string text;  // as written
  double seconds = 0.0;
  std::optional<int> year;  // as written
};

// The first time within the first characters of a line.
std::optional<ClockTime> find_clock_time(std::string_view text, int year_of_others);

}  // namespace steelyard
