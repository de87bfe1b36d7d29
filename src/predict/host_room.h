// Whether the host of a machine has the memory that its ranks keep there.
//
//   machine        has          ranks keep   verdict
//   aws-p5, said   2 TB         2.4 TB       does not fit
//   h200-sxm       2 to 2.95    2.4 TB       tight: the usual machine lacks it, google-a3-ultra has it
//   workstation    128 GB?      160 GB       tight: nobody knows what a workstation has
//
// A machine that the run names is what it has. Otherwise it is the device's usual one, and the most that any known machine
// with the device has stands beside it; where data/machines only assumes the number, nothing is too much for certain.
#pragma once

#include <optional>
#include <string>

#include "predict/prediction.h"

namespace steelyard {

struct HostRoom {
  std::string machine;  // "hgx-h100"
  bool said = false;    // the run names it
  Bytes memory{};       // what that one has
  std::optional<Bytes>
      most;  // the most that a machine with this device is known to have; absent: nobody knows
};

// Nothing of a device that no machine is known to be built with.
std::optional<HostRoom> host_room(const Job& job);

// Its device is sure to fit, and so is its host for all that is known: of a machine that nobody named the memory is assumed.
inline bool only_host_is_unsure(const Prediction& prediction) {
  return prediction.verdict == Verdict::kTight && prediction.host_verdict == Verdict::kTight &&
         prediction.peak.high <= prediction.usable;
}

// `kept`: by all ranks of one machine.
Verdict host_verdict(const std::optional<HostRoom>& room, Bytes kept);

// The sentence for somebody whose run keeps more than the machine has; empty where it does not.
//   host memory: the run keeps 160 GiB on a machine, workstation has 119.2 GiB, which is assumed: --machine, or
//   cluster.machine = { host = { memory = "256 GB" } }, says what yours has
std::string host_sentence(const Job& job, Bytes kept);

// What the fullest machine keeps, from what a rank of each pipeline stage does: stages follow one another over machines.
Bytes host_of_fullest_machine(const Job& job, const std::vector<Bytes>& of_stage);
// Whether a job keeps anything there: most do not, and a search asks thousands of them.
bool keeps_on_host(const Job& job);

}  // namespace steelyard
