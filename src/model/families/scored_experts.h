// Experts in DeepSeek's manner: a router in fp32, shared experts without a gate, dense layers
// first. GLM-4.5 has the same.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "model/architecture.h"
#include "model/config.h"
#include "model/modules.h"

namespace steelyard {

struct ScoredExperts {
  ExpertOptions experts;
  Checked shared_width;  // of all shared experts together; 0: none
  bool sigmoid_scores = false;
  Routing routing = {.scaled = true};
  bool correction_bias = false;  // a buffer [E] that steers the choice and gets no gradient
};
// `shared_by_default`: how many shared experts the class has when the file does not say; null means
// none.
ScoredExperts read_scored_experts(Config& config, std::int64_t shared_by_default);
// The bias of its choice: a buffer, one number for each expert.
void add_correction_bias(Tensors& tensors, const ExpertMlp& mlp, std::string name);
// The experts, or in a dense layer a feed-forward of `dense_width` in their place.
std::variant<DenseMlp, ExpertMlp> add_scored_mlp(Tensors& tensors, Checked hidden,
                                                 const ScoredExperts& scored, bool with_experts,
                                                 Checked dense_width);

// Layer i is dense when i < first_k_dense_replace.
std::vector<bool> leading_dense_layers(Config& config, Checked layers, std::int64_t by_default);

// Beside the total.
void list_buffers(Architecture& model);

}  // namespace steelyard
