#include "predict/fullest_stages.h"

#include <algorithm>
#include <numeric>

namespace steelyard {
namespace {

// Beyond the largest share of what is allocated that a played stage without an end reserved.
constexpr double kMarginOfShare = 1.0 / 6;
constexpr Bytes kMargin = 512_MiB;
// From so many of them on, beyond the most that one of them reserved above what it allocates: a third of that.
constexpr int kAlike = 2;
constexpr double kMarginOfSlack = 1.0 / 3;
constexpr Bytes kSegment = 2_MiB;  // what is allocated counts in whole segments

double in_bytes(Bytes bytes) { return static_cast<double>(bytes.value().value()); }

// What the played stages have come to, each number its highest.
class Highest {
 public:
  Highest(const ErrorBand& observed, const RuntimeBytes& runtime)
      : observed_(observed), runtime_(runtime) {}

  void take(const StageNeed& played) {
    const StageReserve& reserve = played.reserve;
    const Bytes most = std::max(reserve.most, reserve.later);
    const Band needed = band_of(reserve.least, most, played.piles);
    later_ = std::max(later_, reserve.later);
    needed_ = {std::max(needed_.low, needed.low), std::max(needed_.high, needed.high)};
    if (played.has_end || played.allocated <= Bytes{}) return;
    ++alike_;
    share_ = std::max(share_, in_bytes(most) / in_bytes(played.allocated));
    slack_ = std::max(slack_, most - played.allocated);
  }

  // Whether a stage that has not been played may raise one of them. Where it may not have room enough the allocator gives
  // segments back, and its least is no longer what it allocates.
  bool may_be_raised_by(const StageNeed& stage, const AllocatorRoom& room) const {
    const Bytes most = most_of(stage);
    if (most > later_ || most > room.least) return true;
    const Band needed = band_of(stage.allocated + kSegment, most, stage.piles);
    return needed.low > needed_.low || needed.high > needed_.high;
  }

  Bytes later() const { return later_; }

 private:
  Band band_of(Bytes least, Bytes most, const Piles& piles) const {
    return observed_.needed({least + runtime_.low, most + runtime_.high}, piles);
  }

  Bytes most_of(const StageNeed& stage) const {
    if (stage.has_end || share_ == 0) return stage.most;
    const double share = std::max(share_, 1.0) * (1 + kMarginOfShare);
    const double by_share = in_bytes(stage.allocated) * share;
    const double by_slack = in_bytes(stage.allocated) + in_bytes(slack_) * (1 + kMarginOfSlack);
    const double most = alike_ < kAlike ? by_share : std::min(by_share, by_slack);
    return Bytes(static_cast<std::int64_t>(most)) + kMargin;
  }

  const ErrorBand& observed_;
  const RuntimeBytes& runtime_;
  Bytes later_{};
  Band needed_{};
  // Of stages without an end: how many were played, and their highest.
  int alike_ = 0;
  double share_ = 0;
  Bytes slack_{};
};

}  // namespace

bool play_fullest(std::vector<StageNeed>& stages, const ErrorBand& observed,
                  const RuntimeBytes& runtime, const AllocatorRoom& room,
                  const std::function<StageReserve(std::size_t stage)>& play) {
  std::vector<std::size_t> order(stages.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return stages[a].allocated > stages[b].allocated;
  });
  Highest highest(observed, runtime);
  for (const std::size_t index : order) {
    StageNeed& stage = stages[index];
    if (!highest.may_be_raised_by(stage, room)) continue;
    stage.reserve = play(index);
    if (stage.reserve.is_over) return false;
    highest.take(stage);
  }
  // What was not played comes to no more than what was.
  for (StageNeed& stage : stages)
    if (!stage.reserve.simulated && !stage.reserve.is_cut)
      stage.reserve.later = std::min(stage.reserve.later, highest.later());
  return true;
}

}  // namespace steelyard
