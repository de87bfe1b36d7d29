// What became of the requests of the layer before the one that failed.
//
//   layer 7    q 32 MiB kept    scores 96 MiB freed    up 64 MiB kept
//   layer 8    q 32 MiB         scores 96 MiB          FAILED:   its scores would have been freed, too
//
// At a failure nothing tells what the blocks of this layer would become, but the layer before made the same requests, one
// period earlier, and what was freed since was no activation.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "diagnose/run_parts.h"
#include "evidence/memory_history.h"
#include "evidence/replay.h"

namespace steelyard {

class LayerBefore {
 public:
  LayerBefore(const std::vector<RecordedEvent>& events, const std::vector<RunPart>& parts,
              const DeviceMoment& moment);

  // Whether the request of the layer before that corresponds to this block was freed.
  bool freed(const LiveBlock& block) const;

 private:
  std::int64_t period_begin_ = -1;  // of the layer of the failure
  std::map<std::pair<std::int32_t, std::int64_t>, std::vector<bool>> before_;
  std::unordered_map<std::int64_t, std::size_t> order_;
};

}  // namespace steelyard
