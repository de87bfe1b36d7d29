// What a run keeps beside its devices: on the host, pinned or not, and on NVMe.
//
//   host 153.9 GiB a machine, 64.1 GiB a rank pinned: workstation has 119.2 GiB       one fact of a screen
//   beside the device                                   rule                            the table of -v
//   optimizer states       pageable     59.8 GiB        deepspeed.offload-states
//
// Host memory is a limit as the device's is (predict/host_room.h). Where the machine has less, its memory is named, and where
// the machine was assumed, the key that says otherwise.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "predict/prediction.h"
#include "report/style.h"

namespace steelyard {

// What the machine of the run has, where that is less than the run keeps on it.
std::optional<Bytes> lacking_host_memory(const Job& job, const Prediction& prediction);
// The facts of a screen, and that one behind them where something is kept there.
std::vector<std::string> with_host(std::vector<std::string> known, const Job& job,
                                   const Prediction& prediction, const Style& style);
// Row by row: several tensors of one name are one row.
std::string host_table(const Prediction& prediction, const Style& style);

}  // namespace steelyard
