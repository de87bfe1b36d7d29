#include "recipe/bytes_per_parameter.h"

namespace steelyard {
namespace {

double width_of(ElementType type) { return static_cast<double>(bits_of(type)) / 8; }

}  // namespace

BytesPerParameter bytes_per_parameter(const Optimizer& optimizer, const Precision& precision) {
  constexpr std::int64_t kSide = 4096;
  ParameterTensor matrix;
  matrix.name = "mlp.up_proj.weight";
  matrix.shape = {kSide, kSide};

  BytesPerParameter bytes;
  bytes.parameters = width_of(precision.parameters);
  // A gradient that dies inside the backward pass is one tensor's, not one for each parameter.
  if (!optimizer.fused_into_backward) bytes.gradients = width_of(precision.gradients);
  if (precision.accumulated_gradients)
    bytes.accumulated_gradients = width_of(*precision.accumulated_gradients);
  if (precision.master && optimizer.keeps_master) bytes.master = width_of(*precision.master);
  const ElementType type = state_type(precision, optimizer.keeps_master);
  for (const StateTensor& state : state_tensors(optimizer, matrix, matrix.shape, type))
    bytes.states += static_cast<double>(state.elements) * static_cast<double>(state.count) *
                    width_of(state.type) / (static_cast<double>(kSide) * kSide);
  return bytes;
}

}  // namespace steelyard
