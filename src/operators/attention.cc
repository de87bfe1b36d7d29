// Grouped-query attention: projections, norms of q and k, rotary embedding, core attention, output projection.
#include <variant>

#include "operators/composer.h"

namespace steelyard {

namespace {

template <class N>
struct Widths {
  N heads, key_value_heads, head, query, key_value;
};

template <class N>
Widths<N> widths_of(const GroupedAttention& attention, const N& hidden) {
  using Book = Workbook<N>;
  Widths<N> widths;
  widths.heads = Book::symbol("n", attention.heads);
  widths.key_value_heads = Book::symbol("m", attention.key_value_heads);
  widths.head = Book::symbol("d", attention.head_width);
  const std::int64_t query = attention.heads * attention.head_width;
  widths.query = query == plain(hidden) ? hidden : Book::symbol("a", query);
  widths.key_value = Book::symbol("k", attention.key_value_heads * attention.head_width);
  return widths;
}

}  // namespace

template <class N>
ValueId Composer<N>::attention(ValueId x, const GroupedAttention& attention) {
  if (attention.relative) return relative_attention(x, attention, false);
  const Widths<N> widths = widths_of<N>(attention, sizes.hidden);
  // Key/value heads that tensor parallelism cannot divide are replicated.
  const std::int64_t copies =
      style.tensor > attention.key_value_heads ? style.tensor / attention.key_value_heads : 1;
  const N query = widths.query / sizes.tensor;
  const N key_value = widths.key_value * N(copies) / sizes.tensor;
  const N heads = widths.heads / sizes.tensor;
  const N key_value_heads = widths.key_value_heads * N(copies) / sizes.tensor;
  const bool transformers = style.implementation == Implementation::kTransformers;
  const bool rotary_on = attention.rotary_width > 0;

  x = gathered(x, sizes.hidden, "attention");
  if (style.implementation == Implementation::kNanotron && rotary_on && !attention.query_norm)
    return row_linear(nanotron_attention(x, attention, query, key_value, heads, key_value_heads),
                      attention.output, widths.query, sizes.hidden);
  if (style.implementation == Implementation::kLitgpt && rotary_on && !attention.query_norm) {
    const ValueId y =
        row_linear(litgpt_attention(x, attention, query, key_value, heads, key_value_heads),
                   attention.output, widths.query, sizes.hidden);
    return_locals();
    return y;
  }
  if (style.implementation == Implementation::kTorchtune) {
    const ValueId y =
        row_linear(torchtune_attention(x, attention, query, key_value, heads, key_value_heads),
                   attention.output, widths.query, sizes.hidden);
    return_locals();
    return y;
  }
  if (style.local_layers && !attention.query_norm) {
    const ValueId y = row_linear(local_attention(x, attention, query, key_value, heads),
                                 attention.output, widths.query, sizes.hidden);
    return_locals();
    return y;
  }
  ValueId q = kNoValue, k = kNoValue, v = kNoValue, gate = kNoValue;
  if (attention.fused) {
    const ValueId packed = column_linear(x, *attention.fused, sizes.hidden,
                                         widths.query + N(2) * widths.key_value * N(copies));
    split_fused(packed, attention, query, key_value, q, k, v);
    if (transformers) hold_until_return(packed);
  } else if (packs_projections(attention)) {
    // One product, whatever the checkpoint stores (megatron/core/transformer/attention.py, linear_qkv; scaling, qkv_in_one).
    const ValueId packed = column_linear(x, *attention.query, sizes.hidden,
                                         widths.query + N(2) * widths.key_value * N(copies));
    split_fused(packed, attention, query, key_value, q, k, v);
  } else {
    q = column_linear(x, *attention.query, sizes.hidden,
                      attention.output_gate ? N(2) * widths.query : widths.query);
    if (attention.output_gate) {
      // Query and gate of each head stand beside one another; the gate is copied out (modeling_qwen3_5.py).
      const auto parts = split(q, {sizes.tokens * query, sizes.tokens * query}, "attention");
      q = parts[0];
      gate = copy(parts[1], {"attention", "gate", "op.attention.output-gate"});
    }
    k = column_linear(x, *attention.key, sizes.hidden, widths.key_value * N(copies));
    v = column_linear(x, *attention.value, sizes.hidden, widths.key_value * N(copies));
  }
  const auto normalise_heads = [&] {
    const N query_rows = attention.norm_over_whole_projection ? sizes.tokens : sizes.tokens * heads;
    const N key_rows =
        attention.norm_over_whole_projection ? sizes.tokens : sizes.tokens * key_value_heads;
    q = normalise(q, *attention.query_norm, query_rows,
                  attention.norm_over_whole_projection ? query : widths.head);
    k = normalise(k, *attention.key_norm, key_rows,
                  attention.norm_over_whole_projection ? key_value : widths.head);
  };
  if (attention.query_norm && !attention.norms_after_rotary) normalise_heads();
  if (rotary_on) {
    const ValueId raw_query = q, raw_key = k;
    if (style.liger) {
      q = rotary_in_place(q);
      k = rotary_in_place(k);
      graph.hold(raw_query);
      graph.hold(raw_key);
    } else if (transformers && !style.compiled) {
      q = reshaped(q, true);
      k = reshaped(k, true);
      rotary(q, k, attention);
      graph.hold(raw_query);
      graph.hold(raw_key);
    } else if (style.implementation == Implementation::kScaling) {
      rotary(q, k, attention);
    } else {
      q = scale(q, {"attention", "q, rotated", "op.fused-rotary.output"});
      k = scale(k, {"attention", "k, rotated", "op.fused-rotary.output"});
    }
  }
  if (attention.query_norm && attention.norms_after_rotary) normalise_heads();
  if (attention.query_scaled_by_position && transformers) q = scaled_by_position(q);
  // Turned queries and keys are tensors of their own; the values are still a part of the product, and the kernel takes a
  // copy (transformer_engine/pytorch/attention/dot_product_attention/utils.py, get_qkv_layout).
  if (rotary_on && packs_projections(attention) &&
      style.implementation == Implementation::kMegatron)
    v = copy(v, {"attention", "v, contiguous", "op.attention.contiguous-values"});
  if (transformers)
    for (ValueId local : {q, k, v}) hold_until_return(local);
  CoreAttention how;
  how.dropout = style.attention_dropout;
  how.causal = attention.causal;
  how.masked = attention.always_masked ||
               (attention.sliding_window && plain(sizes.sequence) > *attention.sliding_window);
  how.one_key_value_head = attention.one_key_value_head && transformers;
  how.eager = attention.eager_only && transformers;
  how.softcap = attention.score_softcap.has_value();
  if (attention.sinks) how.sinks_index = attention.sinks_index;
  how.scores_in_float32 = attention.scores_in_float32 && transformers;
  how.softmax_as_given = attention.softmax_as_given && transformers;
  how.query_by_head = transformers && rotary_on && attention.rotary_width < attention.head_width;
  ValueId mixed =
      core_attention(q, k, v, heads, attention.always_repeats_key_value ? heads : key_value_heads,
                     query, query, how);
  // scaling joins sequences and heads for a moment, and parts them again: of several sequences these are copies.
  if (style.implementation == Implementation::kScaling &&
      style.attention != AttentionKernel::kEager && plain(sizes.batch) > 1)
    for (const char* name : {"output, by head", "output, in token order"})
      mixed = copy(mixed, {"attention", name, "op.attention.transposed-copy"});
  if (gate != kNoValue) {
    const ValueId open =
        pointwise("sigmoid", gate, {"attention", "sigmoid(gate)", "op.sigmoid.saved-output"},
                  {.output = true});
    mixed = multiply(mixed, open, {"attention", "gated output", "op.attention.output-gate"});
    if (transformers) hold_until_return(gate);
  }
  const ValueId y = row_linear(mixed, attention.output, widths.query, sizes.hidden);
  return_locals();
  return y;
}

// 1 + beta log(1 + floor(position / length)), in the type of the query, which the product keeps (modeling_ministral3.py,
// get_llama_4_attn_scale).
template <class N>
ValueId Composer<N>::scaled_by_position(ValueId q) {
  const char* rule = "op.attention.position-scale";
  const ValueId factors = made("factors", {}, {"attention", "factor of each position", rule},
                               sizes.sequence, graph.type(q));
  const ValueId y = graph.tensor({"attention", "q, scaled", rule}, graph.elements(q), graph.type(q),
                                 graph.needs_gradient(q));
  Operator operation;
  operation.label = "multiply";
  operation.inputs = {q, factors};
  operation.outputs = {y};
  operation.saved = {factors};
  operation.backward = {kGradient0};
  graph.add(operation);
  return y;
}

// Whether separate projections of a checkpoint are one product in the engine's code.
template <class N>
bool Composer<N>::packs_projections(const GroupedAttention& attention) const {
  const bool grouped = attention.heads != attention.key_value_heads;
  return !attention.fused && (style.implementation == Implementation::kMegatron ||
                              (style.implementation == Implementation::kScaling && !grouped));
}

template <class N>
void Composer<N>::split_fused(ValueId packed, const GroupedAttention& attention, const N& query,
                              const N& key_value, ValueId& q, ValueId& k, ValueId& v) {
  const char* owner = (attention.fused ? *attention.fused : *attention.query).name.c_str();
  if (!attention.one_key_value_head || style.implementation != Implementation::kTransformers) {
    const std::vector<ValueId> pieces = split(
        packed, {sizes.tokens * query, sizes.tokens * key_value, sizes.tokens * key_value}, owner);
    q = pieces[0];
    k = pieces[1];
    v = pieces[2];
    return;
  }
  Operator slice;
  slice.label = "slice";
  q = graph.view(packed, sizes.tokens * query);
  slice.inputs = {packed};
  slice.outputs = {q};
  slice.backward = {{BackwardStep::kInputGradient, 0, -1}};
  graph.add(slice);
  const auto indexed = [&](const char* name) {
    const ValueId y = graph.tensor({"attention", name, "op.falcon.indexed-head"},
                                   sizes.tokens * key_value, style.compute, true);
    const ValueId index = graph.tensor({"attention", "index of the head", "op.falcon.indexed-head"},
                                       N(1), ElementType::kInt64, false);
    Operator operation;
    operation.label = "index";
    operation.inputs = {packed};
    operation.outputs = {y, index};
    operation.saved = {index};
    operation.backward = {{BackwardStep::kInputGradient, 0, -1}};
    graph.add(operation);
    return y;
  };
  k = indexed("k, indexed");
  v = indexed("v, indexed");
}

// nanotron's CausalSelfAttention (models/llama.py): one packed product, copies into the layout of flash attention, rotary
// embedding in place. With as many key/value heads as query heads the query stays a view of a copy of all three, which
// is kept whole for its sake.
template <class N>
ValueId Composer<N>::nanotron_attention(ValueId x, const GroupedAttention& attention,
                                        const N& query_width, const N& key_value_width,
                                        const N& heads, const N& key_value_heads) {
  const Linear& product = attention.fused ? *attention.fused : *attention.query;
  const ValueId packed = column_linear(x, product, sizes.hidden,
                                       (query_width + N(2) * key_value_width) * sizes.tensor);
  auto copied = [&](ValueId from, const char* name, const char* rule, const N& width,
                    Few<SlotId, 6> passing) {
    const ValueId y =
        graph.tensor({"attention", name, rule}, sizes.tokens * width, style.compute, true);
    Operator operation;
    operation.label = "copy";
    operation.inputs = {from};
    operation.outputs = {y};
    operation.passing = passing;
    operation.backward = {{BackwardStep::kInputGradient, 0, -1}};
    graph.add(operation);
    return y;
  };
  ValueId q;
  Few<SlotId, 6> passing;
  ValueId key_value_source = packed;
  if (attention.heads == attention.key_value_heads) {
    const ValueId all = copied(packed, "q, k and v, permuted",
                               "op.nanotron-attention.permuted-copy", N(3) * query_width, {});
    const std::vector<ValueId> parts =
        split(all, {sizes.tokens * query_width, sizes.tokens * N(2) * query_width}, "attention");
    q = parts[0];
    key_value_source = parts[1];
  } else {
    q = copied(packed, "q, contiguous", "op.nanotron-attention.query-copy", query_width, {});
    const N both = sizes.tokens * N(2) * key_value_width;
    passing = {
        graph.temporary(
            {"attention", "k and v, contiguous", "op.nanotron-attention.key-value-copy"}, both,
            style.compute),
        graph.temporary({"attention", "k and v, joined", "op.nanotron-attention.key-value-copy"},
                        both, style.compute)};
  }
  const ValueId key_value =
      copied(key_value_source, "k and v, rotated", "op.nanotron-attention.key-value-copy",
             N(2) * key_value_width, passing);
  const std::vector<ValueId> parts = split(
      key_value, {sizes.tokens * key_value_width, sizes.tokens * key_value_width}, "attention");
  CoreAttention how;
  how.dropout = style.attention_dropout;
  how.causal = attention.causal;
  const ValueId mixed =
      core_attention(q, parts[0], parts[1], heads, key_value_heads, query_width, query_width, how);
  ValueId output = mixed;
  if (plain(sizes.batch) > 1 && !style.sequence_parallel) {
    // The residual stream is [s, b, h]: several sequences' outputs cannot be folded into its rows without a copy, which
    // the output projection keeps. With sequence parallelism the asynchronous product takes the view.
    output = graph.tensor({"attention", "output, in token order", "op.attention.transposed-copy"},
                          sizes.tokens * query_width, style.compute, true);
    Operator fold;
    fold.label = "fold";
    fold.inputs = {mixed};
    fold.outputs = {output};
    fold.backward = {{BackwardStep::kAliasGradient, 0, -1}};
    graph.add(fold);
  }
  graph.hold(packed);  // a local of the module's forward until it returns
  return output;
}

// DeepSeek: queries and keys/values pass through low-rank latents; q, k and v are then built at full width.
template <class N>
ValueId Composer<N>::attention(ValueId x, const LatentAttention& attention) {
  using Book = Workbook<N>;
  const N heads = Book::symbol("n", attention.heads) / sizes.tensor;
  const N query_rank = Book::symbol("rq", attention.query_rank);
  const N latent_rank = Book::symbol("rk", attention.key_value_rank);
  const N plain_width = Book::symbol("dn", attention.plain_width);
  const N rotary_width = Book::symbol("dr", attention.rotary_width);
  const N value_head = Book::symbol("dv", attention.value_width);
  const N all_heads = Book::symbol("n", attention.heads);
  const N query = heads * (plain_width + rotary_width);
  const N value = heads * value_head;

  ValueId q;
  if (attention.query_down) {
    ValueId latent = linear(x, *attention.query_down, sizes.shard_tokens, sizes.hidden, query_rank);
    latent = normalise(latent, *attention.query_norm, sizes.shard_tokens, query_rank);
    q = column_linear(gathered(latent, query_rank, "attention"), *attention.query_up, query_rank,
                      all_heads * (plain_width + rotary_width));
  } else {
    q = column_linear(gathered(x, sizes.hidden, "attention"), *attention.query, sizes.hidden,
                      all_heads * (plain_width + rotary_width));
  }
  const ValueId compressed = linear(x, attention.key_value_down, sizes.shard_tokens, sizes.hidden,
                                    latent_rank + rotary_width);
  const std::vector<ValueId> parts =
      split(compressed, {sizes.shard_tokens * latent_rank, sizes.shard_tokens * rotary_width},
            attention.key_value_down.name.c_str());
  const ValueId latent =
      normalise(parts[0], attention.key_value_norm, sizes.shard_tokens, latent_rank);
  const ValueId expanded =
      column_linear(gathered(latent, latent_rank, "attention"), attention.key_value_up, latent_rank,
                    all_heads * (plain_width + value_head));
  const std::vector<ValueId> key_value =
      split(expanded, {sizes.tokens * heads * plain_width, sizes.tokens * value},
            attention.key_value_up.name.c_str());

  // The rotary part is turned, then joined with the plain part: q and k are new tensors of full width.
  auto joined = [&](ValueId plain_part, ValueId rotary_part, const char* name) {
    const ValueId whole = graph.tensor({"attention", name, "op.latent-attention.concatenated"},
                                       sizes.tokens * query, style.compute, true);
    Operator join;
    join.label = "concatenate";
    join.inputs = {plain_part, rotary_part};
    join.outputs = {whole};
    join.backward = {{BackwardStep::kInputGradient, 0, -1}, {BackwardStep::kInputGradient, 1, -1}};
    graph.add(join);
    return whole;
  };
  const std::vector<ValueId> query_parts = split(
      q, {sizes.tokens * heads * plain_width, sizes.tokens * heads * rotary_width}, "attention");
  const ValueId query_rotated =
      scale(query_parts[1], {"attention", "q rotary part, rotated", "op.rotary.output"});
  const ValueId key_rotated =
      scale(parts[1], {"attention", "k rotary part, rotated", "op.rotary.output"});
  const ValueId full_query = joined(query_parts[0], query_rotated, "q");
  const ValueId full_key = joined(key_value[0], key_rotated, "k");
  CoreAttention how;
  how.dropout = style.attention_dropout;
  how.query_by_head = style.implementation == Implementation::kTransformers;
  const ValueId mixed =
      core_attention(full_query, full_key, key_value[1], heads, heads, query, value, how);
  return row_linear(mixed, attention.output, all_heads * value_head, sizes.hidden);
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
