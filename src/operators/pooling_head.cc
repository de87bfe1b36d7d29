// SigLIP's pooling head: one learned query looks over the patches of an image, and what it has found passes a feed-forward network.
//
//   patches ── transposed, kept ── keys and values ── copied apart, kept ──┐
//   probe, once for each image, kept ── query ── scaled, kept ── scores ── softmax, kept ── row ── norm, feed-forward ── + row
//
// Sources: transformers models/siglip/modeling_siglip.py, SiglipMultiheadAttentionPoolingHead (5.17); torch.nn.functional,
// multi_head_attention_forward and _in_projection_packed (2.11).
#include <tuple>
#include <utility>

#include "operators/ends.h"

namespace steelyard {

namespace {

constexpr const char* kOwner = "pooling head";

template <class N>
class PoolingWriter {
 public:
  PoolingWriter(Composer<N>& composer, const PoolingHead& head, const Sizes<N>& tower)
      : c_(composer),
        graph_(composer.graph),
        head_(head),
        tower_(tower),
        type_(composer.style.compute),
        row_(tower.batch * tower.hidden),
        whole_(tower.tokens * tower.hidden) {}

  ValueId write(ValueId patches) {
    const ValueId probe = repeated();
    packed();
    const ValueId query = product(probe, query_weight_, query_bias_, tower_.batch, N(1));
    const ValueId both = keys_and_values(patches);
    const ValueId keys = c_.viewed("select", both, whole_);
    const ValueId values = c_.reshaped(c_.viewed("select", both, whole_), true);
    const ValueId found = looked_up(query, keys, values);
    const ValueId hidden =
        c_.linear(found, head_.output, tower_.batch, tower_.hidden, tower_.hidden);
    // The weights, averaged over the heads, are the module's second answer.
    c_.made("mean", {probabilities_}, {kOwner, "scores, averaged", "op.pooling-head.averaged"},
            tower_.tokens, type_);
    graph_.hold(query);
    const ValueId normalised = c_.normalise(hidden, head_.norm, tower_.batch, tower_.hidden);
    const N width = Workbook<N>::symbol("f", head_.mlp.width);
    ValueId inner = c_.linear(normalised, *head_.mlp.up, tower_.batch, tower_.hidden, width);
    inner = c_.activate(inner, head_.mlp.activation, head_.mlp.up->name.c_str());
    const ValueId out = c_.linear(inner, head_.mlp.down, tower_.batch, width, tower_.hidden);
    const ValueId sum = c_.add(hidden, out, {kOwner, "output", "op.add"});
    for (const ValueId local : {normalised, probe, hidden}) graph_.hold(local);
    return c_.viewed("select", sum, row_);
  }

 private:
  ValueId tensor(const char* name, const char* rule, const N& elements, ElementType type) {
    return graph_.tensor({kOwner, name, rule}, elements, type, true);
  }
  ValueId cast(ValueId x, const char* name, const char* rule) {
    return c_.style.autocast ? c_.cast(x, type_, {kOwner, name, rule}) : x;
  }

  ValueId repeated() {
    const ValueId probe =
        tensor("query of each image", "op.pooling-head.query", row_, c_.style.residual);
    Operator repeat;
    repeat.label = "repeat";
    repeat.outputs = {probe};
    repeat.backward = {{BackwardStep::kParameterGradient,
                        c_.uncast_parameter(head_.probe_index, tower_.hidden), -1}};
    graph_.add(repeat);
    return probe;
  }

  // Views of one tensor, whose gradients are joined into one.
  std::pair<ValueId, ValueId> parts(int index, const N& of_query) {
    const ValueId leaf =
        graph_.input(c_.book.slot({kOwner, "packed projections", "op.pooling-head.packed"},
                                  Pile::kTemporary, N(3) * of_query, c_.style.residual),
                     N(3) * of_query, c_.style.residual, false, false);
    const ValueId query = graph_.view(leaf, of_query), rest = graph_.view(leaf, N(2) * of_query);
    Operator split;
    split.label = "split";
    split.outputs = {query, rest};
    split.backward = {
        {BackwardStep::kParameterGradient, c_.uncast_parameter(index, N(3) * of_query), -1}};
    graph_.add(split);
    if (graph_.needs_gradient(query)) graph_.ask_gradient(rest);
    return {query, rest};
  }
  void packed() {
    std::tie(query_weight_, other_weight_) =
        parts(head_.packed_index, tower_.hidden * tower_.hidden);
    std::tie(query_bias_, other_bias_) = parts(head_.packed_bias_index, tower_.hidden);
  }

