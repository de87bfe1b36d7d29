#include "model/families/sparse_layers.h"

#include <cstddef>

namespace steelyard {

std::vector<bool> qwen_sparse_layers(Config& config, Checked layers) {
  // A step of 0 would divide by zero in transformers too; it is refused like every size of 0.
  const std::int64_t step = config.size_or("decoder_sparse_step", 1).value();
  std::vector<bool> sparse(static_cast<std::size_t>(layers.value()), false);
  if (step > 0)
    for (std::size_t i = static_cast<std::size_t>(step); i <= sparse.size();
         i += static_cast<std::size_t>(step))
      sparse[i - 1] = true;
  if (const auto dense = config.find_numbers("mlp_only_layers"))
    for (const std::int64_t layer : *dense)
      if (layer >= 0 && layer < layers.value()) sparse[static_cast<std::size_t>(layer)] = false;
  return sparse;
}

Routing qwen_routing(Config& config) {
  return {.divided_by_sum = config.flag_or("norm_topk_prob", false), .in_type_of_logits = true};
}

}  // namespace steelyard
