// Llama 4 in transformers: every expert runs over every token, and the scores of those that were not chosen are zero.
//
//   scores  linear ─ top k ─ scattered among -inf ─ (fp32) sigmoid, kept ─ cast ─ by expert, kept
//   tokens  repeated E times, kept ─ x scores, kept ─ bmm gate·up 2M, kept ─ act(gate)·up, both kept ─ bmm ─ sum over experts
//
// So a layer keeps E times what one expert would (models/llama4/modeling_llama4.py, Llama4TextMoe, 5.17).
#include "operators/composer.h"

namespace steelyard {

namespace {
constexpr const char* kOwner = "mlp.experts";
constexpr const char* kRepeated = "op.experts.every-token";
}  // namespace

template <class N>
ValueId Composer<N>::batched_product(ValueId x, int weight_index, const char* name, const N& in,
                                     const N& out, const N& experts, const N& tokens) {
  const N weights = experts * in * out;
  const ElementType type = style.compute;
  const bool trains = has_gradient(weight_index);
  ValueId weight = kNoValue;
  if (style.autocast && stored_type(weight_index) != type) {
    weight = made("cast", {}, {kOwner, "weights, cast", "autocast.weight-cast"}, weights, type);
    if (trains) graph.linger(weight);
  }
  const ValueId input =
      style.autocast ? cast(x, type, {kOwner, "input, cast", "autocast.input-cast"}) : x;
  const ValueId y =
      graph.tensor({kOwner, name, "op.linear.output"}, experts * tokens * out, type, true);
  Operator operation;
  operation.label = "batched product";
  operation.inputs = {input};
  operation.outputs = {y};
  if (trains) operation.saved.push_back(input);
  if (weight != kNoValue && graph.needs_gradient(x)) operation.saved.push_back(weight);
  operation.backward = {{BackwardStep::kParameterGradient, parameter(weight_index, weights), -1},
                        kGradient0};
  operation.arithmetic = {Arithmetic::kProduct, plain(tokens), plain(in), plain(out),
                          plain(experts)};
  graph.add(operation);
  return y;
}

template <class N>
ValueId Composer<N>::scores_of_every_expert(ValueId logits, const N& experts, const N& chosen) {
  const N tokens = sizes.shard_tokens;
  const char* rule = kRepeated;
  const ElementType type = graph.type(logits);
  const ValueId values = graph.tensor({kOwner, "chosen scores", rule}, chosen, type, true);
  const ValueId indices = graph.tensor({kOwner, "chosen experts", "op.top-k.saved-indices"}, chosen,
                                       ElementType::kInt64, false);
  Operator choose;
  choose.label = "top k";
  choose.inputs = {logits};
  choose.outputs = {values, indices};
  choose.saved = {indices};
  choose.backward = {kGradient0};
  graph.add(choose);
  const ValueId scattered =
      graph.tensor({kOwner, "scores among minus infinity", rule}, tokens * experts, type, true);
  Operator scatter;
  scatter.label = "scatter";
  scatter.inputs = {values, indices};
  scatter.outputs = {scattered};
  scatter.saved = {indices};
  scatter.backward = {kGradient0};
  graph.add(scatter);
  const ValueId wide =
      cast(scattered, ElementType::kFloat32, {kOwner, "scores, fp32", "op.softmax.fp32-input"});
  const ValueId sigmoid =
      pointwise("sigmoid", wide, {kOwner, "sigmoid of the scores", "op.sigmoid.saved-output"},
                {.output = true});
  const ValueId scores = cast(sigmoid, type, {kOwner, "scores, cast back", rule});
  for (const ValueId local : {values, indices}) graph.hold(local);
  hold_until_return(scores);
  return copy(scores, {kOwner, "scores by expert", rule});
}

template <class N>
ValueId Composer<N>::every_expert(ValueId x, const ExpertMlp& mlp) {
  using Book = Workbook<N>;
  const N experts = Book::symbol("E", mlp.experts), hidden = sizes.hidden;
  const N tokens = sizes.shard_tokens, width = Book::symbol("M", mlp.width);
  const N pairs = tokens * experts;
  const ValueId logits = linear(x, mlp.router, tokens, hidden, experts);
  const ValueId scores =
      scores_of_every_expert(logits, experts, tokens * Book::symbol("K", mlp.experts_per_token));
  const ValueId repeated = single("repeat", x, {kOwner, "tokens for every expert", kRepeated},
                                  pairs * hidden, graph.type(x), {});
  const ElementType scaled_type = graph.type(x);
  const ValueId scaled =
      graph.tensor({kOwner, "tokens by scores", kRepeated}, pairs * hidden, scaled_type, true);
  Operator weigh;
  weigh.label = "weigh";
  weigh.inputs = {repeated, scores};
  weigh.outputs = {scaled};
  if (graph.needs_gradient(scores)) weigh.saved.push_back(repeated);
  if (graph.needs_gradient(repeated)) weigh.saved.push_back(scores);
  weigh.backward = {kGradient0,
                    {BackwardStep::kTemporary, 0,
                     graph.temporary({kOwner, "gradient of the scores, unreduced",
                                      "op.multiply.broadcast-backward"},
                                     pairs * hidden, scaled_type)},
                    kGradient1};
  graph.add(weigh);
  const ValueId both = batched_product(scaled, mlp.gate_up_index, "gate and up", hidden,
                                       N(2) * width, experts, tokens);
  const std::vector<ValueId> parts = split(both, {pairs * width, pairs * width}, kOwner);
  const ValueId activated = activate(parts[0], mlp.activation, kOwner);
  const ValueId inner =
      multiply(parts[1], activated, {kOwner, "act(gate)·up", "op.multiply.output"});
  const ValueId outputs =
      batched_product(inner, mlp.down_index, "expert output", width, hidden, experts, tokens);
  const ValueId shared = this->mlp(x, *mlp.shared);
  // The gradient of the sum is one of every expert's output, laid out.
  const ValueId sum =
      single("sum over experts", outputs, {kOwner, "sum over experts", "op.experts.sum"},
             tokens * hidden, graph.type(outputs), {});
  const ValueId total = graph.view(shared, tokens * hidden);
  Operator add_up;
  add_up.label = "add in place";
  add_up.inputs = {shared, sum};
  add_up.outputs = {total};
  add_up.backward = {kAlias0, kAlias1};
  graph.add(add_up);
  for (const ValueId local : {scaled, outputs}) graph.hold(local);
  hold_until_return(logits);
  return total;
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
