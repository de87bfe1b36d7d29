// How many pairs of token and expert a rank has, before and after they travel.
//
//   T·K                 its own tokens' pairs, permuted
//   T·K · imbalance     what comes by all-to-all: as many, where routing is balanced
//   · et                with the pairs of the other ranks that hold parts of the same experts
//
// With a capacity every expert takes from each rank ceil(T·K / E · factor) pairs at most, or exactly so many when padded.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "operators/style.h"

namespace steelyard {

template <class N>
class ExpertPairs {
 public:
  ExpertPairs(const OperatorStyle& style, const N& tokens, const ExpertMlp& mlp)
      : experts_(style.experts),
        all_(tokens * Workbook<N>::symbol("K", mlp.experts_per_token)),
        imbalance_(style.expert > 1 ? style.experts.imbalance : 1) {
    if (!experts_.capacity_factor) return;
    const double average = static_cast<double>(plain(all_)) / static_cast<double>(mlp.experts) *
                           *experts_.capacity_factor;
    const Checked room =
        Checked(static_cast<std::int64_t>(std::ceil(average))) * Checked(mlp.experts);
    room_ = opaque("E·capacity", room);
  }

  N permuted() const {
    if (!experts_.capacity_factor) return all_;
    return experts_.pad_to_capacity || plain(room_) < plain(all_) ? room_ : all_;
  }
  N received() const {
    if (experts_.pad_to_capacity) return room_;
    const N most = scaled(all_);
    return experts_.capacity_factor && plain(room_) < plain(most) ? room_ : most;
  }
  // The fullest rank's part of `pairs`.
  N scaled(const N& pairs) const {
    if (!(imbalance_ > 1)) return pairs;
    const double more = std::ceil(static_cast<double>(plain(pairs)) * imbalance_);
    const Checked value(static_cast<std::int64_t>(more));
    if constexpr (std::is_same_v<N, Traced>)
      return Traced::opaque(fmt::format("{:.6g}·{}", imbalance_, pairs.text()), value);
    else
      return N(value);
  }

 private:
  static N opaque(const char* text, Checked value) {
    if constexpr (std::is_same_v<N, Traced>)
      return Traced::opaque(text, value);
    else
      return N(value);
  }

  const Experts& experts_;
  N all_, room_{};
  double imbalance_ = 1;
};

}  // namespace steelyard
