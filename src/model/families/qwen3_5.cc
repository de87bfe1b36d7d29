// Qwen3-Next and Qwen3.5: three layers of four follow the gated delta rule, every fourth attends with a gate on its output.
#include <fmt/format.h>

#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/sparse_layers.h"

namespace steelyard {
namespace {

// How the releases differ: one product or four before the rule, and whether the experts' weights are always divided by their sum.
struct HybridTraits {
  bool packed_projections = false;
  bool experts = false;
};

GatedDelta add_gated_delta(Config& config, Tensors& tensors, Checked hidden, bool packed) {
  GatedDelta delta;
  const Checked key_heads = config.size_or("linear_num_key_heads", 16);
  const Checked heads = config.size_or("linear_num_value_heads", 32);
  const Checked key_width = config.size_or("linear_key_head_dim", 128);
  const Checked value_width = config.size_or("linear_value_head_dim", 128);
  config.quotient("linear_num_value_heads", heads, "linear_num_key_heads", key_heads);
  delta.key_heads = key_heads.value();
  delta.heads = heads.value();
  delta.key_width = key_width.value();
  delta.value_width = value_width.value();
  delta.kernel = config.size_or("linear_conv_kernel_dim", 4).value();
  const Checked values = heads * value_width;
  const Checked channels = Checked(2) * key_heads * key_width + values;
  const auto named = [](std::string_view name) { return "linear_attn." + std::string(name); };
  const auto vector = [&](std::string_view name) {
    return add_tensor(tensors, named(name), {delta.heads}, TensorRole::kOther);
  };
  delta.time_bias_index = vector("dt_bias");
  delta.decay_index = vector("A_log");
  delta.convolution_index = add_tensor(tensors, named("conv1d.weight"),
                                       {channels.value(), 1, delta.kernel}, TensorRole::kOther);
  const auto linear = [&](std::string_view name, Checked in, Checked out) {
    return add_linear(tensors, named(name), in, out, {.split = Split::kNone});
  };
  if (packed) {
    delta.packed = linear("in_proj_qkvz", hidden, channels + values);
    delta.write = linear("in_proj_ba", hidden, Checked(2) * heads);
  }
  delta.norm = add_norm(tensors, named("norm"), NormKind::kRms, value_width);
  delta.output = linear("out_proj", values, hidden);
  if (!packed) {
    delta.packed = linear("in_proj_qkv", hidden, channels);
    delta.gate = linear("in_proj_z", hidden, values);
    delta.write = linear("in_proj_b", hidden, heads);
    delta.decay = linear("in_proj_a", hidden, heads);
  }
  return delta;
}

// "full_attention" and "linear_attention" for each layer, or every `full_attention_interval`-th attends.
std::vector<bool> attending_layers(Config& config, Checked layers) {
  const std::int64_t count = layers.value();
  std::vector<bool> attends(static_cast<std::size_t>(count));
  const std::int64_t interval = config.size_or("full_attention_interval", 4).value();
  for (std::int64_t i = 0; i < count; ++i)
    attends[static_cast<std::size_t>(i)] = interval > 0 && (i + 1) % interval == 0;
  const auto stated = config.find_words("layer_types");
  if (!stated || count == 0) return attends;
  if (stated->size() != attends.size()) {
    config.refuse("layer_types", "E305",
                  fmt::format("\"layer_types\" names {} layers, \"num_hidden_layers\" is {}",
                              stated->size(), count),
                  fmt::format("expected {} entries", count));
    return attends;
  }
  for (std::size_t i = 0; i < attends.size(); ++i) {
    const std::string& type = (*stated)[i];
    attends[i] = type == "full_attention";
    if (attends[i] || type == "linear_attention") continue;
    config.refuse("layer_types", "E303",
                  fmt::format("\"layer_types\" holds \"{}\" for layer {}", type, i),
                  "expected \"full_attention\" or \"linear_attention\"");
    break;
  }
  return attends;
}

Architecture read_hybrid(Config& config, const HybridTraits& traits) {
  config.know({"mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "attn_output_gate",
               "mamba_ssm_dtype", "output_gate_type"});
  const DecoderShape shape = read_decoder_shape(
      config, {.key_value_heads = 2, .head_width = 256, .rotary_fraction = 0.25});
  const bool bias = config.flag_or("attention_bias", false);
  const double dropout = config.fraction_or("attention_dropout", 0);
  const Activation activation = config.activation_or("hidden_act", Activation::kSilu);
  const std::vector<bool> attends = attending_layers(config, shape.layers);
  ExpertOptions experts;
  Routing routing{.divided_by_sum = true, .in_type_of_logits = true};
  Checked shared_width = 0, dense_width = 0;
  std::vector<bool> sparse(attends.size(), false);
  if (traits.experts) {
    experts = read_expert_counts(config, config.size("moe_intermediate_size"));
    experts.activation = activation;
    shared_width = config.size_or("shared_expert_intermediate_size", 512);
    sparse = qwen_sparse_layers(config, shape.layers);
    if (traits.packed_projections) routing.divided_by_sum = config.flag_or("norm_topk_prob", true);
    config.know({"norm_topk_prob"});
    dense_width = config.size_or("intermediate_size", 5632);
  } else {
    dense_width = config.size("intermediate_size");
  }

  const auto layer_with = [&](bool with_attention, bool with_experts) {
    Layer layer;
    if (with_attention) {
      layer.attention = add_attention(layer.parameters, shape.heads,
                                      {.bias = bias,
                                       .output_bias = bias,
                                       .query_key_norm = NormKind::kRmsUnitOffset,
                                       .output_gate = true,
                                       .dropout = dropout});
    } else {
      layer.attention =
          add_gated_delta(config, layer.parameters, shape.hidden, traits.packed_projections);
    }
    if (with_experts) {
      ExpertMlp mlp = add_separate_experts(layer.parameters, shape.hidden, experts);
      mlp.routing = routing;
      mlp.shared = add_gated_mlp(layer.parameters, "mlp.shared_expert.", shape.hidden, shared_width,
                                 {.activation = activation});
      mlp.shared_gate = add_linear(layer.parameters, "mlp.shared_expert_gate", shape.hidden, 1,
                                   {.split = Split::kNone});
      layer.mlp = std::move(mlp);
    } else {
      layer.mlp = add_gated_mlp(layer.parameters, "mlp.", shape.hidden, dense_width,
                                {.activation = activation});
    }
    layer.norms = add_pre_norms(layer.parameters, NormKind::kRmsUnitOffset, shape.hidden);
    return layer;
  };

  std::vector<int> kinds;
  for (std::size_t i = 0; i < attends.size(); ++i)
    kinds.push_back((attends[i] ? 1 : 0) + (sparse[i] ? 2 : 0));
  Architecture model = begin_decoder(shape, {.final_norm_kind = NormKind::kRmsUnitOffset});
  std::vector<Layer> layers = {layer_with(false, false), layer_with(true, false)};
  if (traits.experts) {
    layers.push_back(layer_with(false, true));
    layers.push_back(layer_with(true, true));
  }
  set_layers(model, std::move(layers), std::move(kinds));
  return model;
}

}  // namespace

Architecture read_qwen3_next(Config& config) {
  return read_hybrid(config, {.packed_projections = true, .experts = true});
}

Architecture read_qwen3_5(Config& config) {
  Architecture model = read_hybrid(config, {});
  model.positions_of_three_axes = true;
  return model;
}

Architecture read_qwen3_5_moe(Config& config) {
  Architecture model = read_hybrid(config, {.experts = true});
  model.positions_of_three_axes = true;
  return model;
}

}  // namespace steelyard
