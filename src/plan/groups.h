// Open layouts that are timed together.
//
//   block    bundles that differ only in the order and the chunks of their pipeline
//   group    of a block: the same micro-batch, division of states and form; asked for its time when the first has its turn
//   family   groups with the same kernels: asked together
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "plan/bounds.h"
#include "plan/open_layouts.h"
#include "plan/search.h"

namespace steelyard {

struct LayoutGroup {
  std::uint32_t block = 0, round = 0, division = 0, kind = 0, family = 0;
  std::uint32_t form = 0;
  std::uint32_t first = 0;  // any of its layouts
  std::int64_t layouts = 0;
  double seconds = std::numeric_limits<double>::infinity();  // of the fastest, at least
  bool unusual = false;
  bool again = false, splits = false;     // some of them compute layers again, or split backward
  std::shared_ptr<const GroupTime> time;  // null: not asked yet
};

class LayoutGroups {
 public:
  // `facts`: what bounds the time of each base.
  LayoutGroups(const Space& space, const OpenLayouts& open, const Bounds& bounds,
               const std::vector<FormFacts>& facts, const SearchHelp& help);

  std::vector<LayoutGroup> all;
  std::vector<std::vector<std::uint32_t>> families;  // of all

  // Calls `visit` with each open layout of a group: its bundle and its choice.
  template <class Visit>
  void each(const LayoutGroup& group, Visit visit) const {
    for (const std::uint32_t at : blocks_[group.block]) {
      const Bundle& bundle = space_.bundles[at];
      const auto& again = space_.recomputations[bundle.recomputations];
      open_.each_of_slot(bundle, {group.round, group.division, 0}, [&](Choice choice) {
        if (Space::kind_of_form(again[choice.recomputation].mode) == group.kind)
          visit(bundle, choice);
      });
    }
  }

 private:
  void add_groups(std::uint32_t block, Bounds& bounds, const std::vector<FormFacts>& facts,
                  std::vector<LayoutGroup>& made) const;

  const Space& space_;
  const OpenLayouts& open_;
  std::vector<std::vector<std::uint32_t>> blocks_;  // bundles
};

}  // namespace steelyard
