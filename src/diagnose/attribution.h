// Every byte that was alive at the failure, given to a pile, an owner and a place in the code.
//
//   modeling_llama.py:268 forward   12 x 64 MiB   activations   A5
//
// Rules A1 to A9 stand in attribution_rules.h; `steelyard explain A5` prints one.
// The strongest rule that says something decides. Piles and unaccounted sum to the live bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/expected_tensors.h"
#include "diagnose/run_parts.h"
#include "evidence/memory_history.h"
#include "evidence/replay.h"
#include "evidence/stack_origin.h"
#include "ledger/pile.h"

namespace steelyard {

struct AttributedBlock {
  LiveBlock block;
  std::optional<Pile> pile;  // absent: unaccounted
  std::uint8_t rule = 9;     // of A1 to A9
  StackRole role = StackRole::kNoFrames;
};

inline void give(AttributedBlock& one, Pile pile, std::uint8_t rule) {
  one.pile = pile;
  one.rule = rule;
}

// Live blocks of one pile, place and size.
struct BlockGroup {
  std::optional<Pile> pile;
  std::string site;  // "modeling_llama.py:268 forward"; empty: no frames
  StackRole role = StackRole::kNoFrames;
  StackOrigin origin;
  std::int64_t size = 0, count = 0;
  std::uint8_t rule = 9;
  std::int64_t total() const { return size * count; }
};

struct Attribution {
  Piles piles;
  Bytes unaccounted{};
  std::array<Bytes, 9> by_rule{};  // of A1 first
  std::vector<AttributedBlock> blocks;
  std::vector<BlockGroup> groups;       // largest first
  RunPart part = RunPart::kUnknown;     // of the moment
  std::int64_t steps_before = 0;        // optimizer steps that ended before the moment
  bool has_python = false;              // stacks were recorded
  bool moments_before_history = false;  // or older than the first step that is seen
  bool state_made_in_history = false;
  bool is_training = false;  // something of backward or an optimizer is in the history
  std::int64_t parameters_count = 0;
  StackOrigin failing;  // of the failed request, or of the one that made the peak
};

Attribution attribute(const MemoryHistory& history, const DeviceMoment& moment,
                      const std::vector<ExpectedTensor>& expected);

}  // namespace steelyard
