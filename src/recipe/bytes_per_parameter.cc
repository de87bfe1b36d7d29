#include "recipe/bytes_per_parameter.h"

namespace steelyard {

BytesPerParameter bytes_per_parameter(const Optimizer& optimizer, const Precision& precision) {
  constexpr std::int64_t kSide = 4096;
  ParameterTensor matrix;
  matrix.name = "mlp.up_proj.weight";
  matrix.shape = {kSide, kSide};

  BytesPerParameter bytes;
  bytes.parameters = bytes_each(precision.parameters);
  // A gradient that dies inside the backward pass is one tensor's, not one for each parameter.
  if (!optimizer.fused_into_backward) bytes.gradients = bytes_each(precision.gradients);
  if (precision.accumulated_gradients)
    bytes.accumulated_gradients = bytes_each(*precision.accumulated_gradients);
  if (precision.master && optimizer.keeps_master) bytes.master = bytes_each(*precision.master);
  const ElementType type = state_type(precision, optimizer.keeps_master);
  for (const StateTensor& state : state_tensors(optimizer, matrix, matrix.shape, type))
    bytes.states += static_cast<double>(state.elements) * static_cast<double>(state.count) *
                    bytes_each(state.type) / (static_cast<double>(kSide) * kSide);
  return bytes;
}

}  // namespace steelyard
