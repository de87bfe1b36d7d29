// Megatron-core's own attention, which runs where Transformer Engine does not (transformer_impl = local): every step an operator
// of torch, none of them fused.
//
//   packed ─┬─ q, copied ─ turned ─────────────────┬─ q k^T ─ fp32 ─ masked in place ─ softmax, kept ─ 16 bits, kept ─┬─ · v ─ copied
//           ├─ k ──────── turned ─ to all heads ───┘                                                              │
//           └─ v ───────────────── to all heads, kept ────────────────────────────────────────────────────────────┘
//
// Sources: megatron/core/transformer/{attention,dot_product_attention}.py, fusions/fused_softmax.py (forward_torch_softmax),
// models/common/embeddings/rope_utils.py; megatron-core 0.16.1.
#include "operators/composer.h"

namespace steelyard {

namespace {
constexpr const char* kOwner = "attention";
constexpr const char* kRule = "op.local-attention.written-out";
}  // namespace

template <class N>
class LocalAttentionWriter {
 public:
  LocalAttentionWriter(Composer<N>& composer, const GroupedAttention& attention)
      : c_(composer), graph_(composer.graph), attention_(attention) {}

  // t·cos + rotate_half(t)·sin beside what is not turned. Each call makes tables of its own, in fp32 first.
  ValueId turned(ValueId x, const SlotName& name) {
    const N turned_elements = attention_.rotary_width >= attention_.head_width
                                  ? graph_.elements(x)
                                  : graph_.elements(x) /
                                        Workbook<N>::symbol("d", attention_.head_width) *
                                        Workbook<N>::symbol("dr", attention_.rotary_width);
    const ValueId t = c_.viewed("part to turn", x, turned_elements, kAlias0);
    const ValueId rest = c_.viewed("part that stays", x, graph_.elements(x) - turned_elements);
    const ValueId cosine = table("cos"), sine = table("sin");
    const ValueId straight = c_.multiply(t, cosine, {kOwner, "x·cos", kRule});
    const N half = turned_elements / N(2);
    const std::vector<ValueId> halves = c_.split(t, {half, half}, kOwner);
    const ValueId negative = c_.pointwise("negate", halves[1], {kOwner, "negated half", kRule});
    const ValueId crossed =
        c_.joined({negative, halves[0]}, {kOwner, "rotated", kRule}, turned_elements);
    const ValueId sum = c_.add(straight, c_.multiply(crossed, sine, {kOwner, "rotated·sin", kRule}),
                               {kOwner, "turned", kRule});
    return c_.joined({sum, rest}, name, graph_.elements(x));
  }

  // DotProductAttention.forward: what multiplies lies by heads.
  ValueId core(ValueId q, ValueId k, ValueId v, const N& heads, const N& width, bool grouped,
               const CoreAttention& how) {
    const int begin = c_.position();
    const ElementType type = c_.style.compute;
    const N pairs = c_.sizes.tokens * c_.sizes.sequence * heads;
    if (grouped) c_.repeat_to_all_heads(k, v, width, width);
    const ValueId raw = graph_.tensor({kOwner, "scores", "op.matmul.output"}, pairs, type, true);
    Operator product;
    product.label = "q k^T";
    product.inputs = {q, k};
    product.outputs = {raw};
    product.saved = {q, k};
    // Each gradient is a product, and then another tensor: that times the scale.
    const auto unscaled = [&] {
      return BackwardStep{BackwardStep::kPassing, 0,
                          graph_.temporary({kOwner, "gradient before it is scaled", kRule},
                                           c_.sizes.tokens * width, type)};
    };
    product.backward = {unscaled(), kGradient0, unscaled(), kGradient1};
    product.arithmetic = {Arithmetic::kProduct, plain(c_.sizes.sequence), plain(width / heads),
                          plain(c_.sizes.sequence), plain(c_.sizes.batch * heads)};
    graph_.add(product);
    const ValueId wide =
        c_.cast(raw, ElementType::kFloat32, {kOwner, "fp32 scores", "op.softmax.fp32-input"});
    const ValueId scores = how.causal ? masked(wide, pairs) : wide;
    ValueId probabilities = graph_.tensor({kOwner, "softmax", "op.softmax.saved-output"}, pairs,
                                          graph_.type(scores), true);
    Operator soften;
    soften.label = "softmax";
    soften.inputs = {scores};
    soften.outputs = {probabilities};
    soften.saved = {probabilities};
    soften.backward = {
        kGradient0,
        {BackwardStep::kTemporary, 0,
         graph_.temporary({kOwner, "gradient · softmax", "op.softmax.backward-product"}, pairs,
                          graph_.type(scores))}};
    graph_.add(soften);
    probabilities = c_.cast(probabilities, type, {kOwner, "probabilities", "op.softmax.cast-back"});
    graph_.hold(wide);
    probabilities = c_.dropout(probabilities, how.dropout, kOwner);
    const ValueId mixed = c_.weighted_values(probabilities, v, heads, width, type);
    const ValueId out = c_.laid_out(mixed, {kOwner, "output", "op.attention.transposed-copy"});
    graph_.hold(raw);
    if (c_.recomputed.core_attention) c_.recompute_from(begin);
    return out;
  }

