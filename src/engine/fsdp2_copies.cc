#include "engine/fsdp2_copies.h"

#include <algorithm>
#include <cmath>

namespace steelyard {
namespace {

constexpr std::int64_t kThreads = 128, kTile = 16 * kThreads;  // bytes that a block copies at once
constexpr std::int64_t kThreadsOfMultiprocessor = 2048;        // of the devices of data centres

std::int64_t divide_up(std::int64_t total, std::int64_t size) { return (total + size - 1) / size; }

// Blocks for one rank's part of every tensor of the unit.
template <class N>
std::int64_t blocks_of(const Unit<N>& unit, const ShardRanks& ranks, ElementType type,
                       std::int64_t bytes_of_block) {
  std::int64_t blocks = 0;
  for (const TensorShare<N>& share : unit.tensors) {
    const Elements elements(plain(padded_shard(share, ranks)));
    blocks += share.copies * divide_up(bytes_of(elements, type).value().value(), bytes_of_block);
  }
  return blocks;
}

}  // namespace

template <class N>
std::int64_t numbers_to_copy_out(const Unit<N>& unit, const ShardRanks& ranks, ElementType type,
                                 std::int64_t multiprocessors) {
  // Twice what the device runs at once; more work than that is shared out between tiles and ranks.
  const std::int64_t most = 2 * multiprocessors * kThreadsOfMultiprocessor / kThreads;
  const std::int64_t rounds = divide_up(blocks_of(unit, ranks, type, kTile) * ranks.dense, most);
  const auto root = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(rounds))));
  const std::int64_t tiles =
      divide_up(rounds, std::max<std::int64_t>(1, std::min(root, ranks.dense)));
  return 4 * unit.tensor_count + 1 +
         blocks_of(unit, ranks, type, kTile * std::max<std::int64_t>(1, tiles));
}

template <class N>
std::int64_t numbers_to_copy_in(const Unit<N>& unit, const ShardRanks& ranks, ElementType type) {
  return 6 * unit.tensor_count + 2 + blocks_of(unit, ranks, type, kTile);
}

#define STEELYARD_COPIES(N)                                                                 \
  template std::int64_t numbers_to_copy_out(const Unit<N>&, const ShardRanks&, ElementType, \
                                            std::int64_t);                                  \
  template std::int64_t numbers_to_copy_in(const Unit<N>&, const ShardRanks&, ElementType);

STEELYARD_COPIES(Checked)
STEELYARD_COPIES(Traced)

}  // namespace steelyard
