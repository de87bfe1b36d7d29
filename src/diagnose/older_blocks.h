// Blocks that are older than the history: parameters, and whole sets of the same sizes beside them.
//
//   8 x 4 MiB and 8 x 9 MiB, nothing freed later          parameters alone, or one set of four: gradients and two moments beside
//   four sets, and all of one freed after the step        the gradients of the step before
//
// A ring forgets, and recording may begin late: such blocks have neither frames nor a birth. What is freed within the history,
// how often each size occurs, and the prediction where there is one, tell them apart.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "diagnose/attribution.h"

namespace steelyard {

using TensorsBySize =
    std::map<std::int64_t, std::vector<ExpectedTensor>>;  // on the allocator's grain

class OlderBlocks {
 public:
  OlderBlocks(const std::vector<RecordedEvent>& events, const std::vector<RunPart>& parts,
              const DeviceMoment& moment, const TensorsBySize& expected, Attribution& result)
      : events_(events), parts_(parts), moment_(moment), expected_(expected), result_(result) {}

  // Gives a pile to those blocks of the result that have none yet.
  void split();

 private:
  std::int64_t sets_of_base(const std::map<std::int64_t, std::int64_t>& counts,
                            std::int64_t bytes) const;
  std::optional<std::int32_t> replaced_by(const LiveBlock& block,
                                          const std::vector<std::int64_t>& deaths) const;
  bool makes_own_state() const;
  bool split_by_expected(const std::vector<std::size_t>& open);

  const std::vector<RecordedEvent>& events_;
  const std::vector<RunPart>& parts_;
  const DeviceMoment& moment_;
  const TensorsBySize& expected_;
  Attribution& result_;
};

}  // namespace steelyard
