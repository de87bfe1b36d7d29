// Gemma 1, 2 and 3: heads of 256, tied head, embedding scaled by the root of its width, norms that
// multiply by 1 + w.
//
//            norms per layer   q, k norms   softcaps   windows
//   gemma    2                 no           no         no
//   gemma2   4                 no           both       even layers
//   gemma3   4                 yes          no         all but every sixth layer
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {
namespace {

// hidden_activation wins; files of the first Gemma say "gelu" in hidden_act and mean its tanh form.
Activation gemma_activation(Config& config) {
  config.know({"hidden_act"});
  return config.activation_or("hidden_activation", Activation::kGeluTanh);
}

Architecture begin_gemma(const DecoderShape& shape) {
  Architecture model = begin_decoder(shape, {.final_norm_kind = NormKind::kRmsUnitOffset});
  model.scaled_embedding = true;
  return model;
}

Norm gemma_norm(Layer& layer, std::string_view name, Checked hidden) {
  return add_norm(layer.parameters, std::string(name), NormKind::kRmsUnitOffset, hidden);
}

// Input, post attention, pre mlp, post mlp.
std::vector<Norm> four_norms(Layer& layer, Checked hidden) {
  return {gemma_norm(layer, "input_layernorm", hidden),
          gemma_norm(layer, "post_attention_layernorm", hidden),
          gemma_norm(layer, "pre_feedforward_layernorm", hidden),
          gemma_norm(layer, "post_feedforward_layernorm", hidden)};
}

struct SandwichOptions {
  bool query_key_norm = false;
  std::optional<double> score_softcap;
  std::optional<std::int64_t> window;
};

void set_sandwich_layers(Config& config, Architecture& model, const DecoderShape& shape,
                         const std::vector<bool>& windowed, const SandwichOptions& options) {
  const Checked width = config.size("intermediate_size");
  const bool bias = config.flag_or("attention_bias", false);
  const double dropout = config.fraction_or("attention_dropout", 0);
  const Activation activation = gemma_activation(config);
  const auto layer_with = [&](bool local) {
    Layer layer;
    layer.arrangement = Arrangement::kSandwich;
    AttentionOptions attention_options{.bias = bias, .output_bias = bias, .dropout = dropout};
    if (options.query_key_norm) attention_options.query_key_norm = NormKind::kRmsUnitOffset;
    GroupedAttention attention = add_attention(layer.parameters, shape.heads, attention_options);
    attention.score_softcap = options.score_softcap;
    if (local) attention.sliding_window = options.window;
    layer.attention = std::move(attention);
    layer.mlp =
        add_gated_mlp(layer.parameters, "mlp.", shape.hidden, width, {.activation = activation});
    layer.norms = four_norms(layer, shape.hidden);
    return layer;
  };
  set_layers(model, {layer_with(false), layer_with(true)}, {windowed.begin(), windowed.end()});
}

// Absent: the class default; null: no cap.
std::optional<double> softcap(Config& config, std::string_view key, double fallback) {
  if (!config.is_present(key)) return fallback;
  return config.find_number(key);
}

}  // namespace

Architecture read_gemma(Config& config) {
  const DecoderShape shape =
      read_decoder_shape(config, {.key_value_heads = 16, .head_width = 256, .tied = true});
  const bool bias = config.flag_or("attention_bias", false);

  Layer layer;
  layer.attention = add_attention(
      layer.parameters, shape.heads,
      {.bias = bias, .output_bias = bias, .dropout = config.fraction_or("attention_dropout", 0)});
  layer.mlp =
      add_gated_mlp(layer.parameters, "mlp.", shape.hidden, config.size("intermediate_size"),
                    {.activation = gemma_activation(config)});
  layer.norms = {gemma_norm(layer, "input_layernorm", shape.hidden),
                 gemma_norm(layer, "post_attention_layernorm", shape.hidden)};

  Architecture model = begin_gemma(shape);
  set_layers(model, std::move(layer));
  return model;
}

Architecture read_gemma2(Config& config) {
  const DecoderShape shape =
      read_decoder_shape(config, {.key_value_heads = 4, .head_width = 256, .tied = true});
  const auto window = read_window(config, "sliding_window", 4096);
  const auto windowed =
      windowed_layers(config, shape.layers, [](std::int64_t layer) { return layer % 2 == 0; });

  Architecture model = begin_gemma(shape);
  model.final_softcap = softcap(config, "final_logit_softcapping", 30);
  set_sandwich_layers(
      config, model, shape, windowed,
      {.score_softcap = softcap(config, "attn_logit_softcapping", 50), .window = window});
  return model;
}

Architecture read_gemma3(Config& config) {
  const DecoderShape shape =
      read_decoder_shape(config, {.key_value_heads = 4, .head_width = 256, .tied = true});
  const auto window = read_window(config, "sliding_window", 4096);
  // Files of newer transformers call the period by a private name.
  const std::int64_t period =
      config.size_or("sliding_window_pattern", config.size_or("_sliding_window_pattern", 6))
          .value();
  const auto windowed = windowed_layers(config, shape.layers, [&](std::int64_t layer) {
    return period > 0 && (layer + 1) % period != 0;
  });
  config.know({"use_bidirectional_attention"});

  Architecture model = begin_gemma(shape);
  model.rotary_tables = 2;
  model.final_softcap = config.find_number("final_logit_softcapping");
  set_sandwich_layers(config, model, shape, windowed,
                      {.query_key_norm = true,
                       .score_softcap = config.find_number("attn_logit_softcapping"),
                       .window = window});
  return model;
}

}  // namespace steelyard
