// What a layout needs and how long its step takes: by a bound of its own graphs where that is enough, else exactly.
//
//   Weigher weigher(target, space, wish, reader, facts);
//   weigher.weigh({{layout, least_seconds}, ...}, found, answers, tasks)
//   tasks.run()                   the answers are there
//
// Layouts whose graphs are the same are weighed one after the other, some dozens of them by one worker, and their graphs
// are drawn once for those.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "plan/findings.h"
#include "plan/layout_reader.h"
#include "plan/tasks.h"
#include "predict/prepared_job.h"

namespace steelyard {

class Weigher {
 public:
  // `facts`: what bounds the layouts of each base of the space.
  Weigher(const PlanTarget& target, const Space& space, const SearchWish& wish,
          const LayoutReader& reader, const std::vector<FormFacts>& facts);
  ~Weigher();

  struct Asked {
    std::uint32_t layout = 0;  // of the space
    double seconds = 0;        // at least
  };
  // What does not fit for certain where a faster one is known that nearly does has the fate kOpen.
  // Nothing of this moves until the tasks have run.
  void weigh(const std::vector<Asked>& which, const Findings& found,
             std::vector<LayoutOutcome>& answers, Tasks& tasks);

 private:
  struct Drawn;
  struct Forms;
  LayoutOutcome weigh(const Asked& asked, Drawn& drawn, Bounds& bounds,
                      const Findings& found) const;

  Fate fate_of(const LayoutNeed& need) const;
  std::int32_t choose_recomputed(Job& job, const Layout& layout, PreparedJob& prepared, Fate fate,
                                 LayoutNeed& need) const;

  const PlanTarget& target_;
  const Space& space_;
  const SearchWish& wish_;
  const LayoutReader& reader_;
  const std::vector<FormFacts>& facts_;
  const std::unique_ptr<Forms> forms_;
};

}  // namespace steelyard
