#include "model/decoder.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "model/sequence.h"

namespace steelyard {
namespace {

constexpr std::int64_t kMostExperts = 65'536;

}  // namespace

DecoderShape read_decoder_shape(Config& config, const DecoderDefaults& defaults) {
  DecoderShape shape;
  shape.vocabulary = config.size("vocab_size");
  shape.hidden = config.size("hidden_size");
  shape.layers = config.size("num_hidden_layers", kMostLayers);
  shape.positions = config.count_or("max_position_embeddings", 0);
  shape.tied = config.flag_or("tie_word_embeddings", defaults.tied);

  HeadShape& heads = shape.heads;
  heads.hidden = shape.hidden;
  heads.heads = config.size("num_attention_heads");
  // An explicit null means as many as query heads; only an absent key takes the class default.
  const bool as_query = defaults.key_value_heads == 0 || config.is_null("num_key_value_heads");
  heads.key_value_heads = config.size_or(
      "num_key_value_heads", as_query ? heads.heads : Checked(defaults.key_value_heads));
  config.quotient("num_attention_heads", heads.heads, "num_key_value_heads", heads.key_value_heads);

  if (const auto stated = config.find_size("head_dim")) {
    heads.width = *stated;
  } else if (defaults.head_width > 0) {
    heads.width = defaults.head_width;
  } else {
    heads.width = config.quotient("hidden_size", shape.hidden, "num_attention_heads", heads.heads);
  }

  const double within = config.find_number_within("rope_parameters", "partial_rotary_factor")
                            .value_or(defaults.rotary_fraction);
  const double fraction = config.fraction_or("partial_rotary_factor", within);
  const double rotary = static_cast<double>(heads.width.value()) * fraction;
  heads.rotary_width = fraction > 0 && fraction <= 1 ? static_cast<std::int64_t>(rotary) : 0;
  return shape;
}

HeadShape read_heads(Config& config) {
  HeadShape heads;
  heads.hidden = config.size("hidden_size");
  heads.heads = heads.key_value_heads = config.size("num_attention_heads");
  heads.width = config.quotient("hidden_size", heads.hidden, "num_attention_heads", heads.heads);
  return heads;
}

Architecture begin_decoder(const DecoderShape& shape, const DecoderNames& names,
                           std::optional<Checked> embedding_width) {
  Architecture model;
  model.vocabulary = shape.vocabulary.value();
  model.hidden = shape.hidden.value();
  model.layers = shape.layers.value();
  model.maximum_positions = shape.positions.value();
  model.tied_head = shape.tied;
  model.layer_prefix = names.layers;
  const Checked width = embedding_width.value_or(shape.hidden);
  model.embedding_width = width.value();

  ParameterTensor table;
  table.name = names.embedding;
  table.shape = {model.vocabulary, model.embedding_width};
  table.role = TensorRole::kEmbedding;
  table.cut = TensorCut::kRows;
  add_tensor(model.embedding_parameters, std::move(table));

  if (names.has_final_norm)
    model.final_norm = add_norm(model.head_parameters, std::string(names.final_norm),
                                names.final_norm_kind, shape.hidden);

  const LinearOptions head{.bias = names.head_bias, .role = TensorRole::kHead};
  if (shape.tied) {
    // The head is the embedding again; only a bias of its own would be a tensor.
    Tensors shared;
    model.head = add_linear(shared, std::string(names.head), width, shape.vocabulary, head);
    model.head.weight_index = -1;
    if (names.head_bias)
      model.head.bias_index = add_tensor(model.head_parameters, std::move(shared.back()));
  } else {
    model.head =
        add_linear(model.head_parameters, std::string(names.head), width, shape.vocabulary, head);
  }
  return model;
}

void add_learned_positions(Architecture& model, std::string_view name, Checked rows) {
  add_tensor(model.embedding_parameters, std::string(name), {rows.value(), model.hidden},
             TensorRole::kEmbedding);
}

void set_embedding_norm(Architecture& model, Norm norm) {
  model.embedding_norm_present = true;
  model.embedding_norm = std::move(norm);
}

void set_layers(Architecture& model, Layer layer) {
  model.kinds.clear();
  model.kinds.push_back(std::move(layer));
  model.sequence.clear();
  if (model.layers > 0) model.sequence.push_back({{{0, model.layers}}, 1});
}

void set_layers(Architecture& model, std::vector<Layer> kinds, std::vector<int> kind_of_layer) {
  std::vector<int> renumbered(kinds.size(), -1);
  model.kinds.clear();
  for (int& kind : kind_of_layer) {
    int& place = renumbered[static_cast<std::size_t>(kind)];
    if (place < 0) {
      place = static_cast<int>(model.kinds.size());
      model.kinds.push_back(std::move(kinds[static_cast<std::size_t>(kind)]));
    }
    kind = place;
  }
  model.sequence = grouped_sequence(kind_of_layer);
}

std::vector<bool> windowed_layers(Config& config, Checked layers,
                                  const std::function<bool(std::int64_t)>& rule) {
  const std::int64_t count = layers.value();
  std::vector<bool> windowed(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) windowed[static_cast<std::size_t>(i)] = rule(i);

  const auto stated = config.find_words("layer_types");
  if (!stated || count == 0) return windowed;
  if (stated->size() != windowed.size()) {
    config.refuse("layer_types", "E305",
                  fmt::format("\"layer_types\" names {} layers, \"num_hidden_layers\" is {}",
                              stated->size(), count),
                  fmt::format("expected {} entries", count));
    return windowed;
  }
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    const std::string& type = (*stated)[i];
    if (type == "sliding_attention" || type == "full_attention" || type == "chunked_attention") {
      windowed[i] = type != "full_attention";
      continue;
    }
    config.refuse("layer_types", "E303",
                  fmt::format("\"layer_types\" holds \"{}\" for layer {}", type, i),
                  "expected \"full_attention\", \"sliding_attention\" or \"chunked_attention\"");
    break;
  }
  return windowed;
}

