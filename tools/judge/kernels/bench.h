// The bench on which one operator is weighed alone, as a benchmark of kernels runs it: its inputs and weights stand there
// throughout, with the gradients of the round before; then forward, then backward, and the highest moment counts.
//
//   Bench bench({.tokens = 2048, .hidden = 4096}, style, parameters);
//   const ValueId x = bench.leaf("x", elements, ElementType::kBFloat16, Bench::Leaf::kTrained);
//   bench.result(bench.composer.normalise(x, norm, rows, width), Bench::Gradient::kGiven);
//   bench.peak(Passes::kFull)
//
// The operators are those that models are composed of.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kernel_benchmark.h"
#include "operators/composer.h"

namespace steelyard {

class Bench {
 public:
  enum class Leaf : std::uint8_t { kFrozen, kTrained, kTrainedInPlace };
  enum class Gradient : std::uint8_t {
    kNone,   // the result is a loss
    kGiven,  // a tensor of the caller's, there throughout
    kMade    // made when backward is called
  };

  Bench(const Sizes<Checked>& sizes, const OperatorStyle& style,
        std::vector<ParameterTensor> parameters, ElementType weights);
  Composer<Checked>& composer() { return *composer_; }
  Graph<Checked>& graph() { return composer_->graph; }

  // A tensor of the caller's. A trained one has its gradient from the round before.
  ValueId leaf(const char* name, Checked elements, ElementType type, Leaf kind);
  // Something else that is alive throughout, or (of `gradient`) from the first backward on.
  void hold(Checked elements, ElementType type, std::int64_t count = 1);
  void hold_gradient(Checked elements, ElementType type, std::int64_t count = 1);
  void hold_bytes(Bytes bytes) { held_ += bytes; }
  // backward(retain_graph=True): what was kept stays until the caller drops the result.
  void retain_graph() { retains_graph_ = true; }
  void result(ValueId value, Gradient gradient);

  Bytes peak(Passes passes);

 private:
  Sizes<Checked> sizes_;
  OperatorStyle style_;
  std::vector<ParameterTensor> parameters_;
  Workbook<Checked> book_;
  std::unique_ptr<Composer<Checked>> composer_;
  Bytes held_{}, gradients_{};
  Gradient gradient_ = Gradient::kNone;
  SlotId result_gradient_ = -1;
  bool retains_graph_ = false;
};

}  // namespace steelyard
