// The cached blocks of one stream and pool, in the order in which they are lent: by size, then by address.
//
//   class   sizes                         blocks, largest first
//   ...
//   4096    [2.0 MiB, 2.1 MiB)            2.06 MiB @ 90   2.0 MiB @ 70   2.0 MiB @ 10     <- lent first
//   4097    [2.1 MiB, 2.2 MiB)            -
//
// PyTorch keeps one ordered set. Here sizes fall into classes of a sixteenth of a power of two, a bit says which
// classes hold anything, and a class is a short sorted list whose last entry is lent first: training asks for the same
// few sizes again and again and frees in reverse, so most insertions and removals happen at a list's end. The order over
// all classes is that of the set, entry by entry.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

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
  // Sorted; grows and shrinks at whichever end is nearer: remainders of fresh segments come in rising order.
  class List {
   public:
    bool empty() const { return first_ == entries_.size(); }
    std::size_t size() const { return entries_.size() - first_; }
    const Entry& back() const { return entries_.back(); }
    const Entry& operator[](std::size_t index) const { return entries_[first_ + index]; }
    auto begin() const { return entries_.begin() + static_cast<std::ptrdiff_t>(first_); }
    auto end() const { return entries_.end(); }
    void push_back(const Entry& entry) { entries_.push_back(entry); }
    void pop_back() {
      entries_.pop_back();
      if (empty()) clear();
    }
    void insert(std::size_t index, const Entry& entry) {
      const auto at = entries_.begin() + static_cast<std::ptrdiff_t>(first_ + index);
      if (2 * index >= size()) {
        entries_.insert(at, entry);
      } else if (first_ > 0) {
        const auto front = entries_.begin() + static_cast<std::ptrdiff_t>(first_);
        std::move(front, at, std::prev(front));
        *std::prev(at) = entry;
        --first_;
      } else {
        first_ = size() + 4;  // as much room as there is content
        entries_.insert(entries_.begin(), first_, Entry{});
        insert(index, entry);
      }
    }
    void erase(std::size_t index) {
      const auto at = entries_.begin() + static_cast<std::ptrdiff_t>(first_ + index);
      if (2 * index >= size()) {
        entries_.erase(at);
      } else {
        const auto front = entries_.begin() + static_cast<std::ptrdiff_t>(first_);
        std::move_backward(front, at, std::next(at));
        ++first_;
      }
      if (empty()) clear();
    }

   private:
    void clear() {
      entries_.clear();
      first_ = 0;
    }
    std::vector<Entry> entries_;
    std::size_t first_ = 0;  // room before it
  };

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
    return static_cast<std::size_t>(
        std::lower_bound(list.begin(), list.end(), entry,
                         [](const Entry& a, const Entry& b) { return before(b, a); }) -
        list.begin());
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
  std::vector<List> classes_ = std::vector<List>(kClasses);
};

}  // namespace steelyard
