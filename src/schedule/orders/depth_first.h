// One forward, one backward over the chunks of a rank: the common shape of 1f1b, interleaved and the first two zero
// bubbles. A chunk takes `group` micro-batches, then the next chunk does; backward goes through the chunks in reverse.
//
//   2 chunks, groups of 4:   forward 0000 1111 0000 1111 ...    backward 1111 0000 1111 0000 ...
#pragma once

#include "schedule/order.h"

namespace steelyard {

constexpr std::int64_t kWholeBackward = -1;

// `warm_up` forwards before the first backward; gradients of weights follow `delay` steps of backward later, or come at
// once (kWholeBackward).
RankOrder depth_first(const PipelineShape& shape, std::int64_t warm_up, std::int64_t delay);

}  // namespace steelyard
