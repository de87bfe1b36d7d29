// StableLM 3B and 2: Llama with LayerNorm and a quarter of each head rotated; the 12B has both
// sublayers side by side.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_stablelm(Config& config) {
  const DecoderShape shape =
      read_decoder_shape(config, {.key_value_heads = 32, .rotary_fraction = 0.25});
  if (config.flag_or("qk_layernorm", false))
    config.refuse("qk_layernorm", "E303", "a norm of its own for each head of query and key",
                  "expected false",
                  "StableLM 2 12B has them; what they keep for backward is not described here");
  const bool parallel = config.flag_or("use_parallel_residual", false);

  Layer layer;
  layer.arrangement = parallel ? Arrangement::kParallelOneNorm : Arrangement::kPreNorm;
  GroupedAttention attention =
      add_attention(layer.parameters, shape.heads,
                    {.bias = config.flag_or("use_qkv_bias", false),
                     .dropout = config.fraction_or("attention_dropout", 0)});
  attention.joins_rotated_parts = true;
  layer.attention = std::move(attention);
  layer.mlp =
      add_gated_mlp(layer.parameters, "mlp.", shape.hidden, config.size("intermediate_size"),
                    {.activation = config.activation_or("hidden_act", Activation::kSilu)});
  layer.norms = {add_norm(layer.parameters, "input_layernorm", NormKind::kLayerNorm, shape.hidden)};
  if (!parallel)
    layer.norms.push_back(
        add_norm(layer.parameters, "post_attention_layernorm", NormKind::kLayerNorm, shape.hidden));
  if (config.fraction_or("hidden_dropout", 0) > 0)
    config.warn("hidden_dropout", "E641", "dropout after the mlp alone", "not counted");

  Architecture model = begin_decoder(shape, {.final_norm_kind = NormKind::kLayerNorm});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
