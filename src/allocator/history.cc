#include "allocator/history.h"

#include <array>

namespace steelyard {
namespace {

struct ActionWord {
  std::string_view word;
  HistoryAction action;
};
// The first word of an action is the one that is written.
constexpr std::array<ActionWord, 12> kActions = {{
    {"alloc", HistoryAction::kAlloc},
    {"free_requested", HistoryAction::kFreeRequested},
    {"free_completed", HistoryAction::kFreeCompleted},
    {"segment_alloc", HistoryAction::kSegmentAlloc},
    {"segment_free", HistoryAction::kSegmentFree},
    {"segment_map", HistoryAction::kSegmentMap},
    {"segment_unmap", HistoryAction::kSegmentUnmap},
    {"snapshot", HistoryAction::kOther},
    {"oom", HistoryAction::kOther},
    {"annotate", HistoryAction::kOther},
    {"user_defined", HistoryAction::kOther},
    {"workspace_snapshot", HistoryAction::kOther},
}};

}  // namespace

std::optional<HistoryAction> history_action_named(std::string_view word) {
  for (const ActionWord& known : kActions)
    if (known.word == word) return known.action;
  return std::nullopt;
}

std::string_view name_of(HistoryAction action) {
  for (const ActionWord& known : kActions)
    if (known.action == action) return known.word;
  return "";
}

}  // namespace steelyard
