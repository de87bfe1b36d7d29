// Reads a log line by line, whoever wrote it: failures, readings of memory, collectives, and clues to the run.
//
//   LogReader reader("train.log");
//   while (next_line(line)) reader.feed(line);          as it is written: `diagnose --follow`
//   Evidence evidence = std::move(reader).finish();
//
// Linear in the text and bounded in memory. A line that holds none of the words of any reader costs one pass over it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "evidence/evidence.h"
#include "evidence/log_state.h"

namespace steelyard {

class LogReader {
 public:
  explicit LogReader(std::string file) : state_(std::move(file)) {}

  // A line without its end. Carriage returns within it end a progress bar: what stands behind each is a line, too.
  void feed(std::string_view line);
  // What was read until here, for one who follows; consequences are not marked yet.
  const Evidence& so_far() const { return state_.evidence; }
  Evidence finish() &&;

 private:
  void feed_piece(std::string_view piece);

  LogState state_;
  std::int64_t number_ = 0;
  std::uint64_t open_ = 0;  // readers that want the next line, whatever it holds
};

// A whole text.
Evidence read_log(std::string_view text, std::string_view name);

}  // namespace steelyard
