// One line of a log without what launchers, loggers and terminals put around it.
//
//   "\x1b[36m(Trainer pid=71)\x1b[0m [rank3]: RuntimeError: ..."     rank 3, "RuntimeError: ..."
//   " 12: [2026-06-16 23:42:02,990] [INFO] [a.py:9:f] MA 1.5 GB"     label 12 of srun, that time, "MA 1.5 GB"
//   "│ CUDA out of memory. Tried to        │"                        boxed, "CUDA out of memory. Tried to"
//
// Only the front is taken off: several records may stand in one line without an end between them, so readers look for their
// words anywhere in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evidence/clock_time.h"

namespace steelyard {

struct LogLine {
  std::int64_t number = 0;            // from 1
  std::string text;                   // without prefixes and colours
  std::optional<std::int64_t> rank;   // said by the prefix of torch or of a launcher
  std::optional<std::int64_t> label;  // srun's task number: a rank where every line has one
  std::optional<ClockTime> time;
  std::string origin;    // "utils.py:588:see_memory_usage" of a logger's prefix
  bool boxed = false;    // stood in a drawn box, which wraps its text
  bool warning = false;  // its logger calls it one, or less
};

LogLine read_log_line(std::string_view written, std::int64_t number, int year_of_others);

// Of a record within a line: the rank that the last "[rank3]:", "[Rank 3]" or "Rank 3" before `at` says.
std::optional<std::int64_t> rank_before(std::string_view text, std::size_t at);

}  // namespace steelyard
