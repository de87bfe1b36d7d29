// How Megatron-FSDP lays parameters out in buckets: one a transformer layer (and one for its experts) when parameters are
// divided; otherwise, and for what stands outside of layers, as many tensors as reach the bucket size.
//
//   bucket   | fc2 | qkv | ... | norms | padding |     a multiple of ranks x the longest row, so that no shard cuts a row
//
// Source: megatron/core/distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py, _get_parameter_groups and
// build_data_parallel_buffer_index (megatron-core 0.16.1).
#pragma once

#include <cstdint>
#include <vector>

namespace steelyard {

struct BucketTensor {
  std::int64_t elements = 0;
  std::int64_t row = 1;  // elements of all dimensions but the first
};

struct FsdpBucket {
  std::vector<BucketTensor> tensors;
  std::int64_t ranks = 1;
  std::int64_t elements() const;
  std::int64_t padded() const;
};

// Closes a bucket when it has `size` elements; 0: never.
class BucketFiller {
 public:
  explicit BucketFiller(std::int64_t size) : size_(size) {}
  void add(const BucketTensor& tensor, std::int64_t ranks);
  void close();
  // A layer's bucket has no limit.
  void without_size() { size_ = 0; }
  std::int64_t padding() const;
  std::vector<FsdpBucket> buckets;

 private:
  std::int64_t size_;
  FsdpBucket open_;
};

// Parameters move into their buckets one by one: a bucket is made, and what it takes in goes.
struct MoveIntoBuckets {
  std::int64_t parameter_bytes = 2,
               main_bytes = 0;  // of an element; 0: there are no main parameters
  bool divides_parameters = false, divides_main = false;
  bool whole_model =
      true;  // stands before; else each bucket's tensors are made when it is their turn
};
// The bytes that stand at most, beyond the buckets that are left in the end.
std::int64_t most_beside_buckets(const std::vector<FsdpBucket>& buckets,
                                 const MoveIntoBuckets& move);

}  // namespace steelyard