  // `times` the hidden width wide.
  ValueId product(ValueId x, ValueId weight, ValueId bias, const N& rows, const N& times) {
    constexpr const char* kCast = "autocast.weight-cast";
    bias = cast(bias, "bias, cast", kCast);
    weight = cast(weight, "weight, cast", kCast);
    x = cast(x, "input, cast", "autocast.input-cast");
    const bool lies_apart = plain(times) > 1;
    if (lies_apart && plain(tower_.batch) > 1)
      x = c_.laid_out(x, {kOwner, "patches, by token", "op.pooling-head.by-token"});
    const N width = times * tower_.hidden;
    const ValueId y =
        tensor(lies_apart ? "keys and values" : "query", "op.linear.output", rows * width, type_);
    Operator operation;
    operation.label = "linear";
    operation.inputs = {x, weight, bias};
    operation.outputs = {y};
    operation.saved = {x};
    if (c_.style.autocast) operation.saved.push_back(weight);
    operation.arithmetic = {Arithmetic::kProduct, plain(rows), plain(tower_.hidden), plain(width)};
    if (lies_apart) {
      // A product and a sum: the bias's gradient first.
      operation.backward = {kGradient2};
      c_.sum_rows(operation, kOwner, rows, width);
      operation.backward.push_back({BackwardStep::kFreeTemporaries, 0, -1});
      operation.backward.push_back(kGradient1);
      operation.backward.push_back(kGradient0);
    } else {
      operation.backward = {kGradient0, kGradient1, kGradient2};
      c_.sum_rows(operation, kOwner, rows, width);
    }
    graph_.add(operation);
    return y;
  }

  ValueId keys_and_values(ValueId patches) {
    const ValueId both = product(patches, other_weight_, other_bias_, tower_.tokens, N(2));
    return c_.copy(both, {kOwner, "keys and values, apart", "op.pooling-head.apart"});
  }

  ValueId looked_up(ValueId query, ValueId keys, ValueId values) {
    const N heads = Workbook<N>::symbol("n", head_.heads);
    const N pairs = tower_.tokens * heads;
    const ValueId scaled = c_.scale(query, {kOwner, "query, scaled", "op.scale"});
    const ValueId scores = tensor("scores", "op.matmul.output", pairs, type_);
    const auto product_of = [&](const char* label, ValueId x, ValueId y, ValueId result,
                                std::int64_t inner, std::int64_t columns) {
      Operator operation;
      operation.label = label;
      operation.inputs = {x, y};
      operation.outputs = {result};
      operation.saved = {x, y};
      operation.backward = {kGradient1, kGradient0};
      operation.arithmetic = {Arithmetic::kProduct, 1, inner, columns, plain(tower_.batch * heads)};
      graph_.add(operation);
    };
    const std::int64_t tokens = plain(tower_.sequence), head_width = plain(tower_.hidden / heads);
    product_of("q k^T", scaled, keys, scores, head_width, tokens);
    const ValueId wide = c_.style.autocast
                             ? c_.cast(scores, ElementType::kFloat32,
                                       {kOwner, "fp32 scores", "autocast.fp32-operator"})
                             : scores;
    const ValueId softmax = tensor("softmax", "op.softmax.saved-output", pairs, graph_.type(wide));
    Operator normalise;
    normalise.label = "softmax";
    normalise.inputs = {wide};
    normalise.outputs = {softmax};
    normalise.saved = {softmax};
    normalise.backward = {
        kGradient0,
        {BackwardStep::kTemporary, 0,
         graph_.temporary({kOwner, "gradient · softmax", "op.softmax.backward-product"}, pairs,
                          graph_.type(wide))}};
    graph_.add(normalise);
    graph_.hold(scores);  // until its name passes to the softmax
    probabilities_ = cast(softmax, "probabilities", "autocast.input-cast");
    const ValueId found = tensor("what the query finds", "op.matmul.output", row_, type_);
    product_of("probabilities v", probabilities_, values, found, tokens, head_width);
    return found;
  }

  Composer<N>& c_;
  Graph<N>& graph_;
  const PoolingHead& head_;
  const Sizes<N>& tower_;
  const ElementType type_;
  const N row_, whole_;
  ValueId query_weight_ = kNoValue, other_weight_ = kNoValue, query_bias_ = kNoValue,
          other_bias_ = kNoValue, probabilities_ = kNoValue;
};

}  // namespace

template <class N>
ValueId compose_pooling_head(Composer<N>& composer, const PoolingHead& head, const Sizes<N>& tower,
                             ValueId patches) {
  return PoolingWriter<N>(composer, head, tower).write(patches);
}

template ValueId compose_pooling_head(Composer<Checked>&, const PoolingHead&, const Sizes<Checked>&,
                                      ValueId);
template ValueId compose_pooling_head(Composer<Traced>&, const PoolingHead&, const Sizes<Traced>&,
                                      ValueId);

}  // namespace steelyard
