// Micro-batches that are as long as their longest sample, and what the allocator comes to reserve for them.
//
//   training.packing padded, mean_length 3234, length_deviation 2548, sequence_length 2048
//      micro-batches of 1530, 412, 2011, 987, ... tokens, each with the tape of its length
//
// Blocks of one length do not fit those of another, so more is reserved than micro-batches of the full length would need.
// Samples spread log-normally. How much more is a matter of which length comes when, and two runs of the same data differ
// by as much as two orders of it do here: the median of several orders is the prediction, and their most ends its band.
// The orders come from a fixed sequence of pseudo-random numbers, the same for every prediction.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "allocator/replay_program.h"
#include "engine/stage_program.h"
#include "job/job.h"

namespace steelyard {

// Tokens of a micro-batch than which a part `share` of all are shorter.
std::int64_t padded_length(const SampleLengths& samples, std::int64_t most,
                           std::int64_t micro_batch, double share);

// The programs of one stage at the lengths that its micro-batches have. Empty where all are alike, or where a length
// makes another order of tensors.
class VariedLengths {
 public:
  VariedLengths(const Job& job, std::int64_t stage, const Program& longest);
  static constexpr int kOrders = 11;
  bool empty() const { return of_length_.empty(); }
  MicroBatchLengths ordered(int order) const;
  int steps() const { return steps_; }

 private:
  struct OfLength {
    Job job;
    std::unique_ptr<StagePrograms<Checked>> stages;
  };
  std::vector<std::unique_ptr<OfLength>> programs_;
  std::vector<MicroBatchLengths::OfLength> of_length_;
  std::size_t micro_batches_ = 0;
  int steps_ = 0;
};

}  // namespace steelyard
