#include "plan/cells.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace steelyard {
namespace {

auto leanness(const Layout& layout) {
  return std::tuple(layout.recompute != RecomputeMode::kFull, layout.micro_batch,
                    layout.loss == LossKernel::kPlain, -static_cast<int>(layout.zero_stage),
                    layout.replicate);
}

// Stages with one data rank are another code path.
auto key_of_cell(const Layout& l) {
  return std::tuple(l.engine, l.implementation, l.recipe, l.tensor, l.sequence_parallel, l.context,
                    l.context_method, l.expert, l.expert_tensor, l.pipeline, l.chunks, l.schedule);
}

auto row_of(const Layout& layout) {
  return std::tuple(layout.loss, layout.zero_stage, layout.replicate, layout.recompute,
                    layout.recomputed);
}

// Whether everything that `b` computes again `a` does, too.
bool computes_as_much_again(const Layout& a, const Layout& b) {
  if (a.recompute == RecomputeMode::kFull || b.recompute == RecomputeMode::kNone) return true;
  if (a.recompute != b.recompute) return false;
  switch (a.recompute) {
    case RecomputeMode::kEvery:
      return b.recomputed % a.recomputed == 0;
    case RecomputeMode::kBlock:
      return a.recomputed >= b.recomputed;
    default:
      return true;
  }
}

}  // namespace

bool is_no_larger(const Layout& a, const Layout& b) {
  return a.micro_batch <= b.micro_batch && computes_as_much_again(a, b) &&
         (a.loss == b.loss || a.loss != LossKernel::kPlain) && a.zero_stage == b.zero_stage &&
         a.replicate <= b.replicate;
}

Cells::Cells(const Space& space, const OpenLayouts& open) : space_(space), open_(open) {
  std::map<decltype(key_of_cell(Layout())), std::uint32_t> known;
  of_bundle_.reserve(space.bundles.size());
  for (std::uint32_t at = 0; at < space.bundles.size(); ++at) {
    const auto [found, fresh] = known.try_emplace(key_of_cell(space.bundles[at].common),
                                                  static_cast<std::uint32_t>(cells_.size()));
    if (fresh)
      for (const bool divided : {false, true}) cells_.push_back({{}, divided, {}, 0, {}, {}});
    of_bundle_.push_back({found->second, found->second + 1});
    for (const std::uint32_t cell : of_bundle_.back()) cells_[cell].bundles.push_back(at);
  }
}
Cells::~Cells() = default;

const Cells::Cell& Cells::cell_of(std::uint32_t number) const {
  const std::uint32_t at = space_.bundle_of(number);
  const Bundle& bundle = space_.bundles[at];
  const Choice choice = space_.choice_of(bundle, number);
  const bool divided = space_.divisions[bundle.divisions][choice.division].zero_stage > 0;
  return cells_[of_bundle_[at][divided ? 1 : 0]];
}

void Cells::find_members(Cell& cell) const {
  if (!cell.members.empty()) return;
  std::vector<std::pair<std::uint32_t, Layout>> members;
  for (const std::uint32_t at : cell.bundles) {
    const Bundle& bundle = space_.bundles[at];
    open_.each(bundle, [&](Choice choice) {
      const Layout layout = space_.layout(bundle, choice);
      if ((layout.zero_stage > 0) == cell.divided)
        members.emplace_back(space_.number_of(bundle, choice), layout);
    });
  }
  const auto leanest = std::min_element(
      members.begin(), members.end(),
      [](const auto& a, const auto& b) { return leanness(a.second) < leanness(b.second); });
  cell.leanest = leanest->first;
  std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
    return std::tuple(row_of(a.second), a.second.micro_batch) <
           std::tuple(row_of(b.second), b.second.micro_batch);
  });
  for (const auto& [number, layout] : members) cell.members.push_back(number);
}

std::optional<std::uint32_t> Cells::asked_before(std::uint32_t number) {
  Cell& cell = cell_of(number);
  find_members(cell);
  if (known_.count(cell.leanest) == 0 && cell.leanest != number &&
      space_.layout(cell.leanest).recompute == RecomputeMode::kFull)
    return cell.leanest;
  const auto row = row_of(space_.layout(number));
  const auto first = std::lower_bound(
      cell.members.begin(), cell.members.end(), row,
      [&](std::uint32_t a, const auto& than) { return row_of(space_.layout(a)) < than; });
  if (*first == number || known_.count(*first) > 0) return std::nullopt;
  return *first;
}

const WeighedLayout* Cells::too_large(std::uint32_t number) const {
  const Cell& cell = cell_of(number);
  if (cell.all_too_large) return &*cell.all_too_large;
  if (cell.too_large.empty()) return nullptr;
  const Layout layout = space_.layout(number);
  for (const WeighedLayout& known : cell.too_large)
    if (known.layout != number && is_no_larger(space_.layout(known.layout), layout)) return &known;
  return nullptr;
}

void Cells::learn(const WeighedLayout& answer) {
  known_.insert(answer.layout);
  if (answer.fate != Fate::kTooLarge) return;
  Cell& cell = cell_of(answer.layout);
  find_members(cell);
  const Layout layout = space_.layout(answer.layout);
  if (answer.layout == cell.leanest && layout.recompute == RecomputeMode::kFull) {
    cell.all_too_large = answer;
    return;
  }
  std::erase_if(cell.too_large, [&](const WeighedLayout& known) {
    return is_no_larger(layout, space_.layout(known.layout));
  });
  cell.too_large.push_back(answer);
}

}  // namespace steelyard
