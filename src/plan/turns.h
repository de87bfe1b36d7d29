// What has its turn next in a search: groups of layouts, and layouts that have been taken out of theirs, least time first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace steelyard {

struct Turn {
  double seconds = 0;  // at least
  bool unusual = false;
  bool group = false;
  std::uint32_t at = 0;  // of groups, or of layouts
  // The usual first, then the least; a group before the layouts that it may hold.
  friend bool operator<(const Turn& a, const Turn& b) {
    return std::tuple(b.unusual, b.seconds, a.group, b.at) <
           std::tuple(a.unusual, a.seconds, b.group, a.at);
  }
};

class Turns {
 public:
  void add(const Turn& turn) {
    heap_.push_back(turn);
    std::push_heap(heap_.begin(), heap_.end());
  }
  bool empty() const { return heap_.empty(); }
  const Turn& next() const { return heap_.front(); }
  void pop() {
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
  }
  // In any order.
  const std::vector<Turn>& all() const { return heap_; }

 private:
  std::vector<Turn> heap_;
};

}  // namespace steelyard
