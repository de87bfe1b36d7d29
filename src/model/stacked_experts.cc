#include "model/stacked_experts.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "model/adapt.h"

namespace steelyard {
namespace {

using Tensors = std::vector<ParameterTensor>;

bool has_separate_experts(const Layer& layer) {
  const auto* mlp = std::get_if<ExpertMlp>(&layer.mlp);
  return mlp != nullptr && mlp->gate_index >= 0;
}

ParameterTensor stacked(const ParameterTensor& one, const char* name, std::int64_t experts,
                        std::int64_t rows) {
  ParameterTensor tensor = one;
  tensor.name = name;
  tensor.shape = {experts, rows, one.shape[1]};
  tensor.fused_experts = true;
  tensor.copies = 1;
  return tensor;
}

// What stands behind a tensor that is gone is one place nearer.
void close_gap(Layer& layer, int gone) {
  const auto nearer = [gone](int& index) { index -= index > gone ? 1 : 0; };
  const auto both_nearer = [&](std::optional<LowRank>& adapter) {
    if (!adapter) return;
    nearer(adapter->down_index);
    nearer(adapter->up_index);
    nearer(adapter->magnitude_index);
  };
  if (auto* experts = std::get_if<ExpertMlp>(&layer.mlp)) {
    both_nearer(experts->router.adapter);
    both_nearer(experts->gate_up_adapter);
    both_nearer(experts->down_adapter);
  }
  for (Linear* linear : linears_of(layer)) {
    nearer(linear->weight_index);
    nearer(linear->bias_index);
    both_nearer(linear->adapter);
  }
  for (Norm& norm : layer.norms) {
    nearer(norm.weight_index);
    nearer(norm.bias_index);
  }
}

void stack(Layer& layer, ExpertMlp& mlp) {
  Tensors& tensors = layer.parameters;
  const auto at = [&](int index) { return tensors.begin() + index; };
  const ParameterTensor &gate = *at(mlp.gate_index), &up = *at(mlp.up_index);
  if (gate.frozen != up.frozen || gate.gradient != up.gradient || gate.unread != up.unread) return;
  *at(mlp.gate_index) =
      stacked(gate, "mlp.experts.gate_up_proj", mlp.experts, gate.shape[0] + up.shape[0]);
  const ParameterTensor& down = *at(mlp.down_index);
  *at(mlp.up_index) = stacked(down, "mlp.experts.down_proj", mlp.experts, down.shape[0]);
  tensors.erase(at(mlp.down_index));
  close_gap(layer, mlp.down_index);
  mlp.gate_up_index = std::exchange(mlp.gate_index, -1);
  mlp.down_index = std::exchange(mlp.up_index, -1);
  // Without a bias the router is one tensor, right before the experts.
  const int router = mlp.router.weight_index;
  if (!mlp.router_behind_experts || router + 1 != mlp.gate_up_index) return;
  std::rotate(at(router), at(router + 1), at(mlp.down_index + 1));
  mlp.router.weight_index = mlp.down_index--;
  --mlp.gate_up_index;
}

}  // namespace

std::shared_ptr<const Architecture> with_stacked_experts(
    std::shared_ptr<const Architecture> model) {
  if (std::none_of(model->kinds.begin(), model->kinds.end(), has_separate_experts)) return model;
  auto changed = std::make_shared<Architecture>(*model);
  for (Layer& layer : changed->kinds)
    if (has_separate_experts(layer)) stack(layer, std::get<ExpertMlp>(layer.mlp));
  return changed;
}

}  // namespace steelyard
