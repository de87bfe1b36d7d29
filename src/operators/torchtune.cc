// torchtune's attention (torchtune/modules/attention.py, torchtune/models/llama3_1/_position_embeddings.py; 0.4 to 0.6).
//
//   rotary   x32 4 · four products of halves, two at a time, 2 each · their joined pairs 4 · q or k 2, kept
//   grouped  k and v copied out to all query heads, and kept so
//   one key/value head   views: k and v stand for all heads
//
// Sines and cosines are a table of the whole model, made once; a product with it keeps a view of that.
#include "operators/composer.h"

namespace steelyard {

namespace {
constexpr const char* kOfAttention = "attention";
}  // namespace

template <class N>
ValueId Composer<N>::turned_by_pairs(ValueId x, const SlotName& name) {
  const ValueId given = x;
  const ElementType type = graph.type(x);
  const char* rule = "torchtune.rotary";
  const N half = graph.elements(x) / N(2);
  const ValueId wide = cast(x, ElementType::kFloat32, {kOfAttention, "fp32 copy of q or k", rule});
  const auto times = [&](const char* product) {
    return scale(viewed("every second", wide, half), {kOfAttention, product, rule});
  };
  const ValueId minuend = times("first·cos"), subtrahend = times("second·sin");
  const ValueId first = graph.tensor({kOfAttention, "first of the pairs, turned", rule}, half,
                                     ElementType::kFloat32, graph.needs_gradient(x));
  Operator subtract;
  subtract.label = "subtract";
  subtract.inputs = {minuend, subtrahend};
  subtract.outputs = {first};
  subtract.backward = {kAlias0, kGradient1};
  graph.add(subtract);
  const ValueId left = times("second·cos"), right = times("first·sin");
  const ValueId second = add(left, right, {kOfAttention, "second of the pairs, turned", rule});
  const ValueId pairs =
      joined({first, second}, {kOfAttention, "pairs, turned", rule}, graph.elements(x));
  const ValueId y = cast(pairs, type, name);
  for (const ValueId local : {given, wide, pairs}) graph.hold(local);
  return y;
}

template <class N>
ValueId Composer<N>::torchtune_attention(ValueId x, const GroupedAttention& attention,
                                         const N& query, const N& key_value, const N& heads,
                                         const N& key_value_heads) {
  const bool rotary_on = attention.rotary_width > 0;
  const auto turn = [&](ValueId& y, const char* name) {
    if (!rotary_on) return;
    const SlotName of{kOfAttention, name,
                      style.compiled ? "op.fused-rotary.output" : "torchtune.rotary"};
    y = style.compiled ? scale(y, of) : turned_by_pairs(y, of);
  };
  ValueId q = kNoValue, k = kNoValue, v = kNoValue;
  if (attention.fused) {
    split_fused(column_linear(x, *attention.fused, sizes.hidden, query + N(2) * key_value),
                attention, query, key_value, q, k, v);
    turn(q, "q, rotated");
  } else {
    q = column_linear(x, *attention.query, sizes.hidden, query);
    turn(q, "q, rotated");
    k = column_linear(x, *attention.key, sizes.hidden, key_value);
    v = column_linear(x, *attention.value, sizes.hidden, key_value);
  }
  const N head_width = query / heads;
  if (attention.query_norm)
    q = normalise(q, *attention.query_norm, sizes.tokens * heads, head_width);
  turn(k, "k, rotated");
  if (attention.key_norm)
    k = normalise(k, *attention.key_norm, sizes.tokens * key_value_heads, head_width);
  if (plain(heads) != plain(key_value_heads)) {
    const N all = sizes.tokens * query;
    if (plain(key_value_heads) == 1) {
      k = viewed("expand", k, all);
      v = viewed("expand", v, all);
    } else {
      k = expanded(k, "k, expanded to all heads", all);
      // The gradient of v is the sum over a group's heads, which the product's view wants in token order.
      v = expanded(viewed("transpose", v, graph.elements(v)), "v, expanded to all heads", all);
    }
  }
  for (const ValueId local : {q, k, v}) hold_until_return(local);
  CoreAttention how;
  how.dropout = style.attention_dropout;
  how.causal = attention.causal;
  how.softcap = attention.score_softcap.has_value();
  const ValueId mixed = core_attention(q, k, v, heads, heads, query, query, how);
  hold_until_return(mixed);
  return mixed;
}

template <class N>
ValueId Composer<N>::expanded(ValueId x, const char* name, const N& elements) {
  return single("expand", x, {kOfAttention, name, "torchtune.expanded-heads"}, elements,
                graph.type(x), {});
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
