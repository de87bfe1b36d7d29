#include "diagnose/layer_before.h"

#include <algorithm>

#include "diagnose/known_sizes.h"

namespace steelyard {

LayerBefore::LayerBefore(const std::vector<RecordedEvent>& events,
                         const std::vector<RunPart>& parts, const DeviceMoment& moment) {
  if (moment.kind != DeviceMoment::Kind::kFailure || moment.event >= events.size()) return;
  const RecordedEvent& failed = events[moment.event];
  if (failed.stack == 0) return;
  const auto at = static_cast<std::int64_t>(moment.event);
  std::int64_t last = -1;
  std::int64_t first = -1;
  for (std::int64_t index = at; index-- > 0;) {
    const RecordedEvent& event = events[static_cast<std::size_t>(index)];
    if (event.action != RecordedAction::kAlloc) continue;
    const RunPart part = parts[static_cast<std::size_t>(index)];
    if (part == RunPart::kBackward || part == RunPart::kOptimizerStep) break;
    if (event.stack != failed.stack || on_grain(event.size) != on_grain(failed.size)) continue;
    // Requests of one line that follow each other at once belong to one layer.
    if (last < 0) {
      if (at - index < 8) continue;
      last = index;
    } else if (last - index >= 8) {
      first = index;
      break;
    }
  }
  if (last < 0) return;
  period_begin_ = last + 1;
  if (first < 0) first = std::max<std::int64_t>(last - (at - last), -1);
  std::unordered_map<std::int64_t, std::pair<std::pair<std::int32_t, std::int64_t>, std::size_t>>
      open;
  std::map<std::pair<std::int32_t, std::int64_t>, std::size_t> now;
  for (std::int64_t index = first + 1; index < at; ++index) {
    const RecordedEvent& event = events[static_cast<std::size_t>(index)];
    const std::pair key{event.stack, event.size};
    if (event.action == RecordedAction::kAlloc && index <= last) {
      auto& fates = before_[key];
      open[event.address] = {key, fates.size()};
      fates.push_back(false);
    } else if (event.action == RecordedAction::kAlloc) {
      open.erase(event.address);
      order_[index] = now[key]++;
    } else if (event.action == RecordedAction::kFreeCompleted) {
      if (const auto born = open.find(event.address); born != open.end()) {
        before_[born->second.first][born->second.second] = true;
        open.erase(born);
      }
    }
  }
}

bool LayerBefore::freed(const LiveBlock& block) const {
  if (period_begin_ < 0 || block.born < period_begin_) return false;
  const auto found = before_.find({block.stack, block.size});
  const auto order = order_.find(block.born);
  if (found == before_.end() || order == order_.end() || order->second >= found->second.size())
    return false;
  return found->second[order->second];
}

}  // namespace steelyard
