// What a layout that is too large says of others: all that are no leaner are too large as well.
//
//   cell      layouts that differ only in micro-batch, recomputation, the loss, and how far states are divided
//   leanest   of a cell: most computed again, smallest micro-batch, most divided; where it is too large, all of them are
//   row       those of a cell that differ in nothing but the micro-batch; the smallest is asked before the others
//   no leaner at least the micro-batch, no more computed again, states divided alike or less
//
// More computed again never keeps more, more ranks never hold more, fewer sequences are never larger: the properties
// that tests/exhaustive holds the predictor to. The judge of the search (search_test.cc) weighs the others all the same.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/search.h"

namespace steelyard {

// Whether `a` needs no more than `b`, which is of the same cell.
bool is_no_larger(const Layout& a, const Layout& b);

class Cells {
 public:
  explicit Cells(const std::vector<Layout>& layouts) : layouts_(layouts) {}
  // Layouts are called by their number in this order from then on.
  void add(std::uint32_t layout);
  std::size_t count() const { return cells_.size(); }

  // Who is asked before this one; nothing: nobody.
  std::optional<std::uint32_t> asked_before(std::uint32_t number);
  // One that was too large and is no larger than this one; null: none is known.
  const WeighedLayout* too_large(std::uint32_t number) const;
  void learn(std::uint32_t number, const WeighedLayout& answer);

 private:
  struct Cell {
    std::uint32_t leanest = 0;
    std::vector<std::uint32_t> members;  // sorted by row, from when the first of them is asked
    bool sorted = false;
    std::optional<WeighedLayout> all_too_large;
    std::vector<WeighedLayout> too_large;
  };
  const Layout& layout(std::uint32_t number) const { return layouts_[of_[number].layout]; }

  struct Place {
    std::uint32_t layout = 0, cell = 0;
  };
  const std::vector<Layout>& layouts_;
  std::vector<Place> of_;  // by number
  std::vector<bool> is_known_;
  std::vector<Cell> cells_;
  class Keys;
  std::shared_ptr<Keys> keys_;
};

}  // namespace steelyard