 private:
  ValueId table(const char* name) {
    const N elements = c_.sizes.sequence * Workbook<N>::symbol("d", attention_.rotary_width);
    const ValueId raw =
        c_.made(name, {}, {kOwner, "table, fp32", kRule}, elements, ElementType::kFloat32);
    const ValueId scaled =
        c_.made("scale", {raw}, {kOwner, "table, scaled", kRule}, elements, ElementType::kFloat32);
    return c_.style.compute == ElementType::kFloat32
               ? scaled
               : c_.made("cast", {scaled}, {kOwner, "cos or sin", kRule}, elements,
                         c_.style.compute);
  }
  // triu of ones in fp32, as truths, which the masking keeps.
  ValueId masked(ValueId scores, const N& pairs) {
    const N square = c_.sizes.sequence * c_.sizes.sequence;
    const ValueId ones =
        c_.made("ones", {}, {kOwner, "ones", kRule}, square, ElementType::kFloat32);
    const ValueId upper = c_.made("triangle", {ones}, {kOwner, "upper triangle", kRule}, square,
                                  ElementType::kFloat32);
    const ValueId mask =
        c_.made("cast", {upper}, {kOwner, "mask", kRule}, square, ElementType::kBool);
    const ValueId y = graph_.view(scores, pairs);
    Operator fill;
    fill.label = "mask";
    fill.inputs = {scores, mask};
    fill.outputs = {y};
    fill.saved = {mask};
    fill.backward = {kGradient0};
    graph_.add(fill);
    return y;
  }

  Composer<N>& c_;
  Graph<N>& graph_;
  const GroupedAttention& attention_;
};

template <class N>
ValueId Composer<N>::local_attention(ValueId x, const GroupedAttention& attention, const N& query,
                                     const N& key_value, const N& heads) {
  LocalAttentionWriter<N> write(*this, attention);
  const Linear& product = attention.fused ? *attention.fused : *attention.query;
  const ValueId packed =
      column_linear(x, product, sizes.hidden, (query + N(2) * key_value) * sizes.tensor);
  const std::vector<ValueId> pieces =
      split(packed, {sizes.tokens * query, sizes.tokens * key_value, sizes.tokens * key_value},
            product.name.c_str());
  ValueId q = pieces[0], k = pieces[1];
  const bool grouped = attention.heads != attention.key_value_heads;
  // Heads of one group lie together, with their key and value behind them: as one row of heads they are a copy.
  if (grouped) q = laid_out(q, {kOwner, "q, contiguous", kRule});
  for (ValueId local : {packed, q}) hold_until_return(local);
  if (attention.rotary_width > 0) {
    q = write.turned(q, {kOwner, "q, rotated", "op.rotary.output"});
    k = write.turned(k, {kOwner, "k, rotated", "op.rotary.output"});
    for (ValueId local : {q, k}) hold_until_return(local);
  }
  CoreAttention how;
  how.dropout = style.attention_dropout;
  how.causal = attention.causal;
  return write.core(q, k, pieces[2], heads, query, grouped, how);
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
