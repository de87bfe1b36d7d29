#include "engine/megatron_buckets.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace steelyard {

std::int64_t FsdpBucket::elements() const {
  std::int64_t sum = 0;
  for (const BucketTensor& tensor : tensors) sum += tensor.elements;
  return sum;
}

std::int64_t FsdpBucket::padded() const {
  std::vector<BucketTensor> sorted = tensors;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const BucketTensor& a, const BucketTensor& b) { return a.row > b.row; });
  std::int64_t factor = sorted.empty() ? 1 : sorted.front().row;
  for (const BucketTensor& tensor : sorted) {
    const bool fits = tensor.row == factor || tensor.elements < factor ||
                      (factor % tensor.row == 0 && tensor.elements % factor == 0);
    if (!fits) factor = std::lcm(factor, tensor.row);
  }
  // Tensors of whole chunks stand side by side; what is smaller than a chunk fills the gaps they leave, or stands behind.
  std::int64_t end = 0;
  std::vector<std::int64_t> gaps;
  for (const BucketTensor& tensor : sorted) {
    if (tensor.elements < factor) continue;
    const std::int64_t chunks = (tensor.elements + factor - 1) / factor;
    end += chunks * factor;
    gaps.push_back(chunks * factor - tensor.elements);
  }
  for (const BucketTensor& tensor : sorted) {
    if (tensor.elements >= factor) continue;
    const auto gap = std::find_if(gaps.begin(), gaps.end(),
                                  [&](std::int64_t space) { return space >= tensor.elements; });
    if (gap == gaps.end())
      end += tensor.elements;
    else
      *gap -= tensor.elements;
  }
  const std::int64_t multiple = factor * ranks;
  return (end + multiple - 1) / multiple * multiple;
}

void BucketFiller::add(const BucketTensor& tensor, std::int64_t ranks) {
  if (open_.ranks != ranks) close();
  open_.ranks = ranks;
  open_.tensors.push_back(tensor);
  if (size_ > 0 && open_.elements() >= size_) close();
}

std::int64_t BucketFiller::padding() const {
  std::int64_t sum = 0;
  for (const FsdpBucket& bucket : buckets) sum += bucket.padded() - bucket.elements();
  return sum;
}

void BucketFiller::close() {
  if (!open_.tensors.empty()) buckets.push_back(std::exchange(open_, FsdpBucket{}));
}

std::int64_t most_beside_buckets(const std::vector<FsdpBucket>& buckets,
                                 const MoveIntoBuckets& move) {
  const std::int64_t width = move.parameter_bytes;
  std::int64_t left = 0, made = 0, most = 0;
  for (const FsdpBucket& bucket : buckets)
    if (move.whole_model) left += width * bucket.elements();
  for (const FsdpBucket& bucket : buckets) {
    const std::int64_t padded = bucket.padded(), shard = padded / bucket.ranks;
    made += width * (move.divides_parameters ? shard : padded) +
            move.main_bytes * (move.divides_main ? shard : padded);
    if (!move.whole_model) left = width * bucket.elements();
    most = std::max(most, left + made + (move.divides_parameters ? width * padded : 0));
    left -= width * bucket.elements();
  }
  return std::max<std::int64_t>(0, most - made);
}

}  // namespace steelyard
