// The order of one rank where the vocabulary's layers are divided over all of them: beside the forwards (F) and backwards (B) of
// its own layers it runs, for every micro-batch, its part of the lookup (E), of the output layer (S) and of the backwards of both
// (e, T). Steps that there is no micro-batch for fall away.
//
//   steps.lookup(); steps.forward(); steps.output();     E F S
//   steps.end("warm-up");                                these, once
//   steps.run("micro-batch", 100, {3}, round);           round(0), round(1), ..: alike from the fourth on
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <vector>

#include "schedule/order.h"

namespace steelyard {

class VocabularySteps {
 public:
  explicit VocabularySteps(std::int64_t micro_batches) : micro_batches_(micro_batches) {}

  void lookup(std::int64_t times = 1) {
    for (; times > 0; --times) put({StepKind::kLookup, 0}, kLookups);
  }
  void lookup_backward() { put({StepKind::kLookupBackward, 0}, kLookupBackwards); }
  void forward() { put(forward_of(0), kForwards); }
  void backward() { put(backward_of(0), kBackwards); }
  // The backward of the micro-batch before, then this one's forward.
  void output_turn() {
    if (counts_[kTurns] > 0) output_backward();
    output();
    ++counts_[kTurns];
  }
  void output() { put({StepKind::kOutput, 0}, kOutputs); }
  void output_backward() { put({StepKind::kOutputBackward, 0}, kOutputBackwards); }
  void end(const char* label) { order_.add(label, std::exchange(steps_, {})); }

  // `times` rounds, which change at some of these.
  template <class Round>
  void run(const char* label, std::int64_t times, std::initializer_list<std::int64_t> changes,
           Round round) {
    std::vector<std::int64_t> cuts(changes);
    for (std::int64_t& cut : cuts) cut = std::clamp<std::int64_t>(cut, 0, times);
    cuts.push_back(times);
    std::sort(cuts.begin(), cuts.end());
    std::int64_t at = 0;
    for (const std::int64_t cut : cuts) {
      const std::int64_t alike = cut - at;
      if (alike == 0) continue;
      const Counts before = counts_;
      round(at);
      order_.add(label, std::exchange(steps_, {}), alike);
      for (std::size_t i = 0; i < counts_.size(); ++i)
        counts_[i] += (alike - 1) * (counts_[i] - before[i]);
      at = cut;
    }
  }

  std::int64_t turns() const { return counts_[kTurns]; }
  std::int64_t lookups_left() const { return micro_batches_ - counts_[kLookups]; }
  std::int64_t lookup_backwards_left() const { return micro_batches_ - counts_[kLookupBackwards]; }
  RankOrder take() { return std::move(order_); }

 private:
  enum Count : std::uint8_t {
    kLookups,
    kLookupBackwards,
    kForwards,
    kBackwards,
    kOutputs,
    kOutputBackwards,
    kTurns,
    kCounts
  };
  using Counts = std::array<std::int64_t, kCounts>;
  void put(PipelineStep step, Count of) {
    if (counts_[of] == micro_batches_) return;
    ++counts_[of];
    steps_.push_back(step);
  }

  std::int64_t micro_batches_;
  Counts counts_{};
  std::vector<PipelineStep> steps_;
  RankOrder order_;
};

}  // namespace steelyard
