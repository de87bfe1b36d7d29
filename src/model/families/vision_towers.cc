// The towers of vision of CLIP and SigLIP, trained to say classes: patches under a convolution, a table of positions, norms before
// the sublayers, and a classifier, beside the total, of the mean over the patches.
//
//   CLIP     a class token, a norm before the layers; the norm behind them sees the class token alone, whose output the
//            classifier does not read: it has no gradient
//   SigLIP   neither; the norm behind the layers is the classifier's
#include <string>
#include <string_view>
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/image_classifier.h"
#include "model/families/vision_tower.h"

namespace steelyard {

Tower read_tower(Config& config, bool class_token) {
  Tower tower;
  tower.class_token = class_token;
  tower.heads = read_heads(config);
  const Checked size = config.size("image_size"), patch = config.size("patch_size");
  // What is left of an image at its edges no patch sees.
  const Checked side = patch.value() > 0 ? Checked(size.value() / patch.value()) : Checked(0);
  tower.patches = side * side;
  tower.image.channels = config.size_or("num_channels", 3).value();
  tower.image.size = size.value();
  tower.image.patch = patch.value();
  tower.image.looks_up_positions = tower.image.averages = true;
  return tower;
}

void add_patches(Tensors& tensors, Tower& tower, const std::string& tower_prefix) {
  ImageInput& image = tower.image;
  const std::string prefix = tower_prefix + "embeddings.";
  const std::int64_t hidden = tower.heads.hidden.value();
  const auto add = [&](const char* name, std::vector<std::int64_t> shape, TensorRole role) {
    return add_tensor(tensors, prefix + name, std::move(shape), role);
  };
  if (tower.class_token) image.class_index = add("class_embedding", {hidden}, TensorRole::kOther);
  Linear& projection = image.projection;
  projection.name = prefix + "patch_embedding";
  projection.in = image.channels * image.patch * image.patch;
  projection.out = hidden;
  projection.weight_index =
      add("patch_embedding.weight", {hidden, image.channels, image.patch, image.patch},
          TensorRole::kOther);
  projection.bias = !tower.class_token;
  if (projection.bias)
    projection.bias_index = add("patch_embedding.bias", {hidden}, TensorRole::kBias);
  const std::int64_t tokens = tower.tokens().value();
  image.position_index = add("position_embedding.weight", {tokens, hidden}, TensorRole::kOther);
  add_index_buffer(tensors, prefix + "position_ids", tower.tokens());
}

Layer tower_layer(Config& config, const HeadShape& heads, Activation activation, bool causal) {
  Layer layer;
  Tensors& tensors = layer.parameters;
  const Norm before = add_norm(tensors, "layer_norm1", NormKind::kLayerNorm, heads.hidden);
  GroupedAttention attention =
      add_attention(tensors, heads,
                    {.output = "out_proj",
                     .bias = true,
                     .output_bias = true,
                     .dropout = config.fraction_or("attention_dropout", 0)});
  attention.causal = causal;
  layer.attention = std::move(attention);
  layer.norms = {before, add_norm(tensors, "layer_norm2", NormKind::kLayerNorm, heads.hidden)};
  layer.mlp =
      add_plain_mlp(tensors, "mlp.fc1", "mlp.fc2", heads.hidden, config.size("intermediate_size"),
                    {.bias = true, .activation = config.activation_or("hidden_act", activation)});
  return layer;
}

namespace {

constexpr const char* kTower = "vision_model.";

Architecture read_vision_tower(Config& config, bool class_token, Activation activation) {
  Tower tower = read_tower(config, class_token);
  Architecture model;
  model.hidden = model.embedding_width = tower.heads.hidden.value();
  model.layers = config.size("num_hidden_layers", kMostLayers).value();
  model.layer_prefix = std::string(kTower) + "encoder.layers.";
  model.encoder = true;
  model.position_ids = PositionIds::kNone;
  model.rotary_tables = 0;
  add_patches(model.embedding_parameters, tower, kTower);
  model.maximum_positions = tower.tokens().value();
  const auto norm = [&](Tensors& tensors, std::string_view name) {
    return add_norm(tensors, kTower + std::string(name), NormKind::kLayerNorm, tower.heads.hidden);
  };
  if (class_token) set_embedding_norm(model, norm(model.embedding_parameters, "pre_layrnorm"));
  const Norm behind = norm(model.head_parameters, "post_layernorm");
  if (class_token) {
    tower.image.class_norm = behind;
    for (ParameterTensor& tensor : model.head_parameters) {
      tensor.frozen = true;
      tensor.gradient = false;
    }
  } else {
    model.final_norm = behind;
  }
  model.image = tower.image;
  add_image_classifier(config, model, tower.heads.hidden);
  set_layers(model, tower_layer(config, tower.heads, activation));
  return model;
}

}  // namespace

Architecture read_clip_vision(Config& config) {
  config.know({"projection_dim", "initializer_factor"});
  return read_vision_tower(config, true, Activation::kQuickGelu);
}

Architecture read_siglip_vision(Config& config) {
  if (config.flag_or("vision_use_head", true))
    config.refuse("vision_use_head", "E301",
                  "a tower of SigLIP with its pooling head is not weighed yet",
                  "the head runs, and the classifier does not read it",
                  "\"vision_use_head\": false is weighed, as in Gemma 3");
  return read_vision_tower(config, false, Activation::kGeluTanh);
}

}  // namespace steelyard
