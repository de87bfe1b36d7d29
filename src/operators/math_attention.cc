// softmax(q k^T) v as PyTorch writes it out when no kernel takes the call: aten/src/ATen/native/transformers/attention.cpp,
// _scaled_dot_product_attention_math.
//
//   q ─fp32─ ·scale ─ copy ─┐          + mask: in place
//   k ─fp32─ repeat ─ ·scale ─ q k^T ─ + mask ─ softmax (kept) ─ · v ─ cast ─ copy
//   v ─fp32─ repeat ──────────────────────────────────────────────┘
//
// It runs for grouped heads where the flash kernel is not there (fp32, or turned off): transformers hands them over as they
// are (integrations/sdpa_attention.py, use_gqa_in_sdpa), and the memory-efficient kernel has no grouped form.
#include "operators/composer.h"

namespace steelyard {

namespace {
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

  cast_for_kernel(v, "v, cast");
  cast_for_kernel(k, "k, cast");
  cast_for_kernel(q, "q, cast");
  const bool biased = how.bias != kNoValue;
  ValueId bias = how.bias;
  if (biased) {
    // The gradients come back head by head, and are copied.
    for (ValueId* x : {&q, &k, &v}) *x = reshaped(*x, true);
    if (style.autocast)
      bias = local(cast(bias, type, {kOwner, "positions, cast", "autocast.input-cast"}));
  }
  ValueId mask = kNoValue;
  if (how.masked) {
    // Truths, the same for all sequences, become numbers for each of them in the type of the query.
    mask = local(graph.tensor({kOwner, "mask, as numbers", "op.efficient-attention.mask"},
                              sizes.tokens * sizes.sequence, type, false));
    Operator convert;
    convert.label = "mask of numbers";
    convert.outputs = {mask};
    graph.add(convert);
  }
  q = local(cast(q, wide, {kOwner, "q, fp32", kRule}));
  k = local(cast(k, wide, {kOwner, "k, fp32", kRule}));
  v = local(cast(v, wide, {kOwner, "v, fp32", kRule}));
  const ValueId scaled_query = local(scale(q, {kOwner, "q · scale", kRule}));
  if (how.causal && !how.masked) {
    mask =
        local(graph.tensor({kOwner, "mask", kRule}, sizes.sequence * sizes.sequence, wide, false));
    Operator make;
    make.label = "causal mask";
    make.outputs = {mask};
    make.passing = {graph.temporary({kOwner, "lower triangle", kRule},
                                    sizes.sequence * sizes.sequence, ElementType::kBool)};
    graph.add(make);
  }
  const SlotName of_keys{kOwner, "k repeated to all heads", "op.repeat-kv.copy"};
  const SlotName of_values{kOwner, "v repeated to all heads", "op.repeat-kv.copy"};
  const auto repeated = [&](ValueId x, const SlotName& name, const N& width) {
    return single("repeat", x, name, sizes.tokens * width, wide, {});
  };
  if (!how.one_key_value_head && !biased) {
    k = local(repeated(k, of_keys, query_width));
    v = repeated(v, of_values, value_width);
  }
  ValueId scaled_key = scale(k, {kOwner, "k · scale", kRule});
  const ValueId query = graph.tensor({kOwner, "q, contiguous", kRule}, sizes.tokens * query_width,
                                     wide, graph.needs_gradient(scaled_query));
  Operator lay_out;
  lay_out.label = "copy";
  lay_out.inputs = {scaled_query};
  lay_out.outputs = {query};
  lay_out.backward = {kAlias0};
  graph.add(lay_out);
  const ValueId of_expression = scaled_key;
  if (biased) scaled_key = laid_out(scaled_key, {kOwner, "k, contiguous", kRule});
  if (how.one_key_value_head) scaled_key = repeated(scaled_key, of_keys, query_width);

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
  if (biased) {
    graph.hold(of_expression);
    scores = graph.view(raw, pairs);
    add_positions(raw, bias, scores, wide);
  }
  // The mask is added in place. _safe_softmax (aten/src/ATen/native/SoftMax.cpp) looks for rows that are masked altogether.
  ValueId probabilities =
      graph.tensor({kOwner, "softmax", "op.softmax.saved-output"}, pairs, wide, true);
  Operator soften;
  soften.label = "softmax";
  soften.inputs = {scores};
  soften.outputs = {probabilities};
  soften.saved = {probabilities};
  soften.passing = {
      graph.temporary({kOwner, "masked elements", kRule}, pairs, ElementType::kBool),
      graph.temporary({kOwner, "masked rows", kRule}, sizes.tokens * heads, ElementType::kBool),
      graph.temporary({kOwner, "any masked row", kRule}, N(1), ElementType::kBool)};
  soften.backward = {kGradient0, softmax_product(pairs, wide)};
  graph.add(soften);
  probabilities = dropout(probabilities, how.dropout, kOwner);
  // The second result of the call, in the caller's type; nobody takes it, so that it has no gradient.
  if (wide != type)
    local(made("cast", {probabilities}, {kOwner, "probabilities", kRule}, pairs, type));
  if (how.one_key_value_head) v = repeated(v, of_values, value_width);
  if (biased) v = laid_out(v, {kOwner, "v, contiguous", kRule});
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
