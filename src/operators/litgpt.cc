// LitGPT's attention (litgpt/model.py, litgpt/lora.py of 0.3 to 0.4): one product of queries, keys and values, laid out group
// by group, so that what is not one group or one head a group is copied out by head.
//
//   heads = key/value heads   q, k and v are views of the product · q and k turned, copies · the product stays for v
//   grouped                   q copied, k and v copied out to all heads · q and k turned, copies · the product goes
//   one key/value head        views: k and v stand for all heads, and k is turned for each
#include "operators/composer.h"

namespace steelyard {

namespace {
constexpr const char* kOwner = "attention";
}  // namespace

template <class N>
ValueId Composer<N>::litgpt_attention(ValueId x, const GroupedAttention& attention, const N& query,
                                      const N& key_value, const N& heads,
                                      const N& key_value_heads) {
  const N width = query + N(2) * key_value;
  ValueId packed = kNoValue;
  if (attention.fused) {
    packed = linear(x, *attention.fused, sizes.tokens, sizes.hidden, width);
  } else {
    packed = base_product(x, *attention.query, sizes.tokens, sizes.hidden, width);
    packed = litgpt_adapters(x, packed, attention, query, key_value);
  }
  const std::vector<ValueId> parts = split(
      packed, {sizes.tokens * query, sizes.tokens * key_value, sizes.tokens * key_value}, kOwner);
  ValueId q = parts[0], k = parts[1], v = parts[2];
  const N elements = sizes.tokens * query;
  if (plain(key_value_heads) == 1) {
    k = viewed("expand", k, elements);
    v = viewed("expand", v, elements);
  } else if (plain(heads) != plain(key_value_heads)) {
    q = copy(q, {kOwner, "q, by head", "litgpt.by-head"});
    repeat_to_all_heads(k, v, query, query);
  }
  // cos and sin are made anew in fp32 when the longest sample is known (GPT.max_seq_length).
  GroupedAttention turned = attention;
  turned.rotary_in_float32 = true;
  rotary(q, k, turned);
  if (attention.rotary_width >=
      attention.head_width) {  // joined with what stays, though nothing does
    q = copy(q, {kOwner, "q, joined", "litgpt.by-head"});
    k = copy(k, {kOwner, "k, joined", "litgpt.by-head"});
  }
  for (ValueId local : {packed, q, k, v}) hold_until_return(local);
  CoreAttention how;
  how.dropout = style.attention_dropout;
  how.causal = attention.causal;
  how.eager = attention.eager_only;
  how.softcap = attention.score_softcap.has_value();
  how.query_by_head = true;
  return core_attention(q, k, v, heads, heads, query, query, how);
}

// One dropout for the adapters of queries, keys and values (LoRAQKVLinear); what they give is put into a tensor as wide as
// the product where some of the three have none, or are not equally wide.
template <class N>
ValueId Composer<N>::litgpt_adapters(ValueId x, ValueId packed, const GroupedAttention& attention,
                                     const N& query, const N& key_value) {
  struct Part {
    const Linear& linear;
    const N& width;
  };
  const Part all[] = {
      {*attention.query, query}, {*attention.key, key_value}, {*attention.value, key_value}};
  std::vector<Part> adapted;
  for (const Part& part : all)
    if (part.linear.adapter) adapted.push_back(part);
  if (adapted.empty()) return packed;
  const ValueId dropped = dropout(x, style.adapter->dropout, kOwner);
  const ValueId whole = graph.tensor({kOwner, "x A B of q, k and v", "litgpt.adapters-of-qkv"},
                                     graph.elements(packed), graph.type(packed), true);
  Operator pad;
  pad.label = "zero pad";
  pad.outputs = {whole};
  for (const Part& part : adapted) {
    pad.backward.push_back({BackwardStep::kInputGradient, static_cast<int>(pad.inputs.size()), -1});
    pad.inputs.push_back(low_rank(dropped, part.linear, sizes.tokens, sizes.hidden, part.width));
  }
  // index_copy keeps its source, of which backward asks the shape (tools/autograd/derivatives.yaml).
  if (adapted.size() < std::size(all))
    for (const ValueId source : pad.inputs) pad.saved.push_back(source);
  graph.add(pad);
  const ValueId added =
      scale(whole, {kOwner, "x A B of q, k and v, scaled", "litgpt.adapters-of-qkv"});
  const ValueId sum = add(packed, added, {kOwner, "output with its adapter", "adapter.sum"});
  graph.hold(x);
  return sum;
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
