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
auto cell_of(const Layout& l) {
  return std::tuple(l.engine, l.implementation, l.recipe, l.tensor, l.sequence_parallel, l.context,
                    l.context_method, l.expert, l.expert_tensor, l.pipeline, l.chunks, l.schedule,
                    l.zero_stage == 0);
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

using CellKey = decltype(cell_of(std::declval<const Layout&>()));
class Cells::Keys {
 public:
  std::map<CellKey, std::uint32_t> known;
};

void Cells::add(std::uint32_t at) {
  if (keys_ == nullptr) keys_ = std::make_shared<Keys>();
  const Layout& here = layouts_[at];
  const auto number = static_cast<std::uint32_t>(of_.size());
  // Neighbours in the space are mostly of one cell.
  std::uint32_t cell = number > 0 ? of_.back().cell : 0;
  if (number == 0 || cell_of(layout(number - 1)) != cell_of(here)) {
    const auto [found, fresh] =
        keys_->known.try_emplace(cell_of(here), static_cast<std::uint32_t>(cells_.size()));
    cell = found->second;
    if (fresh) cells_.push_back({number, {}, false, {}, {}});
  }
  of_.push_back({at, cell});
  is_known_.push_back(false);
  Cell& mine = cells_[cell];
  mine.members.push_back(number);
  if (leanness(here) < leanness(layout(mine.leanest))) mine.leanest = number;
}

std::optional<std::uint32_t> Cells::asked_before(std::uint32_t number) {
  Cell& cell = cells_[of_[number].cell];
  if (!is_known_[cell.leanest] && cell.leanest != number &&
      layout(cell.leanest).recompute == RecomputeMode::kFull)
    return cell.leanest;
  const auto in_order = [&](std::uint32_t a, std::uint32_t b) {
    return std::tuple(row_of(layout(a)), layout(a).micro_batch) <
           std::tuple(row_of(layout(b)), layout(b).micro_batch);
  };
  if (!cell.sorted) std::stable_sort(cell.members.begin(), cell.members.end(), in_order);
  cell.sorted = true;
  const auto first = std::lower_bound(
      cell.members.begin(), cell.members.end(), number,
      [&](std::uint32_t a, std::uint32_t b) { return row_of(layout(a)) < row_of(layout(b)); });
  if (*first == number || is_known_[*first]) return std::nullopt;
  return *first;
}

const WeighedLayout* Cells::too_large(std::uint32_t number) const {
  const Cell& cell = cells_[of_[number].cell];
  if (cell.all_too_large) return &*cell.all_too_large;
  for (const WeighedLayout& known : cell.too_large)
    if (known.layout != of_[number].layout && is_no_larger(layouts_[known.layout], layout(number)))
      return &known;
  return nullptr;
}

void Cells::learn(std::uint32_t number, const WeighedLayout& answer) {
  is_known_[number] = true;
  if (answer.fate != Fate::kTooLarge) return;
  Cell& cell = cells_[of_[number].cell];
  if (number == cell.leanest && layout(number).recompute == RecomputeMode::kFull) {
    cell.all_too_large = answer;
    return;
  }
  std::erase_if(cell.too_large, [&](const WeighedLayout& known) {
    return is_no_larger(layout(number), layouts_[known.layout]);
  });
  cell.too_large.push_back(answer);
}

}  // namespace steelyard
