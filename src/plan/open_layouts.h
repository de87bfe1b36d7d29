// Which layouts of a space no bound has excluded: a bit for each, so that a hundred million of them are no burden.
//
//   slot   layouts of a bundle with the same micro-batch and division of states; bits: what is computed again
#pragma once

#include <cstdint>
#include <vector>

#include "plan/space.h"

namespace steelyard {

class OpenLayouts {
 public:
  using Bits = std::uint16_t;

  // None is open.
  explicit OpenLayouts(const Space& space) : space_(space), bits_(space.slots, 0) {}

  Bits& at(std::uint32_t slot) { return bits_[slot]; }
  Bits at(const Bundle& bundle, Choice choice) const {
    return bits_[space_.slot_of(bundle, choice.round, choice.division)];
  }
  bool has(const Bundle& bundle, Choice choice) const {
    return (at(bundle, choice) >> choice.recomputation & 1U) != 0;
  }
  void close(const Bundle& bundle, Choice choice) {
    bits_[space_.slot_of(bundle, choice.round, choice.division)] &=
        static_cast<Bits>(~(1U << choice.recomputation));
  }

  // Calls `visit` with each open choice of a bundle, in order of their numbers.
  template <class Visit>
  void each(const Bundle& bundle, Visit visit) const {
    const auto rounds = static_cast<std::uint32_t>(space_.rounds[bundle.rounds].size());
    const auto divisions = static_cast<std::uint32_t>(space_.divisions[bundle.divisions].size());
    for (Choice at; at.round < rounds; ++at.round)
      for (at.division = 0; at.division < divisions; ++at.division) each_of_slot(bundle, at, visit);
  }
  template <class Visit>
  void each_of_slot(const Bundle& bundle, Choice at, Visit visit) const {
    unsigned rest = this->at(bundle, at);
    for (at.recomputation = 0; rest != 0; rest >>= 1U, ++at.recomputation)
      if ((rest & 1U) != 0) visit(at);
  }

 private:
  const Space& space_;
  std::vector<Bits> bits_;
};

}  // namespace steelyard
