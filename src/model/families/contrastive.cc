// CLIP and SigLIP whole: a tower of vision and one of text, which learn from one another. Both have the layers of the tower of
// vision; what each makes of an image or a text is one row, and the loss compares all rows of a batch.
//
//   CLIP     image: the class token, a norm, a projection      text: causal, the token that ends it, a projection
//   SigLIP   image: a norm, a pooling head                     text: both ways, the last token, a projection with a bias
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/vision_tower.h"

namespace steelyard {
namespace {

constexpr std::string_view kVision = "vision_model.";
constexpr std::string_view kText = "text_model.";

std::string within(std::string_view tower, std::string_view name) {
  return std::string(tower) + std::string(name);
}

// torch.nn.MultiheadAttention keeps its three projections in one tensor.
PoolingHead add_pooling_head(Config& sight, Tensors& tensors, const HeadShape& heads) {
  const std::string prefix = within(kVision, "head.");
  const std::int64_t hidden = heads.hidden.value();
  const auto add = [&](const char* name, std::vector<std::int64_t> shape, TensorRole role) {
    return add_tensor(tensors, prefix + name, std::move(shape), role);
  };
  PoolingHead head;
  head.heads = heads.heads.value();
  head.probe_index = add("probe", {1, 1, hidden}, TensorRole::kOther);
  const std::int64_t packed = (Checked(3) * heads.hidden).value();
  head.packed_index = add("attention.in_proj_weight", {packed, hidden}, TensorRole::kMatrix);
  head.packed_bias_index = add("attention.in_proj_bias", {packed}, TensorRole::kBias);
  head.output = add_linear(tensors, prefix + "attention.out_proj", heads.hidden, heads.hidden,
                           {.bias = true});
  head.norm = add_norm(tensors, prefix + "layernorm", NormKind::kLayerNorm, heads.hidden);
  head.mlp = add_plain_mlp(
      tensors, prefix + "mlp.fc1", prefix + "mlp.fc2", heads.hidden,
      sight.size("intermediate_size"),
      {.bias = true, .activation = sight.activation_or("hidden_act", Activation::kGeluTanh)});
  return head;
}

struct Parts {
  Config text, sight;
};

std::optional<Parts> parts_of(Config& config) {
  std::optional<Config> text = config.table("text_config"), sight = config.table("vision_config");
  const auto ask = [&](const char* key, const std::optional<Config>& part) {
    if (!part)
      config.refuse(key, "E302", "\"" + std::string(key) + "\" is missing",
                    "expected the config of a tower");
  };
  ask("text_config", text);
  ask("vision_config", sight);
  if (!text || !sight) return std::nullopt;
  return Parts{std::move(*text), std::move(*sight)};
}

// Both towers: tables of text and the tower's own tensors, layers of either, and the last norm of text.
Architecture read_towers(Config& text, Config& sight, bool of_clip) {
  const Activation usual = of_clip ? Activation::kQuickGelu : Activation::kGeluTanh;
  const HeadShape heads = read_heads(text);
  Tower tower = read_tower(sight, of_clip);
  const Checked of_vision = sight.size("num_hidden_layers", kMostLayers);
  const Checked of_text = text.size("num_hidden_layers", kMostLayers);
  const Checked positions = text.size_or("max_position_embeddings", of_clip ? 77 : 64);

  DecoderShape shape;
  shape.hidden = heads.hidden;
  shape.vocabulary = text.size_or("vocab_size", of_clip ? 49408 : 32000);
  shape.positions = positions;
  shape.layers = of_vision + of_text;
  shape.tied = true;  // no table of its own reads words back,
  const std::string embedding = within(kText, "embeddings.token_embedding.weight");
  const std::string norm = within(kText, "final_layer_norm");
  Architecture model = begin_decoder(
      shape, {.embedding = embedding, .final_norm = norm, .final_norm_kind = NormKind::kLayerNorm});
  model.tied_head = false;  // and neither does the embedding's
  model.encoder = !of_clip;
  model.position_ids = PositionIds::kNone;
  model.rotary_tables = 0;
  add_learned_positions(model, within(kText, "embeddings.position_embedding.weight"), positions);
  model.learned_positions = true;
  model.maximum_positions = positions.value();
  model.layer_prefix = within(kVision, "encoder.layers.");

  EncoderPart part;
  part.layers = of_vision.value();
  part.decoder_prefix = within(kText, "encoder.layers.");
  VisionPart vision;
  vision.hidden = tower.heads.hidden.value();
  vision.tokens = tower.tokens().value();
  vision.features = 1;
  Tensors& tensors = model.embedding_parameters;
  add_index_buffer(tensors, within(kText, "embeddings.position_ids"), positions);
  vision.first_tensor = tensors.size();
  add_patches(tensors, tower, std::string(kVision));
  if (of_clip)
    vision.norm = add_norm(tensors, within(kVision, "pre_layrnorm"), NormKind::kLayerNorm,
                           tower.heads.hidden);
  vision.image = tower.image;
  vision.first_of_projector = tensors.size();
  Contrast contrast;
  contrast.image_norm = add_norm(tensors, within(kVision, "post_layernorm"), NormKind::kLayerNorm,
                                 tower.heads.hidden);
  if (!of_clip) contrast.pooling = add_pooling_head(sight, tensors, tower.heads);
  vision.contrast = std::move(contrast);
  part.vision = std::move(vision);
  model.encoder_part = std::move(part);

  Layer seeing = tower_layer(sight, tower.heads, usual);
  seeing.encodes = true;
  std::vector<int> kind_of_layer(static_cast<std::size_t>(of_vision.value()), 0);
  kind_of_layer.resize(static_cast<std::size_t>((of_vision + of_text).value()), 1);
  std::vector<Layer> kinds = {std::move(seeing), tower_layer(text, heads, usual, of_clip)};
  if (of_vision.value() > 0 && of_text.value() > 0)
    set_layers(model, std::move(kinds), std::move(kind_of_layer));
  return model;
}

Contrast& contrast_of(Architecture& model) { return *model.encoder_part->vision->contrast; }

void end_reading(Config& config, Parts& parts, const char* family) {
  parts.text.warn_of_unknown_keys(family);
  parts.sight.warn_of_unknown_keys(family);
  config.take_faults(parts.text);
  config.take_faults(parts.sight);
}

}  // namespace

Architecture read_clip(Config& config) {
  config.know({"logit_scale_init_value", "initializer_factor", "projection_dim"});
  std::optional<Parts> parts = parts_of(config);
  if (!parts) return {};
  const auto know = [](Config& part) { part.know({"projection_dim", "initializer_factor"}); };
  know(parts->text);
  know(parts->sight);
  parts->text.assume({{"hidden_size", 512},
                      {"intermediate_size", 2048},
                      {"num_hidden_layers", 12},
                      {"num_attention_heads", 8}});
  parts->sight.assume({{"hidden_size", 768},
                       {"intermediate_size", 3072},
                       {"num_hidden_layers", 12},
                       {"num_attention_heads", 12},
                       {"image_size", 224},
                       {"patch_size", 32}});
  const Checked width = config.size_or("projection_dim", 512);
  Architecture model = read_towers(parts->text, parts->sight, true);
  Contrast& contrast = contrast_of(model);
  contrast.width = width.value();
  contrast.highest_ends = parts->text.integer_or("eos_token_id", 49407) == 2;
  const Checked seen = model.encoder_part->vision->hidden;
  contrast.image_projection =
      add_linear(model.embedding_parameters, "visual_projection", seen, width);
  contrast.text_projection =
      add_linear(model.head_parameters, "text_projection", model.hidden, width);
  contrast.scale_index = add_tensor(model.head_parameters, "logit_scale", {}, TensorRole::kOther);
  end_reading(config, *parts, "clip");
  return model;
}

Architecture read_siglip(Config& config) {
  config.know({"initializer_factor"});
  std::optional<Parts> parts = parts_of(config);
  if (!parts) return {};
  parts->text.assume({{"hidden_size", 768},
                      {"intermediate_size", 3072},
                      {"num_hidden_layers", 12},
                      {"num_attention_heads", 12}});
  parts->sight.assume({{"hidden_size", 768},
                       {"intermediate_size", 3072},
                       {"num_hidden_layers", 12},
                       {"num_attention_heads", 12},
                       {"image_size", 224},
                       {"patch_size", 16}});
  if (!parts->sight.flag_or("vision_use_head", true))
    parts->sight.refuse("vision_use_head", "E301", "without its pooling head nothing is compared",
                        "the images' rows are what it gives");
  Architecture model = read_towers(parts->text, parts->sight, false);
  Contrast& contrast = contrast_of(model);
  const Checked width = parts->text.size_or("projection_size", model.hidden);
  contrast.width = width.value();
  contrast.sigmoid = contrast.pools_last = true;
  if (width.value() != model.encoder_part->vision->hidden)
    parts->text.refuse("projection_size", "E306",
                       "images and texts are compared at different widths", "disagrees",
                       "it is the hidden_size of \"vision_config\"");
  contrast.text_projection =
      add_linear(model.head_parameters, within(kText, "head"), model.hidden, width, {.bias = true});
  contrast.scale_index = add_tensor(model.head_parameters, "logit_scale", {1}, TensorRole::kOther);
  contrast.bias_index = add_tensor(model.head_parameters, "logit_bias", {1}, TensorRole::kOther);
  end_reading(config, *parts, "siglip");
  return model;
}

}  // namespace steelyard
