#include "plan/groups.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "schedule/orders.h"

namespace steelyard {
namespace {

// What most runs are comes first: a good answer early excludes more of the rest.
bool is_unusual(const Layout& layout) {
  return layout.chunks > 1 || layout.replicate > 1 || layout.micro_batch > 4 ||
         layout.schedule != PipelineSchedule::kOneForwardOneBackward ||
         (layout.context > 1 && layout.context_method == ContextMethod::kUlysses);
}

}  // namespace

LayoutGroups::LayoutGroups(const Space& space, const OpenLayouts& open, const Bounds& bounds,
                           const std::vector<FormFacts>& forms)
    : space_(space), open_(open) {
  // Of one row of forms: data ranks (and so stages), whether the order is usual, the list of divisions.
  using BlockKey = std::tuple<std::uint32_t, std::int32_t, std::uint16_t, std::uint16_t, bool>;
  std::map<BlockKey, std::uint32_t> blocks;
  for (std::uint32_t at = 0; at < space.bundles.size(); ++at) {
    const Bundle& bundle = space.bundles[at];
    const auto [found, fresh] =
        blocks.try_emplace({bundle.forms, bundle.common.data, bundle.divisions,
                            bundle.recomputations, is_unusual(bundle.common)},
                           static_cast<std::uint32_t>(blocks_.size()));
    if (fresh) blocks_.emplace_back();
    blocks_[found->second].push_back(at);
  }
  using FamilyKey = std::tuple<std::uint32_t, std::uint8_t, bool>;
  std::map<FamilyKey, std::uint32_t> known;
  for (std::uint32_t block = 0; block < blocks_.size(); ++block) {
    const Bundle& bundle = space.bundles[blocks_[block].front()];
    LayoutGroup group;
    group.block = block;
    for (; group.round < space.rounds[bundle.rounds].size(); ++group.round)
      for (group.division = 0; group.division < space.divisions[bundle.divisions].size();
           ++group.division)
        for (group.kind = 0; group.kind < Space::kKindsOfForm; ++group.kind) {
          LayoutGroup here = group;
          each(group, [&](const Bundle& of, Choice choice) {
            const Layout layout = space.layout(of, choice);
            if (here.layouts++ == 0) {
              here.first = space.number_of(of, choice);
              here.form = space.form_of(of, choice);
              here.unusual = is_unusual(layout);
            }
            here.seconds = std::min(here.seconds, bounds.least_seconds(layout, forms[here.form]));
            here.again = here.again || recomputes_layers(layout.recompute);
            here.splits =
                here.splits || (layout.pipeline > 1 && order_of(layout.schedule).splits_backward);
          });
          if (here.layouts == 0) continue;
          const FamilyKey kernels{here.form,
                                  space.divisions[bundle.divisions][group.division].zero_stage,
                                  space.rounds[bundle.rounds][group.round].accumulation == 1};
          here.family =
              known.try_emplace(kernels, static_cast<std::uint32_t>(known.size())).first->second;
          families.resize(known.size());
          families[here.family].push_back(static_cast<std::uint32_t>(all.size()));
          all.push_back(here);
        }
  }
}

}  // namespace steelyard
