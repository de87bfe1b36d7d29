// Between an encoder and a decoder: the encoder's last norm, which every layer of the decoder reads, and the decoder's embedding,
// which is the encoder's again.
//
//   x ── norm ── dropout ── encoded, kept
//   labels ── shifted, kept ── table ── dropout ── y
//
// Sources: transformers models/t5/modeling_t5.py, T5ForConditionalGeneration.forward (5.17).
#include "operators/ends.h"

namespace steelyard {

template <class N>
Bridge compose_bridge(Composer<N>& composer, const Architecture& model, ValueId x,
                      const N& source_tokens) {
  Graph<N>& graph = composer.graph;
  const OperatorStyle& style = composer.style;
  const Sizes<N>& sizes = composer.sizes;
  Bridge bridge;
  const ValueId normalised =
      composer.normalise(x, model.encoder_part->norm, source_tokens, sizes.hidden);
  bridge.encoded = composer.dropout(normalised, style.residual_dropout, "encoder");
  bridge.operators_of_encoder = composer.position();
  // _shift_right: zeros, filled with a copy of all labels but the last
  const ValueId ids = graph.tensor({"decoder", "labels, one further", "inputs.shifted-labels"},
                                   sizes.tokens, ElementType::kInt64, false);
  Operator shift;
  shift.label = "shift";
  shift.outputs = {ids};
  shift.passing = {graph.temporary({"decoder", "labels but the last", "inputs.shifted-labels"},
                                   sizes.batch * (sizes.sequence - N(1)), ElementType::kInt64)};
  graph.add(shift);
  if (style.attention == AttentionKernel::kEager) {
    bridge.mask = composer.made("mask", {}, {"inputs", "attention mask", "inputs.attention-mask"},
                                sizes.batch * sizes.sequence * sizes.sequence, style.residual);
    graph.name(bridge.mask);
  }
  const int gradient = composer.uncast_parameter(0, sizes.vocabulary * sizes.hidden);
  bridge.decoded = compose_embedding(composer, model, ids, gradient);
  return bridge;
}

template Bridge compose_bridge(Composer<Checked>&, const Architecture&, ValueId, const Checked&);
template Bridge compose_bridge(Composer<Traced>&, const Architecture&, ValueId, const Traced&);

}  // namespace steelyard
