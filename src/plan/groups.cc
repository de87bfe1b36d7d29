#include "plan/groups.h"

#include <algorithm>
#include <array>
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
                           const std::vector<FormFacts>& facts, const SearchHelp& help)
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
  // Blocks of one piece of work.
  constexpr std::size_t kPiece = 64;
  std::vector<std::vector<LayoutGroup>> pieces((blocks_.size() + kPiece - 1) / kPiece);
  help.share(pieces.size(), [&](std::size_t piece) {
    const std::size_t end = std::min(blocks_.size(), (piece + 1) * kPiece);
    Bounds own = bounds;
    for (std::size_t block = piece * kPiece; block < end; ++block)
      add_groups(static_cast<std::uint32_t>(block), own, facts, pieces[piece]);
  });
  // What decides kernels beside the form: gradients that are added to, and when they are synchronised.
  using FamilyKey = std::tuple<std::uint32_t, std::uint8_t, bool, bool>;
  std::map<FamilyKey, std::uint32_t> known;
  for (const std::vector<LayoutGroup>& made : pieces)
    for (LayoutGroup group : made) {
      const Bundle& bundle = space.bundles[blocks_[group.block].front()];
      const FamilyKey kernels{
          group.form, space.divisions[bundle.divisions][group.division].zero_stage,
          space.rounds[bundle.rounds][group.round].accumulation == 1, bundle.common.pipeline > 1};
      group.family =
          known.try_emplace(kernels, static_cast<std::uint32_t>(known.size())).first->second;
      families.resize(known.size());
      families[group.family].push_back(static_cast<std::uint32_t>(all.size()));
      all.push_back(group);
    }
}

void LayoutGroups::add_groups(std::uint32_t block, Bounds& bounds,
                              const std::vector<FormFacts>& facts,
                              std::vector<LayoutGroup>& made) const {
  const Bundle& front = space_.bundles[blocks_[block].front()];
  const std::size_t ways = space_.recomputations[front.recomputations].size();
  // By bundle and what is computed again: however states are divided. Below 0: not asked yet.
  std::vector<double> seconds(blocks_[block].size() * ways);
  Choice choice;
  for (; choice.round < space_.rounds[front.rounds].size(); ++choice.round) {
    std::fill(seconds.begin(), seconds.end(), -1.0);
    for (choice.division = 0; choice.division < space_.divisions[front.divisions].size();
         ++choice.division) {
      std::array<LayoutGroup, Space::kKindsOfForm> groups;
      for (std::size_t at = 0; at < blocks_[block].size(); ++at) {
        const Bundle& bundle = space_.bundles[blocks_[block][at]];
        open_.each_of_slot(bundle, choice, [&](Choice open) {
          const Layout layout = space_.layout(bundle, open);
          LayoutGroup& here = groups[Space::kind_of_form(layout.recompute)];
          if (here.layouts++ == 0) {
            here.first = space_.number_of(bundle, open);
            here.form = space_.form_of(bundle, open);
            here.unusual = is_unusual(layout);
          }
          double& least = seconds[at * ways + open.recomputation];
          if (least < 0) least = bounds.least_seconds(layout, facts[space_.base_of[here.form]]);
          here.seconds = std::min(here.seconds, least);
          here.again = here.again || recomputes_layers(layout.recompute);
          here.splits =
              here.splits || (layout.pipeline > 1 && order_of(layout.schedule).splits_backward);
        });
      }
      for (std::uint32_t kind = 0; kind < Space::kKindsOfForm; ++kind) {
        if (groups[kind].layouts == 0) continue;
        groups[kind].block = block;
        groups[kind].round = choice.round;
        groups[kind].division = choice.division;
        groups[kind].kind = kind;
        made.push_back(groups[kind]);
      }
    }
  }
}

}  // namespace steelyard
