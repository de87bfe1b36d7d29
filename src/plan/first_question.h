// Before any layout is looked at: what fills the device of the run as it was written, and which cheap move empties it?
//
//   optimizer state, 89.7 of 121.9 GiB · 8-bit optimizer 50.3 · full recompute 121.6 · all four 50.0
//
// The moves are tried one by one and then together: micro-batch, recomputation, states over the data ranks, 8-bit states.
// None of them divides the model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/search.h"

namespace steelyard {

// "activations, optimizer state or replicated parameters?" of the run as it was written.
struct FirstQuestion {
  Bytes need, usable;
  Bytes activations, optimizer,
      replicated;       // working set; moments and masters; parameters and gradients
  bool shared = false;  // parameters are stored once
  struct Move {
    std::string words;
    Bytes need;
    bool fits = false;
  };
  std::vector<Move> moves;  // cheap ones, one by one and then together
};

// Nothing when the run cannot be read as it stands: a plan may still find layouts of it.
std::optional<FirstQuestion> first_question(const Value& run, const SearchHelp& help);

}  // namespace steelyard
