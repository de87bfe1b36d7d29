#include "diagnose/older_blocks.h"

#include <algorithm>
#include <array>

#include "diagnose/known_sizes.h"

namespace steelyard {

void OlderBlocks::split() {
  std::vector<std::size_t> open;
  std::int64_t bytes = 0;
  std::map<std::int64_t, std::int64_t> counts;
  for (std::size_t index = 0; index < result_.blocks.size(); ++index) {
    const AttributedBlock& one = result_.blocks[index];
    if (one.pile || one.block.born >= 0) continue;
    open.push_back(index);
    bytes += one.block.size;
    ++counts[on_grain(one.block.size)];
  }
  if (open.empty()) return;
  if (!expected_.empty() && split_by_expected(open)) return;
  // What is freed later within the history is no parameter: the gradients of the step before, or replaced moments.
  std::vector<std::int64_t> deaths;
  for (const std::size_t index : open)
    if (result_.blocks[index].block.dies >= 0) deaths.push_back(result_.blocks[index].block.dies);
  std::sort(deaths.begin(), deaths.end());
  std::map<std::int32_t, std::int64_t>
      replacing;  // a stack for each moment, and what little lies beside
  std::map<std::int64_t, std::int64_t> replaced;
  if (moment_.kind != DeviceMoment::Kind::kFailure && result_.is_training)
    open.erase(std::remove_if(open.begin(), open.end(),
                              [&](std::size_t index) {
                                AttributedBlock& one = result_.blocks[index];
                                if (one.block.dies < 0) return false;
                                const auto stack = replaced_by(one.block, deaths);
                                if (stack) {
                                  ++replacing[*stack];
                                  ++replaced[on_grain(one.block.size)];
                                }
                                give(one, stack ? Pile::kOptimizerMoments : Pile::kGradients, 6);
                                bytes -= one.block.size;
                                --counts[on_grain(one.block.size)];
                                return true;
                              }),
               open.end());
  const std::int64_t sets = replacing.empty() ? sets_of_base(counts, bytes) : 1;
  // One moment is made by a product and a sum, two by twice as many lines; what is as large beside them counts little.
  std::int64_t most = 0;
  for (const auto& [stack, count] : replacing) most = std::max(most, count);
  const std::int64_t lines = std::count_if(replacing.begin(), replacing.end(),
                                           [&](const auto& one) { return one.second * 2 > most; });
  const std::int64_t of_each = lines > 2 ? 2 : std::min<std::int64_t>(lines, 1);
  result_.moments_before_history =
      of_each > 0 || sets > 2 || (sets == 2 && !result_.state_made_in_history);
  std::map<std::int64_t, std::int64_t> taken;
  for (const std::size_t index : open) {
    AttributedBlock& one = result_.blocks[index];
    const std::int64_t size = on_grain(one.block.size);
    const std::int64_t number = taken[size]++;
    // As many parameters as each moment has; beside them stand the gradients.
    const bool is_more =
        of_each > 0 && replaced[size] >= of_each && number >= replaced[size] / of_each;
    if (is_more) {
      give(one, Pile::kGradients, 6);
    } else if (number < (counts[size] + sets - 1) / sets) {
      give(one, Pile::kParameters, 6);
    } else if (sets == 4 && number < 2 * counts[size] / 4) {
      give(one, Pile::kGradients, 6);
    } else {
      give(one, Pile::kOptimizerMoments, 6);
    }
  }
}

// Parameters alone, or whole sets of the same sizes beside them: the largest number of sets that most bytes fall into.
std::int64_t OlderBlocks::sets_of_base(const std::map<std::int64_t, std::int64_t>& counts,
                                       std::int64_t bytes) const {
  const bool steps = result_.is_training &&
                     std::any_of(parts_.begin(), parts_.end(),
                                 [](RunPart part) { return part == RunPart::kOptimizerStep; });
  if (!steps || result_.state_made_in_history || makes_own_state()) return 1;
  for (const std::int64_t guess : {4, 3, 2}) {
    std::int64_t whole = 0;
    for (const auto& [size, count] : counts)
      if (count % guess == 0) whole += size * count;
    if (whole * 10 >= bytes * 9) return guess;
  }
  return 1;
}

// `state["m"] = b * state["m"] + (1 - b) * grad` makes a new moment of the same size just before it lets the old one go,
// parameter by parameter: the stack that made the new one. All gradients go together, after the step or before forward.
std::optional<std::int32_t> OlderBlocks::replaced_by(
    const LiveBlock& block, const std::vector<std::int64_t>& deaths) const {
  constexpr std::int64_t kMostTogether = 4, kRequestsOfOneParameter = 8;
  const auto count = static_cast<std::int64_t>(events_.size());
  const auto is_request = [&](std::int64_t at) {
    return events_[static_cast<std::size_t>(at)].action == RecordedAction::kAlloc;
  };
  std::int64_t before = std::min(block.dies, count - 1);
  while (before >= 0 && !is_request(before)) --before;
  std::int64_t behind = std::min(block.dies, count);
  while (behind < count && !is_request(behind)) ++behind;
  if (std::lower_bound(deaths.begin(), deaths.end(), behind) -
          std::lower_bound(deaths.begin(), deaths.end(), before) >
      kMostTogether)
    return std::nullopt;
  std::int64_t requests = 0;
  for (std::int64_t at = before; at >= 0; --at) {
    if (!is_request(at)) continue;
    const RecordedEvent& event = events_[static_cast<std::size_t>(at)];
    if (parts_[static_cast<std::size_t>(at)] != RunPart::kOptimizerStep ||
        ++requests > kRequestsOfOneParameter)
      break;
    if (on_grain(event.size) == on_grain(block.size)) return event.stack;
  }
  return std::nullopt;
}

bool OlderBlocks::makes_own_state() const {
  return std::any_of(result_.blocks.begin(), result_.blocks.end(), [](const AttributedBlock& one) {
    return one.rule == 7 && one.pile == Pile::kOptimizerMoments;
  });
}

// The prediction says how many of each size stand in each pile between steps.
bool OlderBlocks::split_by_expected(const std::vector<std::size_t>& open) {
  std::map<std::int64_t, std::map<Pile, std::int64_t>> room;
  for (const auto& [size, tensors] : expected_)
    for (const ExpectedTensor& tensor : tensors) room[size][tensor.pile] += tensor.count;
  // Of what the history itself has shown, so many are no longer open.
  for (const AttributedBlock& one : result_.blocks)
    if (one.pile) --room[on_grain(one.block.size)][*one.pile];
  std::int64_t matched = 0;
  std::int64_t all = 0;
  std::vector<std::pair<std::size_t, Pile>> given;
  constexpr std::array kResident = {
      Pile::kParameters,    Pile::kMasterWeights, Pile::kOptimizerMoments, Pile::kGradients,
      Pile::kCommunication, Pile::kActivations,   Pile::kTemporary};
  for (const std::size_t index : open) {
    const LiveBlock& block = result_.blocks[index].block;
    all += block.size;
    auto& piles = room[on_grain(block.size)];
    for (const Pile pile : kResident) {
      std::int64_t& left = piles[pile];
      if (left <= 0) continue;
      --left;
      matched += block.size;
      given.emplace_back(index, pile);
      break;
    }
  }
  if (matched * 2 < all) return false;
  for (const auto& [index, pile] : given) give(result_.blocks[index], pile, 3);
  return true;
}

}  // namespace steelyard
