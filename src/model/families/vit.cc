// ViT: patches of an image under a convolution, a class token before them, learned positions; norms before the sublayers; a
// classifier, beside the total, of what the class token has become.
#include <string>
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/image_classifier.h"

namespace steelyard {
namespace {

ImageInput add_patches(Tensors& tensors, const std::string& prefix, Checked hidden,
                       const ImageInput& read, Checked tokens) {
  ImageInput image = read;
  const auto add = [&](const char* name, std::vector<std::int64_t> shape, TensorRole role) {
    return add_tensor(tensors, prefix + name, std::move(shape), role);
  };
  image.class_index = add("cls_token", {1, 1, hidden.value()}, TensorRole::kOther);
  image.position_index =
      add("position_embeddings", {1, tokens.value(), hidden.value()}, TensorRole::kOther);
  image.projection.name = prefix + "patch_embeddings.projection";
  image.projection.in = image.channels * image.patch * image.patch;
  image.projection.out = hidden.value();
  image.projection.bias = true;
  image.projection.weight_index =
      add("patch_embeddings.projection.weight",
          {hidden.value(), image.channels, image.patch, image.patch}, TensorRole::kOther);
  image.projection.bias_index =
      add("patch_embeddings.projection.bias", {hidden.value()}, TensorRole::kBias);
  return image;
}

}  // namespace

Architecture read_vit(Config& config) {
  const HeadShape heads = read_heads(config);
  const Checked size = config.size("image_size"), patch = config.size("patch_size");
  const Checked side = config.quotient("image_size", size, "patch_size", patch);
  ImageInput image;
  image.channels = config.size_or("num_channels", 3).value();
  image.size = size.value();
  image.patch = patch.value();
  const bool bias = config.flag_or("qkv_bias", true);
  config.know({"encoder_stride", "pooler_act", "pooler_output_size"});

  Layer layer;
  GroupedAttention attention =
      add_attention(layer.parameters, heads,
                    {.prefix = "attention.",
                     .query = "attention.query",
                     .key = "attention.key",
                     .value = "attention.value",
                     .output = "output.dense",
                     .bias = bias,
                     .output_bias = true,
                     .dropout = config.fraction_or("attention_probs_dropout_prob", 0)});
  attention.causal = false;
  layer.attention = std::move(attention);
  layer.norms = {add_norm(layer.parameters, "layernorm_before", NormKind::kLayerNorm, heads.hidden),
                 add_norm(layer.parameters, "layernorm_after", NormKind::kLayerNorm, heads.hidden)};
  layer.mlp = add_plain_mlp(
      layer.parameters, "intermediate.dense", "output.dense", heads.hidden,
      config.size("intermediate_size"),
      {.bias = true, .activation = config.activation_or("hidden_act", Activation::kGeluErf)});
  layer.residual_dropout = config.fraction_or("hidden_dropout_prob", 0);

  Architecture model;
  const Checked tokens = side * side + Checked(1);
  model.hidden = model.embedding_width = heads.hidden.value();
  model.layers = config.size("num_hidden_layers", kMostLayers).value();
  model.maximum_positions = tokens.value();
  model.layer_prefix = "vit.encoder.layer.";
  model.encoder = true;
  model.position_ids = PositionIds::kNone;
  model.rotary_tables = 0;
  model.embedding_dropout = layer.residual_dropout;
  model.image =
      add_patches(model.embedding_parameters, "vit.embeddings.", heads.hidden, image, tokens);
  model.final_norm =
      add_norm(model.head_parameters, "vit.layernorm", NormKind::kLayerNorm, heads.hidden);
  add_image_classifier(config, model, heads.hidden);
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
