// softmax(q k^T) v, as one kernel or written out.
//
//   flash      keeps q, k, v, out and one fp32 log-sum-exp per head and token
//   cudnn      the same; backward has one workspace for what flash has in parts
//   efficient  the same, k and v repeated to all heads, log-sum-exp padded to 32 tokens
//   eager      keeps q, k, v repeated to all heads, the fp32 softmax and its 16-bit copy: s x s for every head
#include <algorithm>

#include "operators/composer.h"

namespace steelyard {

namespace {
constexpr const char* kOwner = "attention";
}  // namespace

template <class N>
ValueId Composer<N>::core_attention(ValueId q, ValueId k, ValueId v, const N& heads,
                                    const N& key_value_heads, const N& query_width,
                                    const N& value_width, const CoreAttention& how) {
  const int begin = position();
  // Without a mask transformers hands grouped heads over as they are (sdpa_attention.py, use_gqa_in_sdpa); falcon always.
  const bool handed_over_grouped = style.attention == AttentionKernel::kEfficient &&
                                   plain(heads) != plain(key_value_heads) &&
                                   (!how.masked || how.one_key_value_head) &&
                                   style.implementation == Implementation::kTransformers;
  ValueId out;
  if (how.eager || style.attention == AttentionKernel::kEager)
    out = eager_attention(q, k, v, heads, key_value_heads, query_width, value_width, how);
  else if (handed_over_grouped)
    out = math_attention(q, k, v, heads, query_width, value_width, how);
  else
    out = style.context > 1
              ? context_attention(q, k, v, heads, key_value_heads, query_width, value_width, how)
              : flash_attention(q, k, v, heads, key_value_heads, query_width, value_width,
                                sizes.sequence, how);
  // The kernel's output lies in memory as the query does (empty_like): `transpose(1, 2).contiguous()` is then a copy.
  // What torch joins from the steps of a ring lies by heads.
  const bool joined_by_head = style.context > 1 && style.context_code == ContextCode::kTorch;
  if (joined_by_head || (how.query_by_head && style.attention != AttentionKernel::kEfficient))
    out = copy(out, {kOwner, "output, in token order", "op.attention.transposed-copy"});
  if (recomputed.core_attention) recompute_from(begin);
  return out;
}

// Autocast's list of 16-bit operators has the attention kernels and matrix products.
template <class N>
void Composer<N>::cast_for_kernel(ValueId& x, const char* name) {
  if (style.autocast) x = cast(x, style.compute, {kOwner, name, "autocast.input-cast"});
}

template <class N>
void Composer<N>::repeat_to_all_heads(ValueId& k, ValueId& v, const N& query_width,
                                      const N& value_width) {
  k = single("repeat", k, {kOwner, "k repeated to all heads", "op.repeat-kv.copy"},
             sizes.tokens * query_width, graph.type(k), {});
  v = single("repeat", v, {kOwner, "v repeated to all heads", "op.repeat-kv.copy"},
             sizes.tokens * value_width, graph.type(v), {});
}

// aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp, mha_fwd and mha_bwd; attention.cu for the efficient kernel.
template <class N>
ValueId Composer<N>::flash_attention(ValueId q, ValueId k, ValueId v, const N& heads,
                                     const N& key_value_heads, const N& query_width,
                                     const N& value_width, const N& sequence,
                                     const CoreAttention& how) {
  const bool efficient = style.attention == AttentionKernel::kEfficient;
  const bool cudnn = style.attention == AttentionKernel::kCudnn;
  const bool grouped = plain(heads) != plain(key_value_heads);
  const bool given_mask = is_handed_masks(style.attention) && how.masked &&
                          style.implementation == Implementation::kTransformers;
  const bool repeated = grouped && (efficient || given_mask);
  const ElementType type = style.compute;
  const N tokens = sizes.batch * sequence;
  // no grouped form in this kernel: transformers repeats k and v (integrations/sdpa_attention.py)
  if (repeated && plain(key_value_heads) == 1) {
    k = viewed("expand", k, tokens * query_width);
    v = viewed("expand", v, tokens * value_width);
  } else if (repeated) {
    repeat_to_all_heads(k, v, query_width, value_width);
  }
  cast_for_kernel(v, "v, cast");
  cast_for_kernel(k, "k, cast");
  cast_for_kernel(q, "q, cast");
  const ValueId out = graph.tensor({kOwner, "output", "op.attention.saved-output"},
                                   tokens * value_width, type, true);
  const N rows = efficient ? sizes.batch * heads * round_up(sequence, N(32)) : tokens * heads;
  const ValueId log_sum = graph.tensor({kOwner, "log-sum-exp", "op.attention.saved-log-sum-exp"},
                                       rows, ElementType::kFloat32, false);
  Operator operation;
  operation.label = efficient ? "efficient attention"
                    : cudnn   ? "cuDNN attention"
                              : "flash attention";
  operation.inputs = {q, k, v};
  operation.outputs = {out, log_sum};
  operation.saved = {q, k, v, out, log_sum};
  if (given_mask) {
    // The mask of truths becomes one of numbers, which the kernel keeps (attention.cpp, convert_boolean_attn_mask).
    const ValueId bias = graph.tensor({kOwner, "mask, as numbers", "op.efficient-attention.mask"},
                                      tokens * sequence, type, false);
    operation.outputs.push_back(bias);
    operation.saved.push_back(bias);
  }
  if (!efficient) {
    // random-number state, on the device even without dropout: two blocks
    const ValueId state = graph.tensor({kOwner, "random state", "op.flash-attention.random-state"},
                                       N(cudnn ? 1 : 2), ElementType::kInt64, false);
    const ValueId offset =
        graph.tensor({kOwner, "random offset", "op.flash-attention.random-state"}, N(1),
                     ElementType::kInt64, false);
    operation.outputs.push_back(state);
    operation.outputs.push_back(offset);
    operation.saved.push_back(state);
    operation.saved.push_back(offset);
  }
  operation.backward = {kGradient0, kGradient1, kGradient2};
  for (const BackwardStep& step : attention_workspaces(
           heads, repeated ? heads : key_value_heads, query_width, value_width, sequence, sequence))
    operation.backward.push_back(step);
  operation.arithmetic = {Arithmetic::kAttention,           plain(sequence),
                          plain(query_width / heads),       plain(sequence),
                          plain(tokens / sequence * heads), how.causal};
  operation.arithmetic.code = style.attention_code;
  // models/llama.py: zeros, a sum and a running sum of the mask for queries and for keys; queries and keys turned where
  // they lie; backward turns their gradients back, before and after the kernel itself
  if (style.implementation == Implementation::kNanotron && !efficient)
    operation.more_launches = {8, 4};
  graph.add(operation);
  return out;
}

template <class N>
Few<BackwardStep, 14> Composer<N>::attention_workspaces(const N& heads, const N& key_value_heads,
                                                        const N& query_width, const N& value_width,
                                                        const N& queries, const N& keys) {
  Few<BackwardStep, 14> steps;
  const auto temporary = [&](const char* name, const char* rule, const N& elements,
                             ElementType type) {
    steps.push_back(
        {BackwardStep::kTemporary, 0, graph.temporary({kOwner, name, rule}, elements, type)});
  };
  const N head_width = query_width / heads;
  if (style.attention == AttentionKernel::kEfficient) {
    constexpr const char* kRule = "op.efficient-attention.backward";
    const N rows = sizes.batch * queries * heads;
    temporary("row sums", kRule, rows, ElementType::kFloat32);
    if (style.compute == ElementType::kFloat32)
      steps.push_back(
          {BackwardStep::kPassing, 0,
           graph.temporary({kOwner, "output times its gradient, and sums", kRule},
                           sizes.batch * queries * value_width + rows, ElementType::kFloat32)});
    temporary("workspace", kRule, efficient_workspace(heads, head_width, queries, keys),
              ElementType::kFloat32);
    return steps;
  }
  if (style.attention == AttentionKernel::kCudnn) {
    temporary("workspace", "op.cudnn-attention.backward",
              cudnn_workspace(heads, key_value_heads, query_width, value_width, queries, keys),
              ElementType::kInt8);
    return steps;
  }
  const N padded = sizes.batch * round_up(queries, N(128));
  const N padded_width =
      plain(head_width) <= 128 ? round_up(head_width, N(32)) : round_up(head_width, N(64));
  temporary("row sums", "op.flash-attention.backward", padded * heads, ElementType::kFloat32);
  temporary("fp32 query gradient", "op.flash-attention.backward", padded * heads * padded_width,
            ElementType::kFloat32);
  if (plain(heads) != plain(key_value_heads)) {
    const N tokens = sizes.batch * keys;
    temporary("key gradient for all heads", "op.flash-attention.backward", tokens * query_width,
              style.compute);
    temporary("value gradient for all heads", "op.flash-attention.backward", tokens * value_width,
              style.compute);
  }
  return steps;
}

// Bytes, as cuDNN 9.19's plans ask for them on an H100 (truth/on-a-gpu/h100-attention-kernels.json, every 16-bit row): the
// gradient of the queries and a sum for each of their rows in fp32, keys' and values' gradients for all heads where they are
// grouped, and 256 bytes of its own.
template <class N>
N Composer<N>::cudnn_workspace(const N& heads, const N& key_value_heads, const N& query_width,
                               const N& value_width, const N& queries, const N& keys) {
  constexpr std::int64_t kOwn = 256, kWide = 4, kNarrow = 2;
  N bytes = sizes.batch * queries * (query_width + heads) * N(kWide) + N(kOwn);
  if (plain(heads) != plain(key_value_heads))
    bytes = bytes + sizes.batch * keys * (query_width + value_width) * N(kNarrow);
  return bytes;
}

// aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_backward.h, Params::workspace_size: blocks of queries by
// columns of a head in fp32, each behind 16 bytes. Heads wider than 128 in 16 bits have their keys' and values' gradients there
// too, once for each split of the keys (attention_backward.cu).
template <class N>
N Composer<N>::efficient_workspace(const N& heads, const N& head_width, const N& queries,
                                   const N& keys) {
  const std::int64_t width = plain(head_width);
  const bool half = style.compute != ElementType::kFloat32;
  // Devices of 100 KiB of shared memory a block run the small tiles alone.
  const bool large = width > 64 && style.threads_of_each == 2048;
  const N block(large ? 128 : 64);
  const N columns(large && half && width <= 128 ? 128 : 64);
  constexpr std::int64_t kHeader = 4;  // numbers
  const N pairs = sizes.batch * heads;
  N each = ceil_divide(queries, block) * ceil_divide(head_width, columns) *
           (N(kHeader) + block * columns);
  if (half && width > 128) {
    constexpr std::int64_t kFewPairs = 200;
    const std::int64_t splits = std::max<std::int64_t>(
        1, std::min(plain(ceil_divide(keys, columns)), kFewPairs / plain(pairs)));
    each = each + N(2 * splits) * columns * round_up(head_width, block);
  }
  return pairs * each;
}

// eager_attention_forward of transformers (modeling_llama.py): scores, mask, fp32 softmax, copy back, dropout, product.
template <class N>
ValueId Composer<N>::eager_attention(ValueId q, ValueId k, ValueId v, const N& heads,
                                     const N& key_value_heads, const N& query_width,
                                     const N& value_width, const CoreAttention& how) {
  const ElementType type = style.compute;
  if (plain(heads) != plain(key_value_heads)) repeat_to_all_heads(k, v, query_width, value_width);
  if (how.scores_in_float32) {
    q = cast(q, ElementType::kFloat32, {kOwner, "q, fp32", "op.attention.fp32-query-key"});
    k = cast(k, ElementType::kFloat32, {kOwner, "k, fp32", "op.attention.fp32-query-key"});
  }
  const ValueId wide_query = q, wide_key = k;
  cast_for_kernel(k, "k, cast");
  cast_for_kernel(q, "q, cast");
  const bool transformers = style.implementation == Implementation::kTransformers;
  const bool by_head = transformers && plain(sizes.batch) > 1;
  if (by_head) {
    // Heads of several sequences lie apart, and a product over all of them asks for copies; repeated ones are.
    q = laid_out(q, {kOwner, "q, by head", "op.attention.by-head"});
    if (plain(heads) == plain(key_value_heads))
      k = laid_out(k, {kOwner, "k, by head", "op.attention.by-head"});
  }
  const ElementType score_type = graph.type(q);
  const N pairs = sizes.tokens * sizes.sequence * heads;  // b·s·s·n
  const ValueId raw = graph.tensor({kOwner, "scores", "op.matmul.output"}, pairs, score_type, true);
  Operator product;
  product.label = "q k^T";
  product.inputs = {q, k};
  product.outputs = {raw};
  product.saved = {q, k};
  product.backward = {kGradient1, kGradient0};
  product.arithmetic = {Arithmetic::kProduct, plain(sizes.sequence), plain(query_width / heads),
                        plain(sizes.sequence), plain(sizes.batch * heads)};
  graph.add(product);
  if (style.fused_softmax) {
    // scale, mask and softmax are one kernel that keeps its 16-bit output (megatron/core/fusions/fused_softmax.py)
    ValueId fused =
        pointwise("scaled masked softmax", raw,
                  {kOwner, "softmax", "op.fused-softmax.saved-output"}, {.output = true});
    fused = dropout(fused, how.dropout, kOwner);
    return copy(weighted_values(fused, v, heads, value_width, type),
                {kOwner, "output", "op.attention.transposed-copy"});
  }
  // scaling's product scales (baddbmm), and its softmax stays in 16 bits (MaskedSoftmaxConfig.softmax_in_fp32); in runs of
  // before it was published it was in fp32.
  const bool scaling = style.implementation == Implementation::kScaling;
  ValueId scores = scaling ? raw : scale(raw, {kOwner, "scaled scores", "op.scale"});
  if (how.softcap) {
    scores = scale(scores, {kOwner, "scores / cap", "op.scale"});
    scores = pointwise("tanh", scores, {kOwner, "tanh(scores)", "op.tanh.saved-output"},
                       {.output = true});
    scores = scale(scores, {kOwner, "capped scores", "op.scale"});
  }
  // The mask is of the residual stream's type, and a sum promotes.
  const ElementType masked_type =
      bits_of(style.residual) > bits_of(graph.type(scores)) ? style.residual : graph.type(scores);
  if (how.causal)
    scores =
        single("mask", scores, {kOwner, "masked scores", "op.mask.add"}, pairs, masked_type, {});
  const ValueId masked = scores;
  N columns = pairs;
  if (how.sinks_index >= 0) {
    columns = sizes.tokens * heads * (sizes.sequence + N(1));
    scores = with_sinks(scores, columns, sizes.tokens * heads, how.sinks_index, heads);
  } else if (how.softmax_as_given ? style.autocast : !scaling || style.older_norms) {
    scores = cast(scores, ElementType::kFloat32, {kOwner, "fp32 scores", "op.softmax.fp32-input"});
  }
  ValueId probabilities =
      single("softmax", scores, {kOwner, "softmax", "op.softmax.saved-output"}, columns,
             graph.type(scores), {.output = true}, {softmax_product(columns, graph.type(scores))});
  if (how.sinks_index >= 0) {
    const ValueId without = graph.view(probabilities, pairs);
    Operator drop;
    drop.label = "without the sink column";
    drop.inputs = {probabilities};
    drop.outputs = {without};
    drop.backward = {kGradient0};  // zeros of the whole, the part copied in
    graph.add(drop);
    probabilities = without;
  }
  if (!how.softmax_as_given)
    probabilities = cast(probabilities, type, {kOwner, "probabilities", "op.softmax.cast-back"});
  if (!how.scores_in_float32) graph.hold(masked);  // until its name passes to the probabilities
  probabilities = dropout(probabilities, how.dropout, kOwner);
  if (transformers) attention_weights = probabilities;
  cast_for_kernel(v, "v, cast");
  if (by_head && plain(heads) == plain(key_value_heads))
    v = laid_out(v, {kOwner, "v, by head", "op.attention.by-head"});
  if (how.softmax_as_given) cast_for_kernel(probabilities, "probabilities, cast");
  const ValueId mixed = weighted_values(probabilities, v, heads, value_width, type);
  if (how.scores_in_float32)
    for (ValueId local : {wide_query, wide_key}) graph.hold(local);
  const ValueId out = copy(mixed, {kOwner, "output", "op.attention.transposed-copy"});
  if (how.sinks_index >= 0) graph.hold(scores);
  return out;
}

// gpt_oss: one more column of scores, and the largest of each row taken off all (its place is kept for backward).
template <class N>
ValueId Composer<N>::with_sinks(ValueId scores, const N& columns, const N& rows, int sinks_index,
                                const N& heads) {
  const ElementType type = graph.type(scores);
  const SlotName name{kOwner, "scores with the sink column", "op.attention.sinks"};
  const ValueId joined = graph.tensor(name, columns, type, true);
  Operator join;
  join.label = "concatenate";
  join.inputs = {scores};
  join.outputs = {joined};
  join.backward = {{BackwardStep::kAliasGradient, 0, -1},
                   {BackwardStep::kParameterGradient, uncast_parameter(sinks_index, heads), -1}};
  graph.add(join);
  const ValueId place = graph.tensor({kOwner, "place of the largest score", "op.attention.sinks"},
                                     rows, ElementType::kInt64, false);
  const ValueId largest =
      graph.tensor({kOwner, "largest score", "op.attention.sinks"}, rows, type, true);
  Operator maximum;
  maximum.label = "maximum";
  maximum.inputs = {joined};
  maximum.outputs = {largest, place};
  maximum.saved = {place};
  maximum.backward = {kGradient0};
  graph.add(maximum);
  const ValueId shifted =
      graph.tensor({kOwner, "scores below the largest", "op.attention.sinks"}, columns, type, true);
  Operator subtract;
  subtract.label = "subtract";
  subtract.inputs = {joined, largest};
  subtract.outputs = {shifted};
  subtract.backward = {{BackwardStep::kAliasGradient, 0, -1}, kGradient1};
  graph.add(subtract);
  return shifted;
}

template <class N>
ValueId Composer<N>::weighted_values(ValueId probabilities, ValueId v, const N& heads,
                                     const N& value_width, ElementType type) {
  const ValueId mixed = graph.tensor({kOwner, "output by head", "op.matmul.output"},
                                     sizes.tokens * value_width, type, true);
  Operator mix;
  mix.label = "probabilities v";
  mix.inputs = {probabilities, v};
  mix.outputs = {mixed};
  mix.saved = {probabilities, v};
  mix.backward = {kGradient1, kGradient0};
  mix.arithmetic = {Arithmetic::kProduct, plain(sizes.sequence), plain(sizes.sequence),
                    plain(value_width / heads), plain(sizes.batch * heads)};
  graph.add(mix);
  return mixed;
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
