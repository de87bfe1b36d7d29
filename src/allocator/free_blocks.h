// The cached blocks of one stream and pool, in the order in which they are lent: by size, then by address.
//
//   class   sizes                         blocks, largest first
//   ...
//   4096    [2.0 MiB, 2.1 MiB)            2.06 MiB @ 90   2.0 MiB @ 70   2.0 MiB @ 10     <- lent first
//   4097    [2.1 MiB, 2.2 MiB)            -
//
// PyTorch keeps one ordered set. Here sizes fall into classes of a sixteenth of a power of two, a bit says which
// classes hold anything, and a class is a sorted list whose last entry is lent first: training asks for the same few sizes
// again and again and frees in reverse, so most insertions and removals happen at a list's end or beside the last one
// (allocator/gap_list.h). The order over all classes is that of the set, entry by entry.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "allocator/gap_list.h"

namespace steelyard {

using BlockIndex = std::int32_t;
constexpr BlockIndex kNoBlock = -1;

class FreeBlocks {
 public:
  struct Entry {
    std::int64_t size;
    std::int64_t address;
    BlockIndex block;
  };

  void insert(const Entry& entry) {
    const std::size_t which = class_of(entry.size);
    if (which >= classes_.size()) classes_.resize(which + 1);
    List& list = classes_[which];
    occupied_[which / kWord] |= std::uint64_t{1} << (which % kWord);
    if (list.empty() || before(entry, list.back())) {
      list.push_back(entry);
      return;
    }
    list.insert(position(list, entry), entry);
  }

  void remove(std::int64_t size, std::int64_t address) {
    const std::size_t which = class_of(size);
    List& list = classes_[which];
    const Entry entry{size, address, kNoBlock};
    if (list.back().address == address && list.back().size == size)
      list.pop_back();
    else
      list.erase(position(list, entry));
    if (list.empty()) occupied_[which / kWord] &= ~(std::uint64_t{1} << (which % kWord));
  }

  // A place in the order; of no use once the list has changed.
  struct Cursor {
    std::size_t which = kClasses;  // kClasses: behind the last
    std::size_t index = 0;
  };
  // The smallest block of at least `size`; of equals the one with the lowest address.
  Cursor best_fit(std::int64_t size) const {
    const std::size_t which = class_of(size);
    if (which >= classes_.size()) return {};
    const List& list = classes_[which];
    if (!list.empty()) {
      if (list.back().size >= size) return {which, list.size() - 1};
      const std::size_t larger =
          position(list, {size, std::numeric_limits<std::int64_t>::min(), kNoBlock});
      if (larger > 0) return {which, larger - 1};
    }
    return first_from(which + 1);
  }
  Cursor begin() const { return first_from(0); }
  Cursor next(Cursor cursor) const {
    if (cursor.index > 0) return {cursor.which, cursor.index - 1};
    return first_from(cursor.which + 1);
  }
  bool is_end(const Cursor& cursor) const { return cursor.which == kClasses; }
  const Entry& at(const Cursor& cursor) const { return classes_[cursor.which][cursor.index]; }
  void remove(const Cursor& cursor) {
    List& list = classes_[cursor.which];
    list.erase(cursor.index);
    if (list.empty())
      occupied_[cursor.which / kWord] &= ~(std::uint64_t{1} << (cursor.which % kWord));
  }

 private:
  using List = GapList<Entry>;  // sorted

  static constexpr std::size_t kWord = 64;
  static constexpr int kUnitBits = 9;   // sizes are multiples of 512
  static constexpr int kClassBits = 4;  // sixteen classes in each power of two
  static constexpr std::size_t kClasses = 64 * ((63 - kUnitBits) * 16 / 64 + 1);

  static std::size_t class_of(std::int64_t size) {
    const auto units = static_cast<std::uint64_t>(size) >> kUnitBits;
    const int power = static_cast<int>(std::bit_width(units | 15)) -
                      1;  // at least 3: below 16 units each size is a class
    const int shift = std::max(0, power - kClassBits);
    return (static_cast<std::size_t>(shift) << kClassBits) +
           static_cast<std::size_t>(units >> shift);
  }
  // Lent before the other.
  static bool before(const Entry& a, const Entry& b) {
    return a.size != b.size ? a.size < b.size : a.address < b.address;
  }
  // The first entry that is not lent after `entry`.
  static std::size_t position(const List& list, const Entry& entry) {
    std::size_t first = 0, count = list.size();
    while (count > 0) {
      const std::size_t half = count / 2;
      if (before(entry, list[first + half])) {
        first += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    return first;
  }
  Cursor first_from(std::size_t which) const {
    std::size_t word = which / kWord;
    if (word >= occupied_.size()) return {};
    std::uint64_t bits = occupied_[word] & (~std::uint64_t{0} << (which % kWord));
    while (bits == 0) {
      if (++word == occupied_.size()) return {};
      bits = occupied_[word];
    }
    const std::size_t found = word * kWord + static_cast<std::size_t>(std::countr_zero(bits));
    return {found, classes_[found].size() - 1};
  }

  std::array<std::uint64_t, kClasses / kWord> occupied_{};
  std::vector<List> classes_;  // up to the largest that held anything
};

}  // namespace steelyard
