// The readers of log lines: one row each, one file each.
//
//   {"megatron", kMegatronWords, read_megatron_line}
//
// A reader is called for lines that hold one of its words, and for the line after one for which it answered true: a table,
// a block or a wrapped sentence goes on there.
#pragma once

#include <span>
#include <string_view>

#include "evidence/log_line.h"
#include "evidence/log_state.h"

namespace steelyard {

struct LogLineReader {
  std::string_view name;
  std::span<const std::string_view> words;  // of at least three characters each
  // True: the next line is wanted, too. `called` is false for a line that holds none of the words.
  bool (*read)(const LogLine& line, LogState& state, bool called) = nullptr;
};

std::span<const LogLineReader> log_line_readers();

// One of each file.
extern const LogLineReader kTracebackLines;
extern const LogLineReader kOomLines;
extern const LogLineReader kDisguisedOomLines;
extern const LogLineReader kHardwareLines;
extern const LogLineReader kHostLines;
extern const LogLineReader kKernelLines;
extern const LogLineReader kSlurmLines;
extern const LogLineReader kSacctLines;
extern const LogLineReader kWatchdogLines;
extern const LogLineReader kElasticLines;
extern const LogLineReader kDeepSpeedLauncherLines;
extern const LogLineReader kMegatronLines;
extern const LogLineReader kDeepSpeedLines;
extern const LogLineReader kTorchtitanLines;
extern const LogLineReader kTrainerLines;
extern const LogLineReader kStepLines;
extern const LogLineReader kLabelledMemoryLines;
extern const LogLineReader kMemorySummaryLines;
extern const LogLineReader kMemoryStatsLines;
extern const LogLineReader kNvidiaSmiLines;
extern const LogLineReader kNvidiaQueryLines;
extern const LogLineReader kNvidiaMonitorLines;
extern const LogLineReader kDcgmLines;
extern const LogLineReader kNcclLines;
extern const LogLineReader kClueLines;

}  // namespace steelyard
