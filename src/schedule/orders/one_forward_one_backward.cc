// 1F1B, PipeDream-Flush (Narayanan et al. 2021, arXiv:2104.04473): a rank runs as many forwards ahead as ranks follow it.
#include "schedule/orders/depth_first.h"
#include "schedule/orders/orders.h"

namespace steelyard {

RankOrder one_forward_one_backward_order(const PipelineShape& shape, std::int64_t rank) {
  if (shape.vocabulary == VocabularyLayers::kInterlaced) return interlaced_order(shape, rank);
  if (shape.vocabulary != VocabularyLayers::kAtTheEnds) return vocabulary_order(shape, rank);
  return depth_first(shape, shape.ranks - 1 - rank, kWholeBackward);
}

}  // namespace steelyard
