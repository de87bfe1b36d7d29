// A list that is edited where it was edited last: entries in order, with a gap at the place of the last edit.
//
//   a b c [gap] d e        erase c, insert at that place: nothing moves        push_back, pop_back: as of a vector
//
// What training frees in reverse lies side by side in every list here, so most edits move no entry, however long the list.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace steelyard {

template <class Entry>
class GapList {
 public:
  std::size_t size() const { return entries_.size() - gap_; }
  bool empty() const { return entries_.size() == gap_; }
  const Entry& operator[](std::size_t index) const { return entries_[place_of(index)]; }
  Entry& operator[](std::size_t index) { return entries_[place_of(index)]; }
  // The gap is never at the end.
  const Entry& back() const { return entries_.back(); }

  void push_back(const Entry& entry) { entries_.push_back(entry); }
  void pop_back() {
    entries_.pop_back();
    drop_gap_at_end();
  }
  void insert(std::size_t index, const Entry& entry) {
    if (index == size()) return push_back(entry);
    if (gap_ == 0) {
      // As much room as there is content, so that it is rarely made.
      const std::size_t room = entries_.size() + 4;
      entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(index), room, Entry{});
      at_ = index;
      gap_ = room;
    }
    move_gap(index);
    entries_[at_++] = entry;
    --gap_;
  }
  void erase(std::size_t index) {
    if (index + 1 == size()) return pop_back();
    if (gap_ == 0) at_ = index;
    // The entry is the first behind the gap, or becomes so.
    if (gap_ > 0 && index + 1 == at_)
      --at_;
    else
      move_gap(index);
    ++gap_;
  }
  void resize(std::size_t size_wanted, const Entry& entry) {
    while (size() > size_wanted) pop_back();
    while (size() < size_wanted) push_back(entry);
  }
  void clear() {
    entries_.clear();
    at_ = gap_ = 0;
  }

 private:
  std::size_t place_of(std::size_t index) const { return index < at_ ? index : index + gap_; }
  void move_gap(std::size_t index) {
    const auto from = entries_.begin();
    const auto offset = [](std::size_t place) { return static_cast<std::ptrdiff_t>(place); };
    if (index < at_)
      std::move_backward(from + offset(index), from + offset(at_), from + offset(at_ + gap_));
    else if (index > at_)
      std::move(from + offset(at_ + gap_), from + offset(index + gap_), from + offset(at_));
    at_ = index;
  }
  void drop_gap_at_end() {
    if (at_ + gap_ != entries_.size()) return;
    entries_.resize(at_);
    at_ = gap_ = 0;
  }

  std::vector<Entry> entries_;
  std::size_t at_ = 0, gap_ = 0;  // entries [at_, at_ + gap_) are none
};

}  // namespace steelyard
