// T5: an encoder and a decoder around one table of tokens. Norms before the sublayers, no biases; relative positions that the
// first layer of each stack looks up; a feed-forward network with relu (1.0) or a gate (1.1, Flan). From 1.1 on the head is a
// tensor of its own, and what it reads is not scaled.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {
namespace {

struct T5Shape {
  HeadShape heads;
  Checked width = 0, buckets = 0;
  double dropout = 0;
  bool gated = false;
  Activation activation = Activation::kRelu;
};

// "relu", "gelu", "gated-gelu": the last means gelu_new.
void read_feed_forward(Config& config, T5Shape& shape, const char* fallback) {
  const std::string written = config.find_word("feed_forward_proj").value_or(fallback);
  const auto is = [&](std::string_view word) { return written == word; };
  if (is("relu")) return;
  if (is("gated-gelu")) {
    shape.gated = true;
    shape.activation = Activation::kGeluPython;
  } else if (is("gated-silu")) {
    shape.gated = true;
    shape.activation = Activation::kSilu;
  } else if (is("gelu")) {
    shape.activation = Activation::kGeluErf;
  } else {
    config.refuse("feed_forward_proj", "E303",
                  fmt::format("\"feed_forward_proj\" is \"{}\", not known here", written),
                  "expected \"relu\", \"gelu\", \"gated-gelu\" or \"gated-silu\"");
  }
}

GroupedAttention add_t5_attention(Tensors& tensors, const T5Shape& shape, std::string_view prefix,
                                  bool causal, bool looks_up) {
  GroupedAttention attention = add_attention(tensors, shape.heads,
                                             {.prefix = prefix,
                                              .query = "q",
                                              .key = "k",
                                              .value = "v",
                                              .output = "o",
                                              .dropout = shape.dropout});
  attention.causal = causal;
  attention.relative = RelativePositions{shape.buckets.value()};
  if (!looks_up) return attention;
  attention.relative->table_index =
      add_tensor(tensors, std::string(prefix) + "relative_attention_bias.weight",
                 {shape.buckets.value(), shape.heads.heads.value()}, TensorRole::kOther);
  return attention;
}

Layer t5_layer(const T5Shape& shape, bool decoder, bool first) {
  Layer layer;
  layer.encodes = !decoder;
  Tensors& tensors = layer.parameters;
  const auto norm = [&](const char* name) {
    return add_norm(tensors, name, NormKind::kRmsNarrowInput, shape.heads.hidden);
  };
  layer.attention = add_t5_attention(tensors, shape, "layer.0.SelfAttention.", decoder, first);
  layer.norms = {norm("layer.0.layer_norm")};
  if (decoder) {
    CrossAttention cross;
    cross.attention = add_t5_attention(tensors, shape, "layer.1.EncDecAttention.", false, false);
    cross.norm = norm("layer.1.layer_norm");
    layer.cross_attention = std::move(cross);
  }
  const std::string last = decoder ? "layer.2." : "layer.1.";
  const std::string inner = last + "DenseReluDense.";
  DenseMlp mlp;
  mlp.gated = shape.gated;
  mlp.activation = shape.activation;
  mlp.width = shape.width.value();
  mlp.inner_dropout = true;
  if (shape.gated) mlp.gate = add_linear(tensors, inner + "wi_0", shape.heads.hidden, shape.width);
  mlp.up =
      add_linear(tensors, inner + (shape.gated ? "wi_1" : "wi"), shape.heads.hidden, shape.width);
  mlp.down =
      add_linear(tensors, inner + "wo", shape.width, shape.heads.hidden, {.split = Split::kInputs});
  layer.mlp = std::move(mlp);
  layer.norms.push_back(norm((last + "layer_norm").c_str()));
  layer.residual_dropout = shape.dropout;
  return layer;
}

Architecture read_encoder_decoder(Config& config, const char* feed_forward) {
  T5Shape shape;
  DecoderShape whole;
  whole.hidden = shape.heads.hidden = config.size("hidden_size");
  whole.vocabulary = config.size("vocab_size");
  whole.tied = config.flag_or("tie_word_embeddings", true);
  const Checked encoder = config.size("num_hidden_layers", kMostLayers);
  const Checked decoder = config.size_or("num_decoder_layers", encoder, kMostLayers);
  whole.layers = encoder + decoder;
  shape.heads.heads = shape.heads.key_value_heads = config.size("num_attention_heads");
  shape.heads.width = config.size("d_kv");
  shape.width = config.size("d_ff");
  shape.buckets = config.size_or("relative_attention_num_buckets", 32);
  shape.dropout = config.fraction_or("dropout_rate", 0.1);
  read_feed_forward(config, shape, feed_forward);
  // n_positions limits nothing: distances have no end.
  config.know({"relative_attention_max_distance", "n_positions", "task_specific_params",
               "dense_act_fn", "is_gated_act", "max_position_embeddings"});

  Architecture model = begin_decoder(whole, {.embedding = "shared.weight",
                                             .layers = "encoder.block.",
                                             .final_norm = "decoder.final_layer_norm",
                                             .final_norm_kind = NormKind::kRmsNarrowInput});
  model.encoder = true;
  model.position_ids = PositionIds::kNone;
  model.rotary_tables = 0;
  model.embedding_dropout = shape.dropout;
  EncoderPart part;
  part.layers = encoder.value();
  part.norm = add_norm(model.embedding_parameters, "encoder.final_layer_norm",
                       NormKind::kRmsNarrowInput, shape.heads.hidden);
  part.decoder_prefix = "decoder.block.";
  part.scaled_output = whole.tied;
  model.encoder_part = std::move(part);
  std::vector<int> kind_of_layer;
  for (std::int64_t i = 0; i < encoder.value(); ++i) kind_of_layer.push_back(i == 0 ? 0 : 1);
  for (std::int64_t i = 0; i < decoder.value(); ++i) kind_of_layer.push_back(i == 0 ? 2 : 3);
  set_layers(model,
             {t5_layer(shape, false, true), t5_layer(shape, false, false),
              t5_layer(shape, true, true), t5_layer(shape, true, false)},
             std::move(kind_of_layer));
  return model;
}

}  // namespace

Architecture read_t5(Config& config) { return read_encoder_decoder(config, "relu"); }

// mT5 has T5's layers in code of its own, and scales nothing that its head reads.
Architecture read_mt5(Config& config) {
  Architecture model = read_encoder_decoder(config, "gated-gelu");
  model.encoder_part->scaled_output = false;
  return model;
}

}  // namespace steelyard
