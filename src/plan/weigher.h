// What a layout needs and how long its step takes: by a bound of its own graphs where that is enough, else exactly.
//
//   Weigher weigher(target, space, wish, help, reader, memory);
//   weigher.weigh({{layout, least_seconds}, ...}, found)
//
// Layouts whose graphs are the same are weighed by one worker, one after the other, and their graphs are drawn once.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "plan/findings.h"
#include "plan/layout_reader.h"
#include "predict/prepared_job.h"

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
  // What does not fit for certain where a faster one is known that nearly does has the fate kOpen.
  std::vector<LayoutOutcome> weigh(const std::vector<Asked>& which, const Findings& found);

 private:
  struct Drawn;
  struct Forms;
  LayoutOutcome weigh(const Asked& asked, Drawn& drawn, Bounds& bounds,
                      const Findings& found) const;

  Fate fate_of(const LayoutNeed& need) const;
  std::int32_t choose_recomputed(Job& job, const Layout& layout, const Drawn& drawn, Fate fate,
                                 LayoutNeed& need) const;

  const PlanTarget& target_;
  const Space& space_;
  const SearchWish& wish_;
  const SearchHelp& help_;
  const LayoutReader& reader_;
  const std::vector<FormFacts>& memory_;
  const std::unique_ptr<Forms> forms_;
};

}  // namespace steelyard
