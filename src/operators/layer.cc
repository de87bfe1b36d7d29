// A layer: attention and mlp around the residual stream, in the six arrangements that models use.
#include <variant>

#include "operators/composer.h"

namespace steelyard {

namespace {

template <class N>
class LayerWriter {
 public:
  LayerWriter(Composer<N>& composer, const Layer& layer) : composer_(composer), layer_(layer) {}

  ValueId attend(ValueId x) {
    composer_.graph.enter(LayerPart::kAttention);
    const ValueId y = std::visit(
        [&](const auto& attention) { return composer_.attention(x, attention); }, layer_.attention);
    hold_argument(x);
    return scaled(composer_.dropout(y, composer_.style.residual_dropout, "attention"), "attention");
  }
  ValueId feed(ValueId x) {
    composer_.graph.enter(feeding());
    const ValueId y =
        std::visit([&](const auto& mlp) { return composer_.mlp(x, mlp); }, layer_.mlp);
    hold_argument(x);
    return scaled(composer_.dropout(y, composer_.style.residual_dropout, "mlp"), "mlp");
  }
  ValueId norm(std::size_t index, ValueId x) {
    const bool of_attention = 2 * index < layer_.norms.size();
    composer_.graph.enter(of_attention ? LayerPart::kAttention : feeding());
    return composer_.normalise(x, layer_.norms.at(index), composer_.sizes.shard_tokens,
                               composer_.sizes.hidden);
  }
  // T5's sublayers, each a module with its norm: it has names for what that gave (the feed-forward network's is reused) and
  // for what went into the dropout, until it returns.
  ValueId sublayer(ValueId x, const Norm& norm_before, const GroupedAttention& attention,
                   bool cross) {
    const ValueId normalised =
        composer_.normalise(x, norm_before, composer_.sizes.shard_tokens, composer_.sizes.hidden);
    return summed(x, composer_.relative_attention(normalised, attention, cross), normalised);
  }
  ValueId fed(ValueId x) {
    const ValueId normalised = norm(1, x);
    const ValueId y =
        std::visit([&](const auto& mlp) { return composer_.mlp(normalised, mlp); }, layer_.mlp);
    hold_argument(normalised);
    return summed(x, y, kNoValue);
  }
  ValueId add(ValueId x, ValueId y) {
    const ValueId sum = composer_.add(x, y, {"residual", "hidden states", "op.residual.sum"});
    if (unscaled_ != kNoValue) hold_argument(unscaled_);
    unscaled_ = kNoValue;
    return sum;
  }

 private:
  LayerPart feeding() const {
    return std::holds_alternative<ExpertMlp>(layer_.mlp) ? LayerPart::kRouter : LayerPart::kMlp;
  }
  // The name that the layer has for what the sublayer gave is the sum's only afterwards.
  ValueId scaled(ValueId y, const char* owner) {
    if (!layer_.scaled_sublayers) return y;
    const ValueId product = composer_.scale(y, {owner, "output, scaled", "op.scale"});
    unscaled_ = y;
    return product;
  }
  ValueId summed(ValueId x, ValueId y, ValueId normalised) {
    const ValueId sum = add(x, composer_.dropout(y, composer_.style.residual_dropout, "sublayer"));
    composer_.graph.hold(y);
    if (normalised != kNoValue) composer_.graph.hold(normalised);
    return sum;
  }
  // transformers' layers have one name for what goes into a module and what comes out of it.
  void hold_argument(ValueId x) {
    if (composer_.style.implementation == Implementation::kTransformers) composer_.graph.hold(x);
  }

  Composer<N>& composer_;
  const Layer& layer_;
  ValueId unscaled_ = kNoValue;  // what a sublayer gave, before it was scaled
};

template <class N>
ValueId arranged(Composer<N>& composer, const Layer& layer, ValueId x) {
  LayerWriter<N> write(composer, layer);
  const auto* grouped = std::get_if<GroupedAttention>(&layer.attention);
  if (grouped != nullptr && grouped->relative) {
    x = write.sublayer(x, layer.norms.front(), *grouped, false);
    if (layer.cross_attention)
      x = write.sublayer(x, layer.cross_attention->norm, layer.cross_attention->attention, true);
    return write.fed(x);
  }
  switch (layer.arrangement) {
    case Arrangement::kPreNorm: {
      if (composer.style.implementation == Implementation::kTorchtune) {
        // Names of torchtune's layer: what each part gave, until the layer returns (torchtune/modules/transformer.py).
        const ValueId normalised = write.norm(0, x), attended = write.attend(normalised);
        const ValueId middle = write.add(attended, x);
        composer.graph.hold(normalised);
        const ValueId before = write.norm(1, middle), fed = write.feed(before);
        composer.graph.hold(before);
        const ValueId y = write.add(middle, fed);
        for (const ValueId local : {attended, middle, fed}) composer.graph.hold(local);
        return y;
      }
      const ValueId middle = write.add(x, write.attend(write.norm(0, x)));
      return write.add(middle, write.feed(write.norm(1, middle)));
    }
    case Arrangement::kPostNorm: {
      const ValueId middle = write.norm(0, write.add(x, write.attend(x)));
      return write.norm(1, write.add(middle, write.feed(middle)));
    }
    case Arrangement::kOutputNorm: {
      const ValueId middle = write.add(x, write.norm(0, write.attend(x)));
      return write.add(middle, write.norm(1, write.feed(middle)));
    }
    case Arrangement::kSandwich: {
      const ValueId middle = write.add(x, write.norm(1, write.attend(write.norm(0, x))));
      return write.add(middle, write.norm(3, write.feed(write.norm(2, middle))));
    }
    case Arrangement::kParallelOneNorm: {
      const ValueId y = write.norm(0, x);
      const ValueId attended = write.attend(y);
      return write.add(write.add(attended, write.feed(y)), x);
    }
    case Arrangement::kParallelTwoNorms: {
      const ValueId first = write.norm(0, x), second = write.norm(1, x);
      const ValueId attended = write.attend(first);
      return write.add(write.add(attended, write.feed(second)), x);
    }
  }
  return x;
}

}  // namespace

template <class N>
ValueId compose_layer(Composer<N>& composer, const Layer& layer, ValueId x) {
  const ValueId y = arranged(composer, layer, x);
  composer.graph.enter(LayerPart::kNone);
  if (composer.attention_weights != kNoValue) composer.graph.hold(composer.attention_weights);
  return y;
}

template ValueId compose_layer(Composer<Checked>&, const Layer&, ValueId);
template ValueId compose_layer(Composer<Traced>&, const Layer&, ValueId);

}  // namespace steelyard
