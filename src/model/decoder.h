// What nearly all families share: the shape keys of a decoder, its embedding, final norm, head and
// layer order.
//
//   const DecoderShape shape = read_decoder_shape(config, {.key_value_heads = 8});
//   Architecture model = begin_decoder(shape, {});          embedding, final norm, head
//   set_layers(model, std::move(layer));                    one kind, all the way down
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "model/architecture.h"
#include "model/config.h"
#include "model/modules.h"

namespace steelyard {

// Class defaults of a family: they hold when a key is absent.
struct DecoderDefaults {
  std::int64_t key_value_heads = 0;  // 0: as many as query heads
  std::int64_t head_width = 0;       // 0: hidden / heads
  double rotary_fraction = 1;
  bool tied = false;
};

struct DecoderShape {
  Checked hidden;
  Checked layers;
  Checked vocabulary;
  Checked positions;  // 0: not stated
  HeadShape heads;
  bool tied = false;
};
DecoderShape read_decoder_shape(Config& config, const DecoderDefaults& defaults);
// Of an encoder of images or of their texts: a key and a value for each head, and heads that share the width.
HeadShape read_heads(Config& config);

struct DecoderNames {
  std::string_view embedding = "model.embed_tokens.weight";
  std::string_view layers = "model.layers.";
  std::string_view final_norm = "model.norm";
  std::string_view head = "lm_head";
  NormKind final_norm_kind = NormKind::kRms;
  bool has_final_norm = true;
  bool head_bias = false;
};
// Embedding, final norm and head. The embedding is as wide as `embedding_width` says, or as the
// model.
Architecture begin_decoder(const DecoderShape& shape, const DecoderNames& names,
                           std::optional<Checked> embedding_width = std::nullopt);

// A learned table [rows, width] beside the token embedding; every rank of a tensor-parallel group
// has it whole.
void add_learned_positions(Architecture& model, std::string_view name, Checked rows);
void set_embedding_norm(Architecture& model, Norm norm);

void set_layers(Architecture& model, Layer layer);
// Layer i is kinds[kind_of_layer[i]]; kinds that do not occur are dropped.
void set_layers(Architecture& model, std::vector<Layer> kinds, std::vector<int> kind_of_layer);

// For every layer, whether it looks through the sliding window: as the file's `layer_types` says,
// else by the family's rule.
std::vector<bool> windowed_layers(Config& config, Checked layers,
                                  const std::function<bool(std::int64_t)>& rule);
// For every layer, whether it rotates query and key: `no_rope_layers` holds a 1 for those that do; else every
// `no_rope_layer_interval`-th, the fourth by default, does not.
std::vector<bool> rotated_layers(Config& config, Checked layers);
// The rule of the qwen families: no window unless use_sliding_window, and then from
// max_window_layers on.
struct LateWindow {
  std::optional<std::int64_t> width;
  std::vector<bool> windowed;
};
LateWindow read_late_window(Config& config, Checked layers);

// The width of a sliding window; null and 0 mean none, an absent key means the class default.
std::optional<std::int64_t> read_window(Config& config, std::string_view key,
                                        std::int64_t fallback);

// The number of experts and of those that one token visits; a fault when a token visits more than
// there are.
ExpertOptions read_expert_counts(Config& config, Checked width);

}  // namespace steelyard
