// What a layout that is too large says of others: all that are no leaner are too large as well.
//
//   cell        layouts that differ only in micro-batch, recomputation, the loss, and how far states are divided
//   no leaner   at least the micro-batch, no more computed again, states divided alike or less
//
// More computed again never keeps more, more ranks never hold more, fewer sequences are never larger: the properties
// that tests/exhaustive holds the predictor to. The judge of the search (search_test.cc) weighs the others all the same.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/search.h"

namespace steelyard {

// Whether `a` needs no more than `b`, which is of the same cell.
bool is_no_larger(const Layout& a, const Layout& b);

class Cells {
 public:
  explicit Cells(const Space& space);

  // One that was too large and is no larger than this one; null: none is known.
  const WeighedLayout* too_large(std::uint32_t number) const;
  void learn(const WeighedLayout& answer);

 private:
  const Space& space_;
  std::vector<std::uint32_t> cell_of_;  // of each bundle
  std::vector<std::vector<WeighedLayout>> too_large_;
};

}  // namespace steelyard
