// OLMo 2 and 3: no norms before the sublayers, one after each; query and key are normalised over the
// whole projection. OLMo 3 looks through a window in three layers of four.
#include <optional>
#include <utility>
#include <vector>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

namespace {

Architecture read_olmo(Config& config, std::optional<std::int64_t> window,
                       const DecoderShape& shape, const std::vector<bool>& windowed) {
  const Checked width = config.size("intermediate_size");
  const bool bias = config.flag_or("attention_bias", false);
  const double dropout = config.fraction_or("attention_dropout", 0);
  const Activation activation = config.activation_or("hidden_act", Activation::kSilu);

  const auto layer_with = [&](bool local) {
    Layer layer;
    layer.arrangement = Arrangement::kOutputNorm;
    GroupedAttention attention = add_attention(layer.parameters, shape.heads,
                                               {.bias = bias,
                                                .output_bias = bias,
                                                .query_key_norm = NormKind::kRmsFloat32,
                                                .norm_over_whole_projection = true,
                                                .dropout = dropout});
    attention.rotary_in_float32 = true;
    if (local) attention.sliding_window = window;
    layer.attention = std::move(attention);
    layer.mlp =
        add_gated_mlp(layer.parameters, "mlp.", shape.hidden, width, {.activation = activation});
    layer.norms = {
        add_norm(layer.parameters, "post_attention_layernorm", NormKind::kRmsFloat32, shape.hidden),
        add_norm(layer.parameters, "post_feedforward_layernorm", NormKind::kRmsFloat32,
                 shape.hidden)};
    return layer;
  };

  Architecture model = begin_decoder(shape, {.final_norm_kind = NormKind::kRmsFloat32});
  set_layers(model, {layer_with(false), layer_with(true)}, {windowed.begin(), windowed.end()});
  return model;
}

}  // namespace

Architecture read_olmo2(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {});
  return read_olmo(config, std::nullopt, shape,
                   std::vector<bool>(static_cast<std::size_t>(shape.layers.value()), false));
}

Architecture read_olmo3(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {});
  const auto window = read_window(config, "sliding_window", 4096);
  const std::vector<bool> windowed = windowed_layers(
      config, shape.layers, [](std::int64_t layer) { return (layer + 1) % 4 != 0; });
  Architecture model = read_olmo(config, window, shape, windowed);
  if (model.kinds.size() > 1) model.rotary_tables = 2;  // one for each kind of layer
  return model;
}

}  // namespace steelyard
