// Groups of ranks inside the product of devices: those that share a sequence, and those that share the experts.
//
//   data 4 x context 4 x tensor 2       16 ranks beside each other that read 4 sequences, each divided over 4 ranks
//     expert 8, expert_tensor 1         32 / 8 = 4 ranks hold the same experts and share their gradients and states
#pragma once

#include "job/draft.h"

namespace steelyard {

// What the engine makes of `context` and `expert`, and how. Needs the devices; of experts also whose code runs.
void choose_context(Draft& draft);
void choose_experts(Draft& draft);
// What the model, the sequence and the recipe allow. Needs the whole draft.
void check_context(Draft& draft);
void check_experts(Draft& draft);

// Divisors of `number` up to `most`, the nearest to `wanted` first kept: "1, 2 or 4".
std::string divisors_near(std::int64_t number, std::int64_t wanted, std::int64_t most);
// The pairs of token and expert that one rank can receive at most, over the average: all tokens of all `expert` ranks
// choose as many of its experts as they can.
double worst_imbalance(std::int64_t experts, std::int64_t experts_per_token, std::int64_t expert);

}  // namespace steelyard
