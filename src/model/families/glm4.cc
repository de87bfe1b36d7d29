// GLM-4: biased query, key and value, half of each head rotated, with a norm before each sublayer; since 0414 another behind it.
#include <utility>
#include <vector>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

namespace {

Architecture read_glm_with(Config& config, bool sandwich) {
  const DecoderShape shape =
      read_decoder_shape(config, {.key_value_heads = 2, .head_width = 128, .rotary_fraction = 0.5});

  Layer layer;
  layer.arrangement = sandwich ? Arrangement::kSandwich : Arrangement::kPreNorm;
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
  if (sandwich)
    layer.norms = {norm("input_layernorm"), norm("post_self_attn_layernorm"),
                   norm("post_attention_layernorm"), norm("post_mlp_layernorm")};
  else
    layer.norms = {norm("input_layernorm"), norm("post_attention_layernorm")};

  Architecture model = begin_decoder(shape, {});
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace

Architecture read_glm(Config& config) { return read_glm_with(config, false); }
Architecture read_glm4(Config& config) { return read_glm_with(config, true); }

}  // namespace steelyard
