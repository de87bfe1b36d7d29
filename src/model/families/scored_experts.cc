#include "model/families/scored_experts.h"

#include <utility>

#include "model/decoder.h"

namespace steelyard {

ScoredExperts read_scored_experts(Config& config, std::int64_t shared_by_default) {
  ScoredExperts scored;
  scored.experts = read_expert_counts(config, config.size("moe_intermediate_size"));
  scored.experts.activation = config.activation_or("hidden_act", Activation::kSilu);
  const Checked shared = config.is_null("n_shared_experts")
                             ? Checked(0)
                             : config.count_or("n_shared_experts", shared_by_default);
  scored.shared_width = shared * scored.experts.width;
  return scored;
}

void add_correction_bias(Tensors& tensors, const ExpertMlp& mlp, std::string name) {
  ParameterTensor bias;
  bias.name = std::move(name);
  bias.shape = {mlp.experts};
  bias.role = TensorRole::kRouter;
  bias.buffer = true;
  add_tensor(tensors, std::move(bias));
}

std::variant<DenseMlp, ExpertMlp> add_scored_mlp(Tensors& tensors, Checked hidden,
                                                 const ScoredExperts& scored, bool with_experts,
                                                 Checked dense_width) {
  if (!with_experts)
    return add_gated_mlp(tensors, "mlp.", hidden, dense_width,
                         {.activation = scored.experts.activation});
  ExpertMlp mlp = add_separate_experts(tensors, hidden, scored.experts);
  mlp.router_in_float32 = mlp.router_behind_experts = true;
  mlp.sigmoid_scores = scored.sigmoid_scores;
  mlp.routing = scored.routing;
  if (scored.correction_bias) add_correction_bias(tensors, mlp, "mlp.gate.e_score_correction_bias");
  if (scored.shared_width > Checked(0))
    mlp.shared = add_gated_mlp(tensors, "mlp.shared_experts.", hidden, scored.shared_width,
                               {.activation = scored.experts.activation});
  return mlp;
}

std::vector<bool> leading_dense_layers(Config& config, Checked layers, std::int64_t by_default) {
  const std::int64_t leading = config.count_or("first_k_dense_replace", by_default).value();
  std::vector<bool> dense(static_cast<std::size_t>(layers.value()), false);
  for (std::size_t i = 0; i < dense.size() && static_cast<std::int64_t>(i) < leading; ++i)
    dense[i] = true;
  return dense;
}

void list_buffers(Architecture& model) {
  Checked elements = 0;
  for (const LayerGroup& group : model.sequence)
    for (const LayerRun& run : group.runs)
      for (const ParameterTensor& tensor :
           model.kinds[static_cast<std::size_t>(run.kind)].parameters)
        if (tensor.buffer)
          elements += Checked(group.times) * Checked(run.count) * Checked(elements_of(tensor));
  if (elements > Checked(0)) model.beside_total.push_back({"buffer", elements.value()});
}

}  // namespace steelyard
