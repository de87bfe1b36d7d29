#include "kernels/kernels.h"

#include <array>

namespace steelyard {
namespace {

struct Composed {
  const char* kernel;
  Bytes (*peak)(const KernelBenchmark& benchmark);
  std::array<const char*, 4> needs;  // sizes without which there is nothing to weigh
};
constexpr std::array kComposed = {
    Composed{"layer_norm", peak_of_norm, {"M", "N"}},
    Composed{"rms_norm", peak_of_norm, {"M", "H"}},
    Composed{"swiglu", peak_of_gated_mlp, {"B", "T", "hidden_size", "intermediate_size"}},
    Composed{"geglu", peak_of_gated_mlp, {"bsz", "T", "hidden_size", "intermediate_size"}},
    Composed{"rope", peak_of_rotary, {"seq_len", "hidden_size", "num_q_heads", "num_kv_heads"}},
    Composed{"cross_entropy", peak_of_cross_entropy, {"B", "T", "V"}},
    Composed{"fused_linear_cross_entropy", peak_of_linear_cross_entropy, {"BT", "H", "V"}},
};

}  // namespace

std::optional<Bytes> peak_of(const KernelBenchmark& benchmark) {
  for (const Composed& composed : kComposed) {
    if (benchmark.kernel != composed.kernel) continue;
    for (const char* size : composed.needs)
      if (size != nullptr && benchmark.at(size) <= Checked(0)) return std::nullopt;
    return composed.peak(benchmark);
  }
  return std::nullopt;
}

OperatorStyle style_of(const KernelBenchmark& benchmark) {
  OperatorStyle style;
  style.liger = benchmark.liger();
  style.norms_written_out = !style.liger;
  style.multiprocessors = benchmark.multiprocessors;
  if (benchmark.is_float32) {
    style.compute = ElementType::kFloat32;
    style.residual = ElementType::kFloat32;
    style.gradient = ElementType::kFloat32;
    style.weight_gradient = ElementType::kFloat32;
  }
  return style;
}

}  // namespace steelyard
