// Warnings from a log that is still being written, while there is time to act.
//
//   GrowthWatch watch(prediction);
//   reader.feed(line);
//   for (const std::string& warning : watch.look(reader.so_far())) ...
//
//   warning: line 812: allocated on rank 0 grows 120 MiB a step; 6.20 GiB of 79.1 GiB are left: full at about step 176
//   warning: line 40: 3.10 GiB of 79.1 GiB are left on rank 3
//   warning: line 12: optimizer state of 14.9 GiB is still to come in the first step; 9.80 GiB are left
//
// Each is said once for a rank, growth again whenever half of the room that was left is gone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diagnose/growth.h"
#include "evidence/evidence.h"
#include "predict/prediction.h"

namespace steelyard {

class GrowthWatch {
 public:
  // Without a prediction the size of the device is what the log says.
  explicit GrowthWatch(const Prediction* prediction = nullptr) : prediction_(prediction) {}

  // What the readings since the last look warn of, a sentence each. Costs as much as there are new readings.
  std::vector<std::string> look(const Evidence& so_far);

 private:
  void take(const MemoryReading& reading, std::vector<std::string>& warnings);
  void warn_of_growth(const std::string& of, const MemoryReading& reading, std::int64_t bytes,
                      std::vector<std::string>& warnings);
  void warn_of_first_step(const MemoryReading& reading, std::int64_t used,
                          std::vector<std::string>& warnings);
  void warn_of_full_length(const MemoryReading& reading, std::vector<std::string>& warnings);
  bool said(const std::string& what) { return !said_.insert(what).second; }
  std::optional<std::int64_t> capacity() const;

  const Prediction* prediction_;
  std::optional<std::int64_t> told_capacity_;
  std::int64_t last_line_ = 0;
  std::map<std::string, MemorySeries> series_;
  std::map<std::string, std::int64_t> room_said_;  // left when growth was last warned of
  std::set<std::string> said_;
};

}  // namespace steelyard
