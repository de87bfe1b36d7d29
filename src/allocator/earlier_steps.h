// Steps after the first at some of their places, to tell in the midst of one that everything stands as it stood there before.
//
//   steps.begin_step(2, counted)
//   if (steps.compares_here(events))                 at most twelve places of a step, evenly over its events
//     if (const auto same = steps.same_as(digest, counted)) ...      what follows is that step's rest
//
// A comparison costs as much as some hundred events.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "allocator/caching_allocator.h"

namespace steelyard {

class EarlierSteps {
 public:
  struct Counted {
    std::int64_t events = 0, device_changes = 0;
  };
  struct Same {
    std::size_t step = 0;  // 1: the one after the first
    std::int64_t events_left = 0;
  };

  // `step` 0 is the first one.
  void begin_step(int step, const Counted& counted);
  // Asked at every place of a step, in order.
  bool compares_here(std::int64_t events);
  // The earlier step that stood alike at this place, and changed nothing on the device afterwards.
  std::optional<Same> same_as(const StateDigest& digest, const Counted& counted);

 private:
  struct StepSeen {
    std::vector<std::pair<StateDigest, Counted>> places;
    Counted end;
  };
  static constexpr std::int64_t kPlacesOfStep = 12;

  std::int64_t first_events_ = 0;    // of the first step
  std::size_t place_ = 0;            // of this step
  std::vector<std::size_t> places_;  // that are compared
  std::vector<StepSeen> steps_;      // after the first one
};

}  // namespace steelyard
