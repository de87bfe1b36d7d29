// gpt-oss: a learned sink per head, a window in every other layer, and experts in fused tensors
// with biases.
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_gpt_oss(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 8, .head_width = 64});
  const bool bias = config.flag_or("attention_bias", true);
  const double dropout = config.fraction_or("attention_dropout", 0);
  ExpertOptions experts = read_expert_counts(config, config.size("intermediate_size"));
  experts.router = "mlp.router";
  experts.router_bias = true;
  experts.activation = Activation::kClampedSwiglu;
  // experts_per_token repeats num_experts_per_tok in the released files; the activation is the
  // family's own.
  config.know({"experts_per_token", "hidden_act", "swiglu_limit"});
  const auto window = read_window(config, "sliding_window", 128);
  const auto windowed =
      windowed_layers(config, shape.layers, [](std::int64_t layer) { return layer % 2 == 0; });

  const auto layer_with = [&](bool local) {
    Layer layer;
    ParameterTensor sinks;
    sinks.name = "self_attn.sinks";
    sinks.shape = {shape.heads.heads.value()};
    sinks.role = TensorRole::kOther;
    sinks.cut = TensorCut::kRows;
    const int sinks_index = add_tensor(layer.parameters, std::move(sinks));
    GroupedAttention attention = add_attention(
        layer.parameters, shape.heads, {.bias = bias, .output_bias = bias, .dropout = dropout});
    attention.rotary_form = RotaryForm::kHalfTables;
    attention.sinks = true;
    attention.sinks_index = sinks_index;
    attention.eager_only = true;
    if (local) attention.sliding_window = window;
    layer.attention = std::move(attention);
    ExpertMlp mlp =
        add_fused_experts(layer.parameters, "mlp.experts.", shape.hidden, experts, true);
    mlp.routing.scores_of_chosen = true;
    layer.mlp = std::move(mlp);
    layer.norms = add_pre_norms(layer.parameters, NormKind::kRmsFloat32, shape.hidden);
    return layer;
  };

  Architecture model = begin_decoder(shape, {.final_norm_kind = NormKind::kRmsFloat32});
  set_layers(model, {layer_with(false), layer_with(true)}, {windowed.begin(), windowed.end()});
  return model;
}

}  // namespace steelyard
