// Seconds of one micro-batch on each part of a pipeline, on one device and machine.
//
//   PartClock clock(work, device, machine, outlook, splits)
//   clock.stretches()      each stretch of the model, with what data ranks send beside it
//   clock.parts()          a part: its stretches, and what it sends on
//   clock.slowest_rank()   the chunks of the rank that works longest: the others wait for it
#pragma once

#include <vector>

#include "cost/pipeline_time.h"
#include "cost/step_work.h"

namespace steelyard {

// Forward, backward without the turn of the weights, and that turn.
PartSeconds seconds_of(const WorkTime& work);

class PartClock {
 public:
  // `splits`: whether the gradients of weights have a turn of their own. What is given outlives the clock.
  PartClock(const StepWork& work, const Device& device, const Machine& machine, Outlook outlook,
            bool splits);
  // As the job's order has it.
  PartClock(const StepWork& work, const Device& device, const Machine& machine, Outlook outlook)
      : PartClock(work, device, machine, outlook, work.splits_backward()) {}
  PartClock(const PartClock&) = delete;
  PartClock& operator=(const PartClock&) = delete;

  // Of each stretch, before anything streams beside it.
  const std::vector<StretchPassages>& passages() const { return known_ ? *known_ : made_; }
  std::vector<WorkTime> stretches() const;
  // From the embedding on; behind them what every rank runs of a divided vocabulary.
  std::vector<WorkTime> parts() const;
  // A micro-batch on the rank that works longest.
  WorkTime slowest_rank(const std::vector<WorkTime>& parts) const;

 private:
  const StepWork& work_;
  const KernelClock kernels_;
  const ExchangeClock exchanges_;
  const StretchClock clock_;
  const std::vector<StretchPassages>* known_ = nullptr;  // that have been settled
  std::vector<StretchPassages> made_;
};

}  // namespace steelyard
