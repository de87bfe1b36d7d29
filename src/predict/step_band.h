// How far a predicted step time may be off: the errors that published steps of that device and engine have shown.
//
//   several rtx-3090, deepspeed with transformers     0 ... +5.8     lomo-2023 (6)        in parts of the step
//   several l40s, deepspeed with transformers         the same       not backed: the widest of devices on PCIe
//
// One device exchanges nothing, so its errors stand apart from those of several. What has no rows of its own takes the widest
// errors of its class, and the screen says so: devices of its architecture whose peers reach each other alike (through a
// switch or direct links, or through PCIe and bridges of two), else all that reach each other so. Data: "steps" of
// data/bands.json, written by truth/bands.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost/step_time.h"
#include "job/job.h"

namespace steelyard {

// Measured less predicted, in parts of the predicted step.
struct ObservedStepError {
  std::string device, engine, implementation;
  bool several = false;  // devices, which exchange
  double low = 0, high = 0;
  std::string source;  // "lomo-2023 (6)"
};
const std::vector<ObservedStepError>& observed_step_errors();

struct StepBand {
  double low = 0, high = 0;  // in parts of the step
  bool backed = false;
  // Whose errors these are: "lomo-2023 (6)", or why there are none: "no published step of fsdp2 on l40s".
  std::string says;
};
StepBand step_band(const Job& job);

}  // namespace steelyard
