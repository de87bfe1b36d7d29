// What a layout needs and how long its step takes: by a bound of its own graphs where that is enough, else exactly.
//
//   Weigher weigher(target, space, wish, help, reader, memory);
//   weigher.weigh({{layout, least_seconds}, ...}, false, found)
//
// Layouts whose graphs are the same are weighed by one worker, one after the other, and their graphs are drawn once.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "plan/findings.h"
#include "plan/layout_reader.h"

namespace steelyard {

class Weigher {
 public:
  // `memory`: what bounds the layouts of each base of the space.
  Weigher(const PlanTarget& target, const Space& space, const SearchWish& wish,
          const SearchHelp& help, const LayoutReader& reader, const std::vector<FormFacts>& memory);
  ~Weigher();

  struct Asked {
    std::uint32_t layout = 0;  // of the space
    double seconds = 0;        // at least
  };
  // `first`: asked for what they tell of others, so that only those that may be too large are worth it. What is not
  // worth it has the fate kOpen.
  std::vector<LayoutOutcome> weigh(const std::vector<Asked>& which, bool first,
                                   const Findings& found);

 private:
  struct Drawn;
  struct Forms;
  LayoutOutcome weigh(const Asked& asked, Drawn& drawn, Bounds& bounds, bool first,
                      const Findings& found) const;

  const PlanTarget& target_;
  const Space& space_;
  const SearchWish& wish_;
  const SearchHelp& help_;
  const LayoutReader& reader_;
  const std::vector<FormFacts>& memory_;
  const std::unique_ptr<Forms> forms_;
};

}  // namespace steelyard
