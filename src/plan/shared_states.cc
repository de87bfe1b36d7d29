#include "plan/shared_states.h"

namespace steelyard {

double bytes_per_rank(const BytesPerParameter& states, std::int64_t zero_stage,
                      std::int64_t ranks) {
  const auto shards = static_cast<double>(ranks);
  const double gradients = states.gradients + states.accumulated_gradients;
  const double optimizer = states.master + states.states;
  switch (zero_stage) {
    case 0:
      return states.total();
    case 1:
      return states.parameters + gradients + optimizer / shards;
    case 2:
      return states.parameters + (gradients + optimizer) / shards;
    default:
      return states.total() / shards;
  }
}

}  // namespace steelyard
