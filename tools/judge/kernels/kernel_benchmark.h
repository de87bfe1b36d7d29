// What a benchmark of one kernel says: which, whose, how large, and what of it was measured.
//
//   {"rms_norm", "huggingface", Passes::kFull, {{"M", 2048}, {"H", 4096}}}
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "quantity/quantity.h"

namespace steelyard {

// Backward runs with forward's tensors alive, so it and full are alike.
enum class Passes : std::uint8_t { kForward, kBackward, kFull };

struct KernelBenchmark {
  std::string kernel;    // "fused_linear_cross_entropy"
  std::string provider;  // "liger", or whose code it replaces
  Passes passes = Passes::kFull;
  std::map<std::string, std::int64_t, std::less<>> sizes;  // as the benchmark calls them
  bool is_float32 = false;
  std::int64_t multiprocessors = 132;
  Bytes workspace{};  // of one thread's matrix products
  bool liger() const { return provider.rfind("liger", 0) == 0; }
  // Zero where the benchmark does not say: see peak_of.
  Checked at(const char* size) const {
    const auto found = sizes.find(size);
    return found == sizes.end() ? Checked(0) : Checked(found->second);
  }
};

}  // namespace steelyard
