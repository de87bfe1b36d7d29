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
// host needs beyond that. One stage is the slowest; the step is its micro-batches, one passage through the others, the
// reduction of gradients and the optimizer.
#pragma once

#include <array>
#include <string_view>

#include "cost/achieved_rates.h"
#include "job/job.h"
#include "machine/machine.h"

namespace steelyard {

enum class TimeTerm : std::uint8_t {
  kCompute,
  kRecompute,
  kTensor,
  kContext,
  kExpert,
  kData,
  kPipeline,
  kBubble,
  kOffload,
  kOptimizer,
  kHost
};
constexpr std::size_t kTimeTerms = 11;
std::string_view name_of(TimeTerm term);

struct TimeTerms {
  std::array<double, kTimeTerms> seconds{};
  double& operator[](TimeTerm term) { return seconds[static_cast<std::size_t>(term)]; }
  double operator[](TimeTerm term) const { return seconds[static_cast<std::size_t>(term)]; }
  double total() const;
  TimeTerms& operator+=(const TimeTerms& other);
  friend TimeTerms operator*(TimeTerms terms, double times);
};

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

StepTime step_time(const Job& job, const Machine& machine);

}  // namespace steelyard
