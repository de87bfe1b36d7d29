// What the allocator holds, laid open: every segment with its blocks, as torch.cuda.memory._snapshot() lists them.
//
//   segment @ 0x10000000000  20 MiB  stream 0, large
//     4 MiB  used       6 MiB  used       10 MiB  free
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "quantity/quantity.h"

namespace steelyard {

enum class BlockUse : std::uint8_t {
  kUsed,
  kAwaited,
  kFree
};  // active_allocated, active_pending_free, inactive

struct SegmentBlock {
  std::int64_t address = 0;
  Bytes size{}, requested{};
  BlockUse use = BlockUse::kFree;
  friend bool operator==(const SegmentBlock&, const SegmentBlock&) = default;
};

// One cudaMalloc, or one mapped stretch of an expandable range.
struct Segment {
  std::int64_t address = 0;
  Bytes size{};
  std::int32_t stream = 0;
  bool small = false;
  Bytes page{};                      // of an expandable range; nothing for one cudaMalloc
  std::vector<SegmentBlock> blocks;  // by address, without gaps
  friend bool operator==(const Segment&, const Segment&) = default;
};

// Where the reserved bytes are.
struct Fragmentation {
  Bytes used{};        // active
  Bytes returnable{};  // segments that hold nothing, and whole pages: empty_cache() gives them back
  Bytes stuck{};       // free, beside something that is used
  Bytes largest_free{};  // the largest request that needs no new memory, on some stream
};
Fragmentation fragmentation_of(const std::vector<Segment>& segments);

// 128 bits over all blocks: two states with the same digest are taken for the same.
struct StateDigest {
  std::uint64_t first = 0, second = 0;
  // In any order.
  void add(std::uint64_t value) {
    const std::uint64_t once = mixed(value);
    first += once;
    second += (once ^ (once >> 29U)) * 0xda942042e4dd58b5U;
  }
  // Several numbers as one to add.
  static constexpr std::uint64_t joined(std::initializer_list<std::uint64_t> numbers) {
    std::uint64_t value = 0, factor = 1;
    for (const std::uint64_t number : numbers) {
      value += number * factor;
      factor *= 0x9e3779b97f4a7c15U;
    }
    return value;
  }
  void add(const StateDigest& of_others) {
    first += of_others.first;
    second += of_others.second;
  }
  friend bool operator==(const StateDigest&, const StateDigest&) = default;

 private:
  // The finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit of the value moves half of the bits of the result.
  static constexpr std::uint64_t mixed(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15U;
    value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31U);
  }
};

}  // namespace steelyard
