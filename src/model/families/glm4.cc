// GLM-4-0414: a norm before and after each sublayer, biased query, key and value, half of each head
// rotated.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_glm4(Config& config) {
  const DecoderShape shape =
      read_decoder_shape(config, {.key_value_heads = 2, .head_width = 128, .rotary_fraction = 0.5});

  Layer layer;
  layer.arrangement = Arrangement::kSandwich;
  GroupedAttention attention =
      add_attention(layer.parameters, shape.heads,
                    {.bias = config.flag_or("attention_bias", true),
                     .dropout = config.fraction_or("attention_dropout", 0)});
  attention.rotary_form = RotaryForm::kPairs;
  layer.attention = std::move(attention);
  layer.mlp =
      add_fused_gated_mlp(layer.parameters, "mlp.", shape.hidden, config.size("intermediate_size"),
                          {.activation = config.activation_or("hidden_act", Activation::kSilu)});
  const auto norm = [&](std::string_view name) {
    return add_norm(layer.parameters, std::string(name), NormKind::kRms, shape.hidden);
  };
  // Braced lists are evaluated from left to right: input, post attention, pre mlp, post mlp.
  layer.norms = {norm("input_layernorm"), norm("post_self_attn_layernorm"),
                 norm("post_attention_layernorm"), norm("post_mlp_layernorm")};

  Architecture model = begin_decoder(shape, {});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
