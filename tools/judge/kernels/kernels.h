// Kernels that benchmarks measure by themselves, each composed of the operators that models are made of.
//
//   {"rms_norm", "huggingface", Passes::kFull, {{"M", 2048}, {"H", 4096}}}  ->  320 MiB, inputs included
//
// One file for each part of a model: kernels_*.cc. What a benchmark keeps alive beside the kernel is part of its composition.
#pragma once

#include <optional>

#include "kernels/bench.h"
#include "kernels/kernel_benchmark.h"

namespace steelyard {

// Nothing: no composition of ours, or sizes are missing.
std::optional<Bytes> peak_of(const KernelBenchmark& benchmark);

// By file.
Bytes peak_of_norm(const KernelBenchmark& benchmark);
Bytes peak_of_gated_mlp(const KernelBenchmark& benchmark);
Bytes peak_of_rotary(const KernelBenchmark& benchmark);
Bytes peak_of_cross_entropy(const KernelBenchmark& benchmark);
Bytes peak_of_linear_cross_entropy(const KernelBenchmark& benchmark);

OperatorStyle style_of(const KernelBenchmark& benchmark);

}  // namespace steelyard
