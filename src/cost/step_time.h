// The time of one optimizer step, term by term: the terms sum to the step.
//
//   compute    ████████████████████  47.3 s    products, attention, everything that reads and writes
//   recompute                         0.0      forward once more, before backward
//   tensor     ███                    7.2      what no compute hides
//   data       █                      2.6
//   bubble     ▍                      0.6      the slowest stage waits for the others
//   host                              0.0      the device waits for the host to launch
//
// A stage's micro-batch is the sum of its kernels (cost/kernel_time.h), the exchanges that nothing hides, and what the
// host needs beyond that. One stage is the slowest; the step is its micro-batches, the bubble that the pipeline's order
// leaves it, the reduction of gradients and the optimizer.
#pragma once

#include <memory>
#include <vector>

#include "cost/achieved_rates.h"
#include "cost/pipeline_time.h"
#include "cost/step_end.h"
#include "cost/time_terms.h"
#include "job/job.h"
#include "machine/machine.h"
#include "schedule/order.h"

namespace steelyard {

template <class N>
class StagePrograms;
struct StepWork;

struct StepTime {
  Seconds step{};
  Seconds low{}, high{};  // every constant at its fast end, at its slow end
  TimeTerms terms;        // of the slowest stage's ranks; sums to `step`
  TimeTerms hidden;       // exchanges that ran behind compute
  double model_flops =
      0;  // of one step on all devices, without recomputation; a causal square counts half
  double executed_flops = 0;  // with it
  double tokens_per_second_per_device = 0;
  double model_flops_utilization = 0;     // of the peak rate of the compute type
  double hardware_flops_utilization = 0;  // executed
};

// One step, as every rank of a pipeline runs it.
struct StepPlay {
  struct Passage {
    PipelineStep step;
    std::int64_t rank = 0, micro_batch = 0;
    double start = 0, end = 0;  // seconds
    TimeTerms terms;            // sum to end - start
    TimeTerms hidden;           // exchanges behind its compute
  };
  std::vector<Passage> passages;
  double end_of_passages = 0;
  TimeTerms end;                // gradients between the ranks, the optimizer
  TimeTerms hidden_before_end;  // gradients that went behind the last backwards
};

StepTime step_time(const Job& job, const Machine& machine);

// A job whose kernels are known, to be timed on one device and machine after the other. The job outlives its clock.
class StepClock {
 public:
  explicit StepClock(const Job& job);
  StepClock(const Job& job,
            StagePrograms<Checked>& programs);  // of the same job, or one of its variants
  // Of a job without a pipeline that differs only in data ranks, their states and rounds: the kernels of `alike` are its own.
  StepClock(const Job& job, const StepClock& alike);
  ~StepClock();
  // Times the kernels, as expected: clocks of alike jobs that are made from here on find them. Both are to outlive them.
  void settle(const Device& device, const Machine& machine);
  StepTime read(const Device& device, const Machine& machine, Outlook outlook) const;
  // As expected, with the band of all constants at their slow and at their fast ends.
  StepTime read(const Device& device, const Machine& machine) const;
  StepPlay play(const Device& device, const Machine& machine) const;
  // Of one micro-batch through all parts, as an order times it that splits backward: what comes after it anywhere waits.
  struct Passage {
    TimeTerms forward, input;
  };
  Passage passage(const Device& device, const Machine& machine) const;
  // What stages are made of, as expected: a micro-batch on each unit of the model (embedding, kinds of layers, head), with or
  // without what data ranks send beside it; what a stage sends on of it where there are stages; what comes behind the last.
  struct OnUnit {
    PartSeconds seconds;
    HeldParameters held;
  };
  std::vector<OnUnit> on_units(const Device& device, const Machine& machine, bool split) const;
  std::vector<OnUnit> on_units_alone(const Device& device, const Machine& machine) const;
  double seconds_of_a_send(const Device& device, const Machine& machine) const;
  StepEnd end(const Device& device, const Machine& machine) const;

 private:
  std::unique_ptr<StepWork> work_;
};

}  // namespace steelyard
