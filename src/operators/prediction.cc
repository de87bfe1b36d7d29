// Multi-token prediction in Megatron-core (transformer/multi_token_prediction.py; models/gpt/gpt_model.py, _postprocess; 0.16.1).
//
//   x ──view──┬── hnorm ──┐
//             │           ├─ joined, kept ── eh_proj, kept ── layer ── norm, kept ──┐
//             │  ids rolled, kept ── embedding, kept ── enorm                       ├─ joined: kept by the heads
//             └─────────────────────────────────────────────────────────────────────┘
//
// Full recomputation runs a module again from its embedding to its last norm.
#include "operators/ends.h"

namespace steelyard {

namespace {
constexpr const char* kPredictor = "mtp";
}  // namespace

template <class N>
class PredictionWriter {
 public:
  PredictionWriter(Composer<N>& composer, const Architecture& model)
      : c_(composer), graph_(composer.graph), model_(model) {}

  std::vector<ValueId> write(ValueId x, ValueId ids, const std::vector<int>& gradients) {
    // torch.chunk into one: a view, whose gradient is joined from one.
    Few<ValueId, 6> outputs = {c_.split(x, {graph_.elements(x)}, kPredictor)[0]};
    ValueId before = outputs[0];
    std::vector<ValueId> locals;
    for (std::size_t i = 0; i < model_.predictions.size(); ++i) {
      ids = rolled(ids, "token ids, one further");
      locals = {ids, rolled(ids, "position ids, one further")};
      const ValueId tokens = compose_embedding(c_, model_, ids, gradients[i]);
      before = module(model_.predictions[i], before, tokens);
      outputs.push_back(before);
    }
    const ValueId all = joined(outputs, "outputs of all depths");
    for (ValueId local : locals) graph_.hold(local);
    for (ValueId output : outputs) graph_.hold(output);
    return c_.split(all, std::vector<N>(outputs.size(), graph_.elements(before)), kPredictor);
  }

 private:
  // torch.roll: a copy, whose last place is then 0.
  ValueId rolled(ValueId ids, const char* name) {
    return c_.made("roll", {ids}, {kPredictor, name, "megatron.prediction-inputs"}, c_.sizes.tokens,
                   ElementType::kInt64);
  }
  ValueId joined(const Few<ValueId, 6>& parts, const char* name) {
    return c_.joined(parts, {kPredictor, name, "megatron.prediction-joined"},
                     N(static_cast<std::int64_t>(parts.size())) * graph_.elements(parts[0]));
  }
  ValueId module(const PredictionModule& module, ValueId hidden, ValueId tokens) {
    const Layer& layer = model_.kinds[static_cast<std::size_t>(model_.prediction_layer_kind)];
    const int begin = c_.position();
    const auto of_head = c_.recomputed;
    c_.recomputed = c_.recomputed_in_predictions;
    c_.in_layer = true;
    c_.first_parameter = module.first_parameter;
    const ValueId token = norm(tokens, module.token_norm);
    const ValueId both = joined({token, norm(hidden, module.hidden_norm)}, "both inputs");
    ValueId x = gathered(
        c_.column_linear(both, module.projection, N(2) * c_.sizes.hidden, c_.sizes.hidden));
    c_.first_parameter = module.first_of_layer;
    x = compose_layer(c_, layer, x);
    c_.first_parameter = module.first_parameter;
    const ValueId y = norm(x, module.final_norm);
    c_.first_parameter = 0;
    c_.in_layer = false;
    if (c_.recomputed.module) c_.recompute_from(begin);
    c_.recomputed = of_head;
    return y;
  }
  ValueId norm(ValueId x, const Norm& norm) {
    return c_.normalise(x, norm, c_.sizes.shard_tokens, c_.sizes.hidden);
  }
  // Every rank gathers the outputs of all: an all-gather, and its pieces joined. With sequence parallelism it goes on with a
  // view of its tokens; the gradients of all tokens are gathered into a tensor then.
  ValueId gathered(ValueId x) {
    if (c_.style.tensor == 1) return x;
    const N whole = c_.sizes.tokens * c_.sizes.hidden;
    const SlotName name{kPredictor, "output of all ranks", "megatron.prediction-gathered"};
    const ValueId y = graph_.tensor(name, whole, graph_.type(x), true);
    Operator gather;
    gather.label = "all-gather";
    gather.inputs = {x};
    gather.outputs = {y};
    gather.passing = {graph_.temporary(
        {kPredictor, "outputs by ranks", "megatron.prediction-gathered"}, whole, graph_.type(x))};
    gather.backward = {kGradient0};
    gather.forward_exchanges = {
        {ExchangeKind::kAllGather, Axis::kTensor, Composer<N>::payload_of(whole, graph_.type(x))}};
    graph_.add(gather);
    if (!c_.style.sequence_parallel) return y;
    const ValueId own = graph_.view(y, c_.sizes.shard_tokens * c_.sizes.hidden);
    Operator scatter;
    scatter.label = "scatter";
    scatter.inputs = {y};
    scatter.outputs = {own};
    scatter.backward = {kGradient0};
    scatter.backward_exchanges = {
        {ExchangeKind::kAllGather, Axis::kTensor, Composer<N>::payload_of(whole, graph_.type(x))}};
    graph_.add(scatter);
    return own;
  }

  Composer<N>& c_;
  Graph<N>& graph_;
  const Architecture& model_;
};

template <class N>
std::vector<ValueId> compose_predictions(Composer<N>& composer, const Architecture& model,
                                         ValueId x, ValueId ids,
                                         const std::vector<int>& gradients) {
  return PredictionWriter<N>(composer, model).write(x, ids, gradients);
}

template std::vector<ValueId> compose_predictions(Composer<Checked>&, const Architecture&, ValueId,
                                                  ValueId, const std::vector<int>&);
template std::vector<ValueId> compose_predictions(Composer<Traced>&, const Architecture&, ValueId,
                                                  ValueId, const std::vector<int>&);

}  // namespace steelyard
