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

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

#include "plan/open_layouts.h"
#include "plan/search.h"

namespace steelyard {

// Whether `a` needs no more than `b`, which is of the same cell.
bool is_no_larger(const Layout& a, const Layout& b);

class Cells {
 public:
  Cells(const Space& space, const OpenLayouts& open);
  ~Cells();
  std::size_t count() const { return cells_.size(); }

  // Who is asked before this one; nothing: nobody.
  std::optional<std::uint32_t> asked_before(std::uint32_t number);
  // One that was too large and is no larger than this one; null: none is known.
  const WeighedLayout* too_large(std::uint32_t number) const;
  void learn(const WeighedLayout& answer);

 private:
  struct Cell {
    std::vector<std::uint32_t> bundles;
    bool divided = false;                // states
    std::vector<std::uint32_t> members;  // sorted by row, from when the first of them is asked
    std::uint32_t leanest = 0;
    std::optional<WeighedLayout> all_too_large;
    std::vector<WeighedLayout> too_large;
  };
  const Cell& cell_of(std::uint32_t number) const;
  Cell& cell_of(std::uint32_t number) {
    return const_cast<Cell&>(static_cast<const Cells&>(*this).cell_of(number));
  }
  void find_members(Cell& cell) const;

  const Space& space_;
  const OpenLayouts& open_;
  std::vector<Cell> cells_;
  std::vector<std::array<std::uint32_t, 2>> of_bundle_;  // where states are whole, and divided
  std::unordered_set<std::uint32_t> known_;
};

}  // namespace steelyard
