#include "cost/optimizer_time.h"

#include "engine/engine.h"
#include "recipe/bytes_per_parameter.h"

namespace steelyard {

namespace {

// torch/optim/adamw.py, _multi_tensor_adamw: decay, lerp, mul, addcmul, sqrt, div, add, addcdiv read and write 21 lists
// where the fused kernel reads and writes 7.
constexpr double kForeachPasses = 3.0;

bool divides_states(const Job& job) { return job.parallel.zero_stage >= 1; }

}  // namespace

double optimizer_bytes_per_parameter(const Job& job) {
  const Precision& precision = job.training.precision;
  const ElementType stepped = stepped_type(precision, true);
  double states = 0;
  for (const OptimizerSlot& slot : job.training.optimizer.slots)
    if (slot.extent == SlotExtent::kParameter)
      states += bytes_each(slot.type.value_or(state_type(precision, true))) *
                static_cast<double>(slot.count);
  const double gradient =
      bytes_each(precision.master ? ElementType::kFloat32 : precision.gradients);
  double bytes = 2 * bytes_each(stepped) + gradient + 2 * states;
  if (form_of(job.training) != OptimizerForm::kFused) bytes *= kForeachPasses;
  if (precision.master) bytes += bytes_each(precision.compute);  // the copy that layers read
  if (job.training.gradient_clip) bytes += 3 * gradient;
  return bytes;
}

double optimizer_seconds(const Job& job, double elements, const Device& device, Outlook outlook) {
  const double ranks = divides_states(job) ? static_cast<double>(job.parallel.data) *
                                                 static_cast<double>(job.parallel.context)
                                           : 1.0;
  const double rate = device.memory_bandwidth.value() * at(achieved_rates(device).memory, outlook);
  return elements / ranks * optimizer_bytes_per_parameter(job) / rate;
}

}  // namespace steelyard
