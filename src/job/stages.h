// How many layers stand on each pipeline stage, as each engine cuts them.
//
//   megatron    32 over 4: 8 8 8 8             30 over 4: refused, 30 has no such parts
//   nanotron    by compute: the head counts, so the last stage gets fewer
//   torchtitan  embedding and head count as a layer each: 32 over 4: 8 9 8 7
//   deepspeed   even, the remainder to the first stages
#pragma once

#include <cstdint>
#include <vector>

#include "job/draft.h"
#include "model/architecture.h"
#include "quantity/quantity.h"

namespace steelyard {

// nanotron's block partition (models/base.py): a block goes to the current stage, and after it the next stage
// begins once the running cost is strictly above that stage's share. A layer costs 4·a·h + 3·f·h, the head V·h.
std::vector<Layers> nanotron_stages(std::int64_t layers, std::int64_t pipeline,
                                    std::int64_t layer_cost, std::int64_t head_cost);

// torchtitan's (generate_llm_fqn_per_model_part): embedding and head weigh one layer each, the remainder goes
// to the first stages.
std::vector<Layers> torchtitan_stages(std::int64_t layers, std::int64_t pipeline);

// Even; the first `layers % pipeline` stages get one more.
std::vector<Layers> even_stages(std::int64_t layers, std::int64_t pipeline);
std::vector<Layers> scaling_stages(std::int64_t layers, std::int64_t pipeline);

// As the engine cuts them into `parts` where nobody says; empty where it asks what layers cost, as nanotron does.
std::vector<Layers> usual_stages(Engine engine, std::int64_t layers, std::int64_t parts);

// Fills `parallel.stage_layers`. The model and the degrees are decided.
void choose_stages(Draft& draft);

}  // namespace steelyard
