#include "evidence/log_line_readers.h"

#include <array>

namespace steelyard {
namespace {

// Traceback first: it closes the frames that a failure of the same line takes. Training lines come before what counts steps.
const std::array<LogLineReader, 25>& rows() {
  static const std::array<LogLineReader, 25> kRows = {kTracebackLines,
                                                      kMegatronLines,
                                                      kDeepSpeedLines,
                                                      kTorchtitanLines,
                                                      kTrainerLines,
                                                      kStepLines,
                                                      kLabelledMemoryLines,
                                                      kOomLines,
                                                      kDisguisedOomLines,
                                                      kHardwareLines,
                                                      kHostLines,
                                                      kKernelLines,
                                                      kSlurmLines,
                                                      kSacctLines,
                                                      kWatchdogLines,
                                                      kElasticLines,
                                                      kDeepSpeedLauncherLines,
                                                      kMemorySummaryLines,
                                                      kMemoryStatsLines,
                                                      kNvidiaSmiLines,
                                                      kNvidiaQueryLines,
                                                      kNvidiaMonitorLines,
                                                      kDcgmLines,
                                                      kNcclLines,
                                                      kClueLines};
  return kRows;
}

}  // namespace

std::span<const LogLineReader> log_line_readers() { return rows(); }

}  // namespace steelyard
