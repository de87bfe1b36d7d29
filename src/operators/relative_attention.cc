// Attention with relative positions, and that of a decoder to what an encoder has given: transformers models/t5/modeling_t5.py
// (5.17).
//
//   positions   [1, n, s, s], looked up by the first layer of a stack; zeros for what the encoder gave: those ask for no
//               gradient, unless layers are checkpointed
//   sdpa        numbers looked up do not lie as a kernel asks (their last dimension is not contiguous): PyTorch writes attention
//               out, and adds them in place. The zeros do: the memory-efficient kernel takes and keeps them.
//   eager       scores, times 1, + positions, + mask, softmax in their own type
#include "operators/composer.h"

namespace steelyard {

namespace {
constexpr const char* kOwner = "attention";
// Bytes of a row of a mask that the memory-efficient kernel takes (attention.cpp, pad_bias): elements, whatever their type.
constexpr std::int64_t kAlignment = 8;
}  // namespace

template <class N>
ValueId Composer<N>::relative_attention(ValueId x, const GroupedAttention& attention, bool cross) {
  const N heads = Workbook<N>::symbol("n", attention.heads);
  const N width = Workbook<N>::symbol("a", attention.heads * attention.head_width);
  const N keys = cross ? stack.source_sequence : sizes.sequence;
  const ValueId source = cross ? stack.encoded : x;
  ValueId q = linear(x, *attention.query, sizes.tokens, sizes.hidden, width);
  ValueId k = linear(source, *attention.key, sizes.batch * keys, sizes.hidden, width);
  ValueId v = linear(source, *attention.value, sizes.batch * keys, sizes.hidden, width);
  for (const ValueId local : {q, k, v}) hold_until_return(local);
  ValueId& positions = cross ? stack.cross_positions : stack.positions;
  if (positions == kNoValue)
    positions = cross ? no_positions(heads, keys) : looked_up_positions(attention, heads);
  ValueId mixed;
  CoreAttention how;
  how.dropout = style.attention_dropout;
  how.causal = false;
  if (style.attention == AttentionKernel::kEager) {
    mixed = relative_eager(q, k, v, positions, heads, width, keys, attention.causal);
  } else if (cross) {
    mixed = biased_kernel(q, k, v, positions, heads, width, keys);
  } else {
    how.bias = attention.causal ? masked_positions(positions) : positions;
    mixed = math_attention(q, k, v, heads, width, width, how);
    graph.hold(how.bias);
  }
  const ValueId y = linear(mixed, attention.output, sizes.tokens, width, sizes.hidden);
  return_locals();
  return y;
}

// T5Attention.compute_bias: which bucket the distance of two tokens falls into, and the numbers of the heads for it.
template <class N>
ValueId Composer<N>::looked_up_positions(const GroupedAttention& attention, const N& heads) {
  constexpr const char* kRule = "op.relative-positions.buckets";
  const N pairs = sizes.sequence * sizes.sequence;
  const auto passing = [&](const char* name, ElementType type) {
    return graph.temporary({kOwner, name, kRule}, pairs, type);
  };
  const ValueId buckets =
      graph.tensor({kOwner, "buckets of distances", kRule}, pairs, ElementType::kInt64, false);
  Operator find;
  find.label = "buckets";
  find.outputs = {buckets};
  find.passing = {passing("positions of keys from queries", ElementType::kInt64),
                  passing("distances", ElementType::kInt64),
                  passing("near ones", ElementType::kBool),
                  passing("buckets of far ones", ElementType::kInt64),
                  passing("the last bucket", ElementType::kInt64)};
  if (!attention.causal) find.passing.push_back(passing("the smaller", ElementType::kInt64));
  graph.add(find);
  const SlotName name{kOwner, "relative positions", "op.relative-positions.output"};
  const ValueId y = graph.tensor(name, pairs * heads, style.residual, true);
  Operator lookup;
  lookup.label = "embedding";
  lookup.inputs = {buckets};
  lookup.outputs = {y};
  lookup.saved = {buckets};
  const RelativePositions& relative = *attention.relative;
  lookup.backward = {{BackwardStep::kTemporary, 0,
                      graph.temporary({kOwner, "gradient of the positions, by pairs",
                                       "op.relative-positions.output"},
                                      pairs * heads, style.residual)},
                     {BackwardStep::kTemporary, 0,
                      graph.temporary({kOwner, "sorted buckets", "op.embedding.backward-sort"},
                                      N(5) * pairs, ElementType::kInt64)},
                     {BackwardStep::kParameterGradient,
                      uncast_parameter(relative.table_index, N(relative.buckets) * heads), -1}};
  graph.add(lookup);
  return y;
}

template <class N>
ValueId Composer<N>::no_positions(const N& heads, const N& keys) {
  const ValueId zeros =
      made("zeros", {}, {kOwner, "positions towards the encoder", "op.relative-positions.zeros"},
           heads * sizes.sequence * keys, style.compute);
  if (stack.checkpointed) graph.ask_gradient(zeros);
  return zeros;
}

// create_position_bias_mask (integrations/sdpa_attention.py): the smallest number where a token must not look.
template <class N>
ValueId Composer<N>::masked_positions(ValueId positions) {
  constexpr const char* kRule = "op.relative-positions.masked";
  const N pairs = sizes.sequence * sizes.sequence;
  const ValueId truths =
      made("triangle", {}, {kOwner, "causal mask", kRule}, pairs, ElementType::kBool);
  const ValueId y = graph.tensor({kOwner, "relative positions, masked", kRule},
                                 graph.elements(positions), graph.type(positions), true);
  Operator where;
  where.label = "where";
  where.inputs = {positions, truths};
  where.outputs = {y};
  where.saved = {truths};
  where.backward = {{BackwardStep::kTemporary, 0,
                     graph.temporary({kOwner, "a zero", kRule}, N(1), graph.type(positions))},
                    kGradient0};
  graph.add(where);
  return y;
}

// scaled_dot_product_attention with a mask of numbers, in the memory-efficient kernel.
template <class N>
ValueId Composer<N>::biased_kernel(ValueId q, ValueId k, ValueId v, ValueId bias, const N& heads,
                                   const N& width, const N& keys) {
  cast_for_kernel(v, "v, cast");
  cast_for_kernel(k, "k, cast");
  cast_for_kernel(q, "q, cast");
  if (plain(keys) % kAlignment != 0) {
    const N rows = heads * sizes.sequence;
    const ValueId padded = graph.tensor(
        {kOwner, "positions, rows padded", "op.efficient-attention.padded-mask"},
        rows * round_up(keys, N(kAlignment)), graph.type(bias), graph.needs_gradient(bias));
    Operator pad;
    pad.label = "pad";
    pad.inputs = {bias};
    pad.outputs = {padded};
    pad.backward = {kGradient0};
    graph.add(pad);
    bias = padded;
  }
  const N rows = sizes.batch * heads * round_up(sizes.sequence, N(32));
  const ValueId out = graph.tensor({kOwner, "output", "op.attention.saved-output"},
                                   sizes.tokens * width, style.compute, true);
  const ValueId log_sum = graph.tensor({kOwner, "log-sum-exp", "op.attention.saved-log-sum-exp"},
                                       rows, ElementType::kFloat32, false);
  Operator operation;
  operation.label = "efficient attention";
  operation.inputs = {q, k, v, bias};
  operation.outputs = {out, log_sum};
  operation.saved = {q, k, v, out, log_sum, bias};
  operation.backward = {kGradient0, kGradient1, kGradient2};
  if (graph.needs_gradient(bias)) {
    // Of every sequence; their sum then takes its place.
    operation.backward.push_back(
        {BackwardStep::kTemporary, 0,
         graph.temporary(
             {kOwner, "gradient of the positions, by sequences", "op.relative-positions.summed"},
             sizes.batch * graph.elements(bias), graph.type(bias))});
  }
  for (const BackwardStep& step :
       attention_workspaces(heads, heads, width, width, sizes.sequence, keys))
    operation.backward.push_back(step);
  operation.backward.push_back({BackwardStep::kInputGradient, 3, -1});
  operation.arithmetic = {Arithmetic::kAttention,     plain(sizes.sequence),
                          plain(width / heads),       plain(keys),
                          plain(sizes.batch * heads), false};
  operation.arithmetic.code = style.attention_code;
  graph.add(operation);
  return out;
}

template <class N>
ValueId Composer<N>::relative_eager(ValueId q, ValueId k, ValueId v, ValueId positions,
                                    const N& heads, const N& width, const N& keys, bool causal) {
  const ElementType type = style.compute;
  const N pairs = sizes.tokens * keys * heads;
  // Heads lie within tokens: a product of many matrices takes copies, and their gradients are copied back.
  const auto by_head = [&](ValueId x, const char* name, const char* cast_name) {
    cast_for_kernel(x, cast_name);
    x = reshaped(x, true);
    return laid_out(x, {kOwner, name, "op.attention.heads-copied"});
  };
  const ValueId query = by_head(q, "q, by head", "q, cast");
  const ValueId key = by_head(k, "k, by head", "k, cast");
  const ValueId raw = graph.tensor({kOwner, "scores", "op.matmul.output"}, pairs, type, true);
  Operator product;
  product.label = "q k^T";
  product.inputs = {query, key};
  product.outputs = {raw};
  product.saved = {query, key};
  product.backward = {kGradient1, kGradient0};
  product.arithmetic = {Arithmetic::kProduct, plain(sizes.sequence), plain(width / heads),
                        plain(keys), plain(sizes.batch * heads)};
  graph.add(product);
  ValueId scores = scale(raw, {kOwner, "scaled scores", "op.scale"});
  const ElementType added =
      bits_of(graph.type(positions)) > bits_of(type) ? graph.type(positions) : type;
  const ValueId sum = graph.tensor({kOwner, "scores and positions", "op.add"}, pairs, added, true);
  add_positions(scores, positions, sum, added);
  scores = sum;
  if (causal) {
    const ElementType masked = bits_of(style.residual) > bits_of(added) ? style.residual : added;
    scores = single("mask", scores, {kOwner, "masked scores", "op.mask.add"}, pairs, masked, {});
  }
  if (style.autocast)
    scores = cast(scores, ElementType::kFloat32, {kOwner, "fp32 scores", "autocast.fp32-operator"});
  ValueId probabilities =
      single("softmax", scores, {kOwner, "softmax", "op.softmax.saved-output"}, pairs,
             graph.type(scores), {.output = true}, {softmax_product(pairs, graph.type(scores))});
  probabilities = dropout(probabilities, style.attention_dropout, kOwner);
  const ValueId wide = probabilities;
  cast_for_kernel(probabilities, "probabilities, cast");
  const ValueId value = by_head(v, "v, by head", "v, cast");
  const ValueId mixed = graph.tensor({kOwner, "output by head", "op.matmul.output"},
                                     sizes.tokens * width, type, true);
  Operator mix;
  mix.label = "probabilities v";
  mix.inputs = {probabilities, value};
  mix.outputs = {mixed};
  mix.saved = {probabilities, value};
  mix.backward = {kGradient1, kGradient0};
  mix.arithmetic = {Arithmetic::kProduct, plain(sizes.sequence), plain(keys), plain(width / heads),
                    plain(sizes.batch * heads)};
  graph.add(mix);
  const ValueId out =
      laid_out(reshaped(mixed, true), {kOwner, "output", "op.attention.transposed-copy"});
  graph.hold(wide);
  return out;
}

// scores + positions, which every sequence shares: their gradient is a sum over the sequences, in fp32 where that is wider.
template <class N>
void Composer<N>::add_positions(ValueId scores, ValueId positions, ValueId sum, ElementType added) {
  Operator add;
  add.label = "add positions";
  add.inputs = {scores, positions};
  add.outputs = {sum};
  if (plain(sizes.batch) > 1 && graph.type(positions) != added && graph.needs_gradient(positions))
    add.backward.push_back({BackwardStep::kTemporary, 0,
                            graph.temporary({kOwner, "gradient of the positions, summed",
                                             "op.relative-positions.summed"},
                                            graph.elements(positions), added)});
  const bool alone = plain(sizes.batch) == 1 && graph.type(positions) == added;
  add.backward.push_back(alone ? kAlias1 : kGradient1);
  add.backward.push_back(graph.type(scores) == added ? kAlias0 : kGradient0);
  graph.add(add);
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
