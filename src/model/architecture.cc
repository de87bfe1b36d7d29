#include "model/architecture.h"

#include "quantity/checked.h"

namespace steelyard {
namespace {

struct Counts {
  Checked total = 0;
  Checked active = 0;
  Checked trainable = 0;

  void add(const Counts& other, Checked times) {
    total += other.total * times;
    active += other.active * times;
    trainable += other.trainable * times;
  }
};

// Without experts every parameter is active.
Counts count(const std::vector<ParameterTensor>& tensors, const ExpertMlp* experts) {
  Counts counts;
  for (const ParameterTensor& tensor : tensors) {
    if (tensor.buffer || tensor.beside_total) continue;
    const Checked elements = elements_of(tensor);
    counts.total += elements;
    if (!tensor.frozen) counts.trainable += elements;
    if (experts != nullptr && tensor.routed_expert && experts->experts > 0) {
      // All experts are equal, so the tensor divides without a rest.
      counts.active += elements / Checked(experts->experts) * Checked(experts->experts_per_token);
    } else {
      counts.active += elements;
    }
  }
  return counts;
}

}  // namespace

bool has_unread_tensor(const Architecture& architecture) {
  const auto any = [](const std::vector<ParameterTensor>& tensors) {
    for (const ParameterTensor& tensor : tensors)
      if (tensor.unread) return true;
    return false;
  };
  for (const Layer& layer : architecture.kinds)
    if (any(layer.parameters)) return true;
  return any(architecture.embedding_parameters);
}

const Layer& usual_layer(const Architecture& architecture) {
  for (const Layer& layer : architecture.kinds)
    if (!layer.encodes) return layer;
  return architecture.kinds.front();
}

std::string prefix_of_layer(const Architecture& architecture, std::int64_t layer) {
  const std::optional<EncoderPart>& part = architecture.encoder_part;
  const bool decodes = part && layer >= part->layers;
  return (decodes ? part->decoder_prefix : architecture.layer_prefix) +
         std::to_string(decodes ? layer - part->layers : layer) + ".";
}

std::int64_t elements_of(const ParameterTensor& tensor) {
  Checked elements = tensor.copies;
  for (const std::int64_t dimension : tensor.shape) elements = elements * Checked(dimension);
  return elements.value();
}

ParameterCounts count_parameters(const Architecture& architecture) {
  Counts all;
  all.add(count(architecture.embedding_parameters, nullptr), 1);
  const auto kind = static_cast<std::size_t>(architecture.prediction_layer_kind);
  const ExpertMlp* predicting = architecture.predictions.empty()
                                    ? nullptr
                                    : std::get_if<ExpertMlp>(&architecture.kinds[kind].mlp);
  all.add(count(architecture.head_parameters, predicting), 1);
  all.add(count(architecture.left_out, nullptr), 1);
  std::vector<Counts> of_kind;
  of_kind.reserve(architecture.kinds.size());
  for (const Layer& layer : architecture.kinds)
    of_kind.push_back(count(layer.parameters, std::get_if<ExpertMlp>(&layer.mlp)));
  for (const LayerGroup& group : architecture.sequence)
    for (const LayerRun& run : group.runs)
      all.add(of_kind[static_cast<std::size_t>(run.kind)],
              Checked(group.times) * Checked(run.count));
  return {all.total.value(), all.trainable.value(), all.active.value()};
}

}  // namespace steelyard
