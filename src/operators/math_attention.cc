// softmax(q k^T) v as PyTorch writes it out when no kernel takes the call: aten/src/ATen/native/transformers/attention.cpp,
// _scaled_dot_product_attention_math.
//
//   q ─fp32─ ·scale ─ copy ─┐
//   k ─fp32─ repeat ─ ·scale ─ q k^T ─ + mask ─ softmax (kept) ─ · v ─ cast ─ copy
//   v ─fp32─ repeat ──────────────────────────────────────────────┘
//
// It runs for grouped heads where the flash kernel is not there (fp32, or turned off): transformers hands them over as they
// are (integrations/sdpa_attention.py, use_gqa_in_sdpa), and the memory-efficient kernel has no grouped form.
#include "operators/composer.h"

namespace steelyard {

namespace {
constexpr BackwardStep kGradient0{BackwardStep::kInputGradient, 0, -1};
constexpr BackwardStep kGradient1{BackwardStep::kInputGradient, 1, -1};
constexpr BackwardStep kAlias0{BackwardStep::kAliasGradient, 0, -1};
constexpr const char* kOwner = "attention";
constexpr const char* kRule = "op.math-attention.written-out";
}  // namespace

template <class N>
ValueId Composer<N>::math_attention(ValueId q, ValueId k, ValueId v, const N& heads,
                                    const N& query_width, const N& value_width,
                                    const CoreAttention& how) {
  const ElementType type = style.compute;
  const ElementType wide = bits_of(type) < 32 ? ElementType::kFloat32 : type;
  const N pairs = sizes.tokens * sizes.sequence * heads;  // b·s·s·n
  Few<ValueId, 8> locals;
  const auto local = [&](ValueId value) {
    locals.push_back(value);
    return value;
  };

  q = local(cast(q, wide, {kOwner, "q, fp32", kRule}));
  k = local(cast(k, wide, {kOwner, "k, fp32", kRule}));
  v = local(cast(v, wide, {kOwner, "v, fp32", kRule}));
  const ValueId scaled_query = local(scale(q, {kOwner, "q · scale", kRule}));
  ValueId mask = kNoValue;
  if (how.causal) {
    mask =
        local(graph.tensor({kOwner, "mask", kRule}, sizes.sequence * sizes.sequence, wide, false));
    Operator make;
    make.label = "causal mask";
    make.outputs = {mask};
    make.passing = {graph.temporary({kOwner, "lower triangle", kRule},
                                    sizes.sequence * sizes.sequence, ElementType::kBool)};
    graph.add(make);
  }
  k = local(single("repeat", k, {kOwner, "k repeated to all heads", "op.repeat-kv.copy"},
                   sizes.tokens * query_width, wide, {}));
  v = single("repeat", v, {kOwner, "v repeated to all heads", "op.repeat-kv.copy"},
             sizes.tokens * value_width, wide, {});
  const ValueId scaled_key = scale(k, {kOwner, "k · scale", kRule});
  const ValueId query = graph.tensor({kOwner, "q, contiguous", kRule}, sizes.tokens * query_width,
                                     wide, graph.needs_gradient(scaled_query));
  Operator lay_out;
  lay_out.label = "copy";
  lay_out.inputs = {scaled_query};
  lay_out.outputs = {query};
  lay_out.backward = {kAlias0};
  graph.add(lay_out);

  const ValueId raw = graph.tensor({kOwner, "scores", "op.matmul.output"}, pairs, wide, true);
  Operator product;
  product.label = "q k^T";
  product.inputs = {query, scaled_key};
  product.outputs = {raw};
  product.saved = {query, scaled_key};
  product.backward = {kGradient1, kGradient0};
  product.arithmetic = {Arithmetic::kProduct, plain(sizes.sequence), plain(query_width / heads),
                        plain(sizes.sequence), plain(sizes.batch * heads)};
  graph.add(product);
  ValueId scores = raw;
  if (how.causal) {
    scores = graph.tensor({kOwner, "masked scores", "op.mask.add"}, pairs, wide, true);
    Operator add_mask;
    add_mask.label = "mask";
    add_mask.inputs = {raw, mask};
    add_mask.outputs = {scores};
    add_mask.backward = {kAlias0};
    graph.add(add_mask);
  }
  // _safe_softmax (aten/src/ATen/native/SoftMax.cpp) looks for rows that are masked altogether.
  ValueId probabilities =
      graph.tensor({kOwner, "softmax", "op.softmax.saved-output"}, pairs, wide, true);
  Operator soften;
  soften.label = "softmax";
  soften.inputs = {scores};
  soften.outputs = {probabilities};
  soften.saved = {probabilities};
  soften.passing = {
      graph.temporary({kOwner, "masked elements", kRule}, pairs, ElementType::kBool),
      graph.temporary({kOwner, "masked rows", kRule}, sizes.tokens * heads, ElementType::kBool)};
  soften.backward = {kGradient0, softmax_product(pairs, wide)};
  graph.add(soften);
  probabilities = dropout(probabilities, how.dropout, kOwner);
  // The second result of the call, in the caller's type; nobody takes it.
  if (wide != type) local(cast(probabilities, type, {kOwner, "probabilities", kRule}));
  ValueId mixed = weighted_values(probabilities, v, heads, value_width, wide);
  mixed = cast(reshaped(mixed, true), type, {kOwner, "output, cast back", kRule});
  for (ValueId value : locals) graph.hold(value);

  const ValueId out = graph.tensor({kOwner, "output", "op.attention.transposed-copy"},
                                   sizes.tokens * value_width, type, true);
  Operator transpose;
  transpose.label = "copy";
  transpose.inputs = {mixed};
  transpose.outputs = {out};
  transpose.backward = {kAlias0};
  graph.add(transpose);
  return out;
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
