#include "plan/space.h"

#include <algorithm>

namespace steelyard {

std::uint32_t Space::kind_of_form(RecomputeMode mode) {
  if (mode == RecomputeMode::kSelective) return 1;
  return mode == RecomputeMode::kModules || mode == RecomputeMode::kOperators ? 2 : 0;
}

const SearchedStack* Space::stack_of(const Layout& layout) const {
  for (const SearchedStack& stack : stacks)
    if (stack.engine == layout.engine && stack.implementation == layout.implementation)
      return &stack;
  return nullptr;
}

void Space::add(Bundle bundle) {
  bundle.first = size_;
  bundle.first_slot = slots;
  size_ += size_of(bundle);
  slots +=
      static_cast<std::uint32_t>(rounds[bundle.rounds].size() * divisions[bundle.divisions].size());
  bundles.push_back(bundle);
}

std::uint32_t Space::size_of(const Bundle& bundle) const {
  return static_cast<std::uint32_t>(rounds[bundle.rounds].size() *
                                    divisions[bundle.divisions].size() *
                                    recomputations[bundle.recomputations].size());
}

std::uint32_t Space::bundle_of(std::uint32_t number) const {
  const auto after =
      std::upper_bound(bundles.begin(), bundles.end(), number,
                       [](std::uint32_t at, const Bundle& bundle) { return at < bundle.first; });
  return static_cast<std::uint32_t>(after - bundles.begin() - 1);
}

Choice Space::choice_of(const Bundle& bundle, std::uint32_t number) const {
  const auto ways = static_cast<std::uint32_t>(recomputations[bundle.recomputations].size());
  const auto parts = static_cast<std::uint32_t>(divisions[bundle.divisions].size());
  const std::uint32_t at = number - bundle.first;
  return {at / ways / parts, at / ways % parts, at % ways};
}

std::uint32_t Space::slot_of(const Bundle& bundle, std::uint32_t round,
                             std::uint32_t division) const {
  return bundle.first_slot +
         round * static_cast<std::uint32_t>(divisions[bundle.divisions].size()) + division;
}

std::uint32_t Space::number_of(const Bundle& bundle, Choice choice) const {
  const auto ways = static_cast<std::uint32_t>(recomputations[bundle.recomputations].size());
  const auto parts = static_cast<std::uint32_t>(divisions[bundle.divisions].size());
  return bundle.first + (choice.round * parts + choice.division) * ways + choice.recomputation;
}

Layout Space::layout(const Bundle& bundle, Choice choice) const {
  Layout layout = bundle.common;
  const Rounds& round = rounds[bundle.rounds][choice.round];
  const Division& division = divisions[bundle.divisions][choice.division];
  const Recomputation& again = recomputations[bundle.recomputations][choice.recomputation];
  layout.micro_batch = round.micro_batch;
  layout.accumulation = round.accumulation;
  layout.zero_stage = division.zero_stage;
  layout.replicate = division.replicate;
  layout.recompute = again.mode;
  layout.recomputed = again.amount;
  layout.least_recomputed = again.least;
  return layout;
}

Layout Space::layout(std::uint32_t number) const {
  const Bundle& bundle = bundles[bundle_of(number)];
  return layout(bundle, choice_of(bundle, number));
}

std::uint32_t Space::form_of(const Bundle& bundle, Choice choice) const {
  const RecomputeMode mode = recomputations[bundle.recomputations][choice.recomputation].mode;
  return form_numbers[bundle.forms + choice.round * kKindsOfForm + kind_of_form(mode)];
}

std::uint32_t Space::form_of(std::uint32_t number) const {
  const Bundle& bundle = bundles[bundle_of(number)];
  return form_of(bundle, choice_of(bundle, number));
}

}  // namespace steelyard
