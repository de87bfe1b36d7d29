// What a log has said so far, and what is open between two of its lines.
//
//   state.at_step(20, line)                 a training line: failures before it that the run survived are no deaths
//   state.add(failure, line)                with rank, step, time, place and the frames printed before it
//   state.add(reading, line)
//
// Bounded: a log of a gigabyte leaves some megabytes. Of the readings of a source the peaks stay, and every n-th of the rest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evidence/evidence.h"
#include "evidence/log_line.h"

namespace steelyard {

// The frames of a Python traceback as they are printed: outermost first.
struct OpenTraceback {
  std::vector<std::string> frames;
  std::int64_t last_line = 0;
  bool expects_source = false;  // the line after `File "...", line 5, in f` is that line's source
  bool ended = false;           // its exception was read
};

// A message that is cut by the width of a terminal or a box.
struct WrappedMessage {
  std::vector<std::string> pieces;
  LogLine line;  // the first
};

class LogState {
 public:
  explicit LogState(std::string file);

  Evidence evidence;
  int year = 2000;                   // of the last time that says it
  std::optional<std::int64_t> step;  // of the last training line
  std::optional<ClockTime> time;     // of the last line that has one
  std::string stamp;                 // the front of the last line that began with a date
  std::int64_t lines = 0, labelled = 0;
  std::int64_t start = 0;           // launches of this file before this one
  std::int64_t steps_of_start = 0;  // training lines since it began

  // Open between lines, of the readers of the same names.
  std::map<std::int64_t, OpenTraceback> tracebacks;  // by rank; -1 where no prefix says it
  std::optional<WrappedMessage> wrapped;
  std::string table;                          // columns of the table that is open, by its reader
  std::optional<MemoryReading> open_reading;  // of a block of lines
  std::optional<MemoryFailure> open_failure;
  std::vector<std::string> columns;      // of that table, by name
  std::vector<std::size_t> column_ends;  // and where each ends, of a padded one
  std::string moment;                    // "Before Building Model": of the next memory line
  std::string previous;                  // the line before, as written, where it is short
  std::int64_t arguments_open = 0;       // last line of an arguments block

  void add(MemoryFailure failure, const LogLine& line, std::size_t at = 0);
  void add(MemoryReading reading, const LogLine& line);
  void add(CollectiveState state, const LogLine& line);
  void at_step(std::int64_t number, const LogLine& line);
  // Another launch begins: what happened before is behind us.
  void begin_start();
  void add_framework(std::string_view name);
  void add_clue(std::vector<std::string>& of, std::string_view text, const LogLine& line);
  // Marks consequences and what was survived. Once, at the end.
  void finish();

  std::optional<std::int64_t> rank_of(const LogLine& line) const;
  // The last time before this line, of whichever rank.
  std::optional<ClockTime> time_before() const;
  EvidencePlace place_of(const LogLine& line) const;

 private:
  struct Noted {
    std::int64_t start = 0, steps = 0, last_step = 0;
    bool uncaught = false;
  };
  bool is_repeated(const MemoryFailure& failure);
  // Of the readings of one source, label and rank: what was kept of them.
  struct Kept {
    Bytes peak;
    std::int64_t every = 1, since = 0, count = 0;
  };
  static std::string key_of(const MemoryReading& reading);
  void thin(const std::string* of);

  std::vector<Noted> noted_;  // beside evidence.failures
  std::map<std::string, Kept> kept_;
  std::int64_t steps_ = 0;
};

}  // namespace steelyard
