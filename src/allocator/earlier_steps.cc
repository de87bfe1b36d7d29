#include "allocator/earlier_steps.h"

namespace steelyard {

void EarlierSteps::begin_step(int step, const Counted& counted) {
  place_ = 0;
  if (step == 1) first_events_ = counted.events;
  if (!steps_.empty()) steps_.back().end = counted;
  if (step > 0) steps_.emplace_back();
}

bool EarlierSteps::compares_here(std::int64_t events) {
  if (steps_.empty()) return false;
  const std::size_t place = place_++;
  const StepSeen& here = steps_.back();
  const std::size_t next = here.places.size();
  if (steps_.size() > 1) return next < places_.size() && places_[next] == place;
  const std::int64_t before = places_.empty() ? 0 : here.places.back().second.events;
  if (events - before < first_events_ / kPlacesOfStep) return false;
  places_.push_back(place);
  return true;
}

std::optional<EarlierSteps::Same> EarlierSteps::same_as(const StateDigest& digest,
                                                        const Counted& counted) {
  StepSeen& here = steps_.back();
  const std::size_t next = here.places.size();
  here.places.emplace_back(digest, counted);
  for (std::size_t step = 0; step + 1 < steps_.size(); ++step) {
    const StepSeen& earlier = steps_[step];
    if (next >= earlier.places.size() || !(earlier.places[next].first == digest)) continue;
    const Counted& then = earlier.places[next].second;
    // New segments have addresses of their own in every step.
    if (earlier.end.device_changes != then.device_changes) return std::nullopt;
    return Same{step + 1, earlier.end.events - then.events};
  }
  return std::nullopt;
}

}  // namespace steelyard
