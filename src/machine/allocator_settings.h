// What a run may ask of PyTorch's caching allocator, and the reader of the text it is asked in.
//
//   PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,roundup_power2_divisions:[256:1,512:2,>:4]
//
//   max_split_size_mb              larger blocks are neither split nor lent to smaller requests
//   max_non_split_rounding_mb      how much too large a block may be for a request that is not split
//   garbage_collection_threshold   share of the allowed memory above which old cached blocks are given back
//   roundup_power2_divisions       requests are rounded to 1/N of their power of two
//   expandable_segments            segments grow page by page in a reserved range of addresses
//   large_segment_size_mb          what is asked of the driver for requests from 1 to 10 MiB
//   per_process_memory_fraction    the share of the device that this process may take
//   backend                        native; cudaMallocAsync is another allocator and refused by name
//
// Options that steer locks, pinned host memory or graph capture are accepted and have no effect here.
// Sources: pytorch c10/core/AllocatorConfig.{h,cpp}, c10/cuda/CUDAAllocatorConfig.{h,cpp} (2.5 to 2.11; where they
// differ the newer is followed).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "document/diagnostic.h"
#include "quantity/quantity.h"

namespace steelyard {

// Divisions for sizes below 2 MiB, below 4 MiB, ..., from 32 GiB on; 0: off.
constexpr int kRoundupIntervals = 16;

struct AllocatorSettings {
  std::optional<Bytes> max_split_size;  // nothing: every block may be split
  Bytes max_non_split_rounding = 20_MiB;
  double garbage_collection_threshold = 0;  // 0: never
  std::array<std::int64_t, kRoundupIntervals> roundup_divisions{};
  bool expandable_segments = false;
  Bytes large_segment = 20_MiB;
  std::optional<double> memory_fraction;  // nothing: the whole device

  friend bool operator==(const AllocatorSettings&, const AllocatorSettings&) = default;
};

// `source` is the name of the variable or key that holds `text`; problems point into it.
tl::expected<AllocatorSettings, Diagnostics> read_allocator_settings(std::string_view text,
                                                                     const std::string& source);

}  // namespace steelyard
