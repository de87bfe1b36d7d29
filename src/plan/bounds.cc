#include "plan/bounds.h"

#include <algorithm>

#include "recipe/bytes_per_parameter.h"

namespace steelyard {
namespace {

// Engines whose layers read whole parameters in the compute type from load on.
bool holds_whole_weights(Engine engine, int zero_stage) {
  return engine == Engine::kMegatron || engine == Engine::kNanotron ||
         (engine == Engine::kDeepSpeed && zero_stage < 3);
}

// States that are one tensor for each parameter; factored, blockwise and projected ones have no simple least size.
bool has_plain_states(const Optimizer& optimizer) {
  return !optimizer.paged &&
         std::all_of(optimizer.slots.begin(), optimizer.slots.end(), [](const OptimizerSlot& slot) {
           return slot.extent == SlotExtent::kParameter && slot.applies_to == SlotAppliesTo::kAll;
         });
}

}  // namespace

MemoryBound::MemoryBound(const Job& job) {
  // Frozen parameters may be quantised and have no states.
  if (job.trains_in_part()) return;
  const Precision& precision = job.training.precision;
  parameters_ = static_cast<double>(count_parameters(*job.model).total);
  weight_ = std::min(bytes_each(precision.parameters), bytes_each(precision.compute));
  if (!has_plain_states(job.training.optimizer)) return;
  const BytesPerParameter bytes = bytes_per_parameter(job.training.optimizer, precision);
  states_ = bytes.master + bytes.states;
}

double MemoryBound::least_bytes(const Layout& layout) const {
  const double of_stage = parameters_ / layout.pipeline;
  const double data = static_cast<double>(layout.data) * layout.context;
  const double cut =
      std::max<double>(layout.tensor, static_cast<double>(layout.expert) * layout.expert_tensor);
  double bytes = 0;
  if (holds_whole_weights(layout.engine, layout.zero_stage)) bytes += of_stage * weight_ / cut;
  bytes += of_stage * states_ /
           (layout.zero_stage == 0 ? cut : std::max(cut, layout.tensor * data / layout.replicate));
  return bytes;
}

double micro_batch_seconds(const StepTime& of_form) {
  const TimeTerms& terms = of_form.terms;
  double seconds = 0;
  for (const TimeTerm term : {TimeTerm::kCompute, TimeTerm::kRecompute, TimeTerm::kTensor,
                              TimeTerm::kContext, TimeTerm::kExpert, TimeTerm::kHost})
    seconds += terms[term];
  return seconds;
}

}  // namespace steelyard