std::vector<bool> rotated_layers(Config& config, Checked count) {
  const auto layers = static_cast<std::size_t>(count.value());
  std::vector<bool> rotated(layers, true);
  const auto interval =
      static_cast<std::size_t>(config.size_or("no_rope_layer_interval", 4).value());
  const auto listed = config.find_numbers("no_rope_layers");
  if (listed && !listed->empty()) {
    if (listed->size() != layers) {
      config.refuse("no_rope_layers", "E305",
                    fmt::format("\"no_rope_layers\" has {} entries, \"num_hidden_layers\" is {}",
                                listed->size(), layers),
                    fmt::format("expected {} entries", layers));
      return rotated;
    }
    for (std::size_t layer = 0; layer < layers; ++layer) rotated[layer] = (*listed)[layer] != 0;
  } else if (interval > 0) {
    for (std::size_t layer = interval; layer <= layers; layer += interval)
      rotated[layer - 1] = false;
  }
  return rotated;
}

std::optional<std::int64_t> read_window(Config& config, std::string_view key,
                                        std::int64_t fallback) {
  if (config.is_null(key)) return std::nullopt;
  const Checked width = config.count_or(key, fallback);
  if (width == Checked(0)) return std::nullopt;
  return width.value();
}

LateWindow read_late_window(Config& config, Checked layers) {
  LateWindow late;
  const bool used = config.flag_or("use_sliding_window", false);
  const auto width = read_window(config, "sliding_window", 4096);
  const std::int64_t first = config.count_or("max_window_layers", 28).value();
  if (used) late.width = width;
  const bool window = late.width.has_value();
  late.windowed =
      windowed_layers(config, layers, [&](std::int64_t layer) { return window && layer >= first; });
  if (!window) late.windowed.assign(late.windowed.size(), false);
  return late;
}

ExpertOptions read_expert_counts(Config& config, Checked width) {
  ExpertOptions options;
  options.width = width;
  options.experts = config.size("num_experts", kMostExperts);
  options.experts_per_token = config.size("num_experts_per_tok");
  if (options.experts > Checked(0) && options.experts_per_token > options.experts)
    config.refuse("num_experts_per_tok", "E305",
                  fmt::format("a token visits {} experts, and there are {}",
                              options.experts_per_token.value(), options.experts.value()),
                  fmt::format("expected at most {}", options.experts.value()));
  return options;
}

}  // namespace steelyard
