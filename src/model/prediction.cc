#include "model/prediction.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "model/modules.h"

namespace steelyard {
namespace {

int kind_of_last_layer(const Architecture& model) { return model.sequence.back().runs.back().kind; }

PredictionModule add_own_tensors(Tensors& tensors, const Architecture& model, NormKind kind) {
  PredictionModule module;
  module.token_norm = add_norm(tensors, "enorm", kind, model.hidden);
  module.hidden_norm = add_norm(tensors, "hnorm", kind, model.hidden);
  module.projection =
      add_linear(tensors, "eh_proj", Checked(2) * Checked(model.hidden), model.hidden);
  module.final_norm = add_norm(tensors, "shared_head.norm", kind, model.hidden);
  return module;
}

}  // namespace

void add_prediction_modules(Architecture& model, std::int64_t depth) {
  if (depth <= 0 || model.sequence.empty()) return;
  model.prediction_layers = depth;
  model.prediction_layer_kind = kind_of_last_layer(model);
  add_own_tensors(model.prediction_parameters, model, NormKind::kRms);
  const Layer& layer = model.kinds[static_cast<std::size_t>(model.prediction_layer_kind)];
  Checked elements = 0;
  for (const ParameterTensor& tensor : model.prediction_parameters) elements += elements_of(tensor);
  for (const ParameterTensor& tensor : layer.parameters)
    if (!tensor.buffer) elements += elements_of(tensor);
  model.beside_total.push_back({"mtp", (Checked(depth) * elements).value()});
}

bool can_predict(const Architecture& model) {
  return !model.encoder && !model.sequence.empty() && !model.learned_positions &&
         model.final_norm && !model.head.bias && !model.embedding_norm_present &&
         !model.project_in && !model.project_out && model.adapter_rank == 0;
}

std::shared_ptr<const Architecture> with_prediction(const Architecture& model, std::int64_t depth) {
  auto trained = std::make_shared<Architecture>(model);
  trained->prediction_layer_kind = kind_of_last_layer(model);
  const Layer& layer = model.kinds[static_cast<std::size_t>(trained->prediction_layer_kind)];
  for (std::int64_t i = 0; i < depth; ++i) {
    Tensors own;
    PredictionModule module = add_own_tensors(own, model, model.final_norm->kind);
    module.first_parameter = static_cast<int>(trained->head_parameters.size());
    module.first_of_layer = module.first_parameter + static_cast<int>(own.size());
    own.insert(own.end(), layer.parameters.begin(), layer.parameters.end());
    for (ParameterTensor& tensor : own) {
      tensor.name = fmt::format("{}{}.{}", model.layer_prefix, model.layers + i, tensor.name);
      trained->head_parameters.push_back(std::move(tensor));
    }
    trained->predictions.push_back(std::move(module));
  }
  return trained;
}

}  // namespace steelyard
