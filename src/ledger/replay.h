// The judge: replays every event of a program, one after the other, without any algebra.
//
// Slow and plain on purpose. It shares nothing with the spans but the tapes themselves; a test and `weigh --replay`
// hold the two equal to the byte. It also checks what spans cannot see: that nothing is freed which is not alive.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ledger/program.h"

namespace steelyard {

struct Replay {
  std::vector<std::int64_t> alive;               // instances by slot at the end
  std::int64_t height = 0;                       // bytes alive at the end
  std::array<std::int64_t, kPhaseCount> peak{};  // kNoPeak where a phase did not occur
  std::array<Piles, kPhaseCount> piles{};        // at the first moment of each phase's peak
  std::int64_t events = 0;
  std::string fault;  // "freed but not alive: mlp gate_proj output"; empty if sound
};
// `start` holds what is alive before (instances by slot); empty: nothing.
Replay replay(const Program& program, NodeId root, const std::vector<std::int64_t>& start = {});

}  // namespace steelyard
