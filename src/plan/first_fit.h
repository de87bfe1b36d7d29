// The end of a search for any layout that fits: what the search estimates, predict() confirms, so that "it fits" is what weigh
// says of the layout.
//
//   estimated to fit       asked at once, one after the other; the first that is confirmed ends the search
//   nearly fits            asked when all layouts have been looked at, the leanest first
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/findings.h"
#include "plan/layout_reader.h"

namespace steelyard {

class FirstFit {
 public:
  FirstFit(const Space& space, const LayoutReader& reader, const SearchHelp& help, Findings& found)
      : space_(space), reader_(reader), help_(help), found_(found) {}

  // Hands on what was weighed; what nearly fits waits for settle().
  void take(std::vector<LayoutOutcome>& answers);
  void settle();

 private:
  bool is_confirmed(std::uint32_t layout) const;
  std::size_t first_confirmed(const std::vector<std::uint32_t>& layouts) const;

  const Space& space_;
  const LayoutReader& reader_;
  const SearchHelp& help_;
  Findings& found_;
  std::vector<LayoutOutcome> near_;
};

}  // namespace steelyard
