#include "cost/optimizer_time.h"

#include <algorithm>

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

double host_step_bytes_per_parameter(const Job& job) {
  const Precision& precision = job.training.precision;
  double states = 0;
  for (const OptimizerSlot& slot : job.training.optimizer.slots)
    if (slot.extent == SlotExtent::kParameter) states += 4 * static_cast<double>(slot.count);
  // fp32 whatever the device has: master and states read and written, the gradient read, the copy to send up written.
  return 2 * 4 + 4 + 2 * states + bytes_each(precision.compute);
}

double optimizer_seconds(const Job& job, double elements, const Device& device,
                         const Machine& machine, Outlook outlook) {
  const double ranks = divides_states(job) ? static_cast<double>(job.parallel.data) *
                                                 static_cast<double>(job.parallel.context)
                                           : 1.0;
  if (job.offload.optimizer != OffloadTarget::kNone) {
    const AchievedRates& rates = achieved_rates(device);
    const auto here =
        static_cast<double>(std::min(job.cluster.devices, job.cluster.devices_per_node).value());
    const double memory =
        machine.host_memory_bandwidth.value() * at(rates.host_memory, outlook) / here;
    const double link = device.host_link.value() * at(rates.host_link, outlook);
    const double crossing =
        bytes_each(job.training.precision.gradients) + bytes_each(job.training.precision.compute);
    return elements / ranks * (host_step_bytes_per_parameter(job) / memory + crossing / link);
  }
  const double rate = device.memory_bandwidth.value() * at(achieved_rates(device).memory, outlook);
  return elements / ranks * optimizer_bytes_per_parameter(job) / rate;
}

}  // namespace steelyard
