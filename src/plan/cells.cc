#include "plan/cells.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace steelyard {
namespace {

auto key_of_cell(const Layout& l) {
  return std::tuple(l.engine, l.implementation, l.recipe, l.tensor, l.sequence_parallel, l.context,
                    l.context_method, l.expert, l.expert_tensor, l.pipeline, l.chunks, l.schedule);
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

Cells::Cells(const Space& space) : space_(space) {
  std::map<decltype(key_of_cell(Layout())), std::uint32_t> known;
  for (const Bundle& bundle : space.bundles)
    cell_of_.push_back(
        known.try_emplace(key_of_cell(bundle.common), static_cast<std::uint32_t>(known.size()))
            .first->second);
  too_large_.resize(known.size());
}

const WeighedLayout* Cells::too_large(std::uint32_t number) const {
  const std::vector<WeighedLayout>& cell = too_large_[cell_of_[space_.bundle_of(number)]];
  if (cell.empty()) return nullptr;
  const Layout layout = space_.layout(number);
  for (const WeighedLayout& known : cell)
    if (is_no_larger(space_.layout(known.layout), layout)) return &known;
  return nullptr;
}

void Cells::learn(const WeighedLayout& answer) {
  // How states are divided moves bytes to the host and back: only what the device lacks says anything of others.
  if (answer.fate != Fate::kTooLarge || answer.over_host > 0) return;
  std::vector<WeighedLayout>& cell = too_large_[cell_of_[space_.bundle_of(answer.layout)]];
  const Layout layout = space_.layout(answer.layout);
  std::erase_if(cell, [&](const WeighedLayout& known) {
    return is_no_larger(layout, space_.layout(known.layout));
  });
  cell.push_back(answer);
}

}  // namespace steelyard
