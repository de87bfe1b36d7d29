// LLaVA: CLIP's tower of vision, a projector of two products, and a decoder of text that reads the patches among its words. The
// decoder reads what a layer before the last gave, without the class token: the layers behind it run, and learn nothing.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/vision_tower.h"
#include "model/sequence.h"

namespace steelyard {
namespace {

constexpr std::string_view kTowerPrefix = "model.vision_tower.";

// "model.embed_tokens.weight" stands within the language model, "lm_head.weight" beside it.
void place_in_language_model(std::string& name) {
  constexpr std::string_view kModel = "model.";
  if (name.starts_with(kModel)) name.insert(kModel.size(), "language_model.");
}

void leave_without_gradient(ParameterTensor& tensor) {
  if (tensor.buffer) return;
  tensor.unread = true;
  tensor.frozen = true;
  tensor.gradient = false;
}

// How many of the tower's layers, from its end, the decoder does not read: hidden_states[-2] is the input of the last.
std::int64_t unread_layers(Config& config, std::int64_t layers) {
  if (config.is_list("vision_feature_layer")) {
    config.refuse("vision_feature_layer", "E301", "features of several layers are not weighed yet",
                  "their hidden states are joined", "one layer, -2 as a rule, is weighed");
    return 1;
  }
  const std::int64_t written = config.integer_or("vision_feature_layer", -2);
  const std::int64_t read = written < 0 ? layers + 1 + written : written;
  if (layers > 0 && (read < 1 || read > layers)) {
    config.refuse(
        "vision_feature_layer", "E304",
        fmt::format("\"vision_feature_layer\" is {}, and the tower has {} layers", written, layers),
        fmt::format("expected {} to -1, or 1 to {}", -layers, layers));
    return 1;
  }
  return layers - read;
}

std::optional<Architecture> read_text(Config& config) {
  std::optional<Config> text = config.table("text_config");
  if (!text) {
    config.refuse("text_config", "E302", "\"text_config\" is missing",
                  "expected the config of the language model");
    return std::nullopt;
  }
  const std::string type = text->find_word("model_type").value_or("llama");
  // As their classes have it in transformers: files leave out what they do not change.
  if (type == "llama")
    text->assume({{"hidden_size", 4096},
                  {"intermediate_size", 11008},
                  {"num_hidden_layers", 32},
                  {"num_attention_heads", 32},
                  {"vocab_size", 32000}});
  const Family* family = find_family(type);
  const bool known = type == "llama" || type == "mistral" || type == "qwen2";
  if (family == nullptr || !known) {
    text->refuse("model_type", "E301",
                 fmt::format("\"{}\" as the language model of llava is not weighed yet", type),
                 "expected \"llama\", \"mistral\" or \"qwen2\"");
    config.take_faults(*text);
    return std::nullopt;
  }
  Architecture model = family->read(*text);
  text->warn_of_unknown_keys(type);
  config.take_faults(*text);
  return model;
}

}  // namespace

Architecture read_llava(Config& config) {
  config.know({"image_token_index", "image_seq_length", "ignore_index"});
  std::optional<Architecture> text = read_text(config);
  std::optional<Config> sight = config.table("vision_config");
  if (!sight)
    config.refuse("vision_config", "E302", "\"vision_config\" is missing",
                  "expected the config of the tower of vision");
  if (!text || !sight) return {};
  // LlavaConfig ties where either says so; a tied head is the text's own.
  if (config.flag_or("tie_word_embeddings", false) && !text->tied_head)
    config.refuse("tie_word_embeddings", "E306", "the head is tied, and the text's is not",
                  "disagrees", "\"tie_word_embeddings\" of \"text_config\" says it");
  const std::string type = sight->find_word("model_type").value_or("clip_vision_model");
  if (type != "clip_vision_model") {
    sight->refuse("model_type", "E301",
                  fmt::format("\"{}\" as the tower of llava is not weighed yet", type),
                  "expected \"clip_vision_model\"");
    config.take_faults(*sight);
    return {};
  }
  sight->know({"projection_dim", "vocab_size", "initializer_factor"});
  sight->assume({{"hidden_size", 768},
                 {"intermediate_size", 3072},
                 {"num_hidden_layers", 12},
                 {"num_attention_heads", 12},
                 {"image_size", 224},
                 {"patch_size", 32}});
  Tower tower = read_tower(*sight, true);
  const std::int64_t layers = sight->size("num_hidden_layers", kMostLayers).value();
  Architecture model = std::move(*text);
  for (std::vector<ParameterTensor>* tensors :
       {&model.embedding_parameters, &model.head_parameters})
    for (ParameterTensor& tensor : *tensors) place_in_language_model(tensor.name);

  EncoderPart part;
  part.layers = layers;
  part.decoder_prefix = model.layer_prefix;
  place_in_language_model(part.decoder_prefix);
  model.layer_prefix = std::string(kTowerPrefix) + "encoder.layers.";
  VisionPart vision;
  vision.hidden = tower.heads.hidden.value();
  vision.tokens = tower.tokens().value();
  Tensors& tensors = model.embedding_parameters;
  vision.first_tensor = tensors.size();
  add_patches(tensors, tower, std::string(kTowerPrefix));
  const auto norm = [&](std::string_view name) {
    return add_norm(tensors, std::string(kTowerPrefix) + std::string(name), NormKind::kLayerNorm,
                    tower.heads.hidden);
  };
  vision.norm = norm("pre_layrnorm");
  const std::size_t behind = tensors.size();
  tower.image.class_norm = norm("post_layernorm");
  for (std::size_t i = behind; i < tensors.size(); ++i) leave_without_gradient(tensors[i]);
  vision.image = tower.image;
  const std::string chosen = config.find_word("vision_feature_select_strategy").value_or("default");
  if (chosen != "default" && chosen != "full")
    config.refuse("vision_feature_select_strategy", "E303",
                  fmt::format("\"vision_feature_select_strategy\" is \"{}\"", chosen),
                  "expected \"default\" or \"full\"");
  vision.features = (chosen == "default" ? tower.patches : tower.tokens()).value();

  vision.first_of_projector = tensors.size();
  const LinearOptions biased{.bias = config.flag_or("multimodal_projector_bias", true)};
  vision.projection_in = add_linear(tensors, "model.multi_modal_projector.linear_1",
                                    tower.heads.hidden, model.hidden, biased);
  vision.projection_out = add_linear(tensors, "model.multi_modal_projector.linear_2", model.hidden,
                                     model.hidden, biased);
  vision.activation = config.activation_or("projector_hidden_act", Activation::kGeluErf);
  part.vision = std::move(vision);

  Layer layer = tower_layer(*sight, tower.heads, Activation::kQuickGelu);
  layer.encodes = true;
  Layer last = layer;
  last.unread = true;
  for (ParameterTensor& tensor : last.parameters) leave_without_gradient(tensor);
  const std::int64_t unread = unread_layers(config, layers);
  sight->warn_of_unknown_keys(type);
  config.take_faults(*sight);
  if (config.failed()) return {};
  std::vector<Layer> kinds = {std::move(layer), std::move(last)};
  std::vector<int> kind_of_layer(static_cast<std::size_t>(layers - unread), 0);
  kind_of_layer.resize(static_cast<std::size_t>(layers), 1);
  for (const int kind : kind_of_each_layer(model)) kind_of_layer.push_back(kind + 2);
  for (Layer& of_text : model.kinds) kinds.push_back(std::move(of_text));
  model.layers += layers;
  model.encoder_part = std::move(part);
  set_layers(model, std::move(kinds), std::move(kind_of_layer));
  return model;
}

}  // namespace steelyard
