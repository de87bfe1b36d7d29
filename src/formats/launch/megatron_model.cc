#include "formats/launch/megatron_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/megatron_expert_layers.h"
#include "formats/launch/megatron_vocabulary.h"

namespace steelyard {
namespace {

constexpr std::string_view kOwnFamily = "megatron_gpt";

// What the flags say of the model, before a family of ours is chosen for it.
struct Shape {
  std::string position;  // "rope", "learned_absolute", "alibi", "none"
  double rotary_percent = 1;
  std::string activation;  // "silu", "gelu", "quick_gelu", "relu2", "relu"
  std::string norm;        // "LayerNorm", "LayerNorm1P", "RMSNorm"
  bool gated = false, biased = true, query_bias = false, query_norm = false, tied = true;
  bool embedding_norm = false, latent = false, sigmoid = false, router_in_float32 = false;
  bool shared_gate = false;
  bool query_rank = false;  // queries of latent attention have a latent, too
  std::int64_t layers = 0, hidden = 0, heads = 0, groups = 0, head_width = 0;  // 0: not said
  std::int64_t feed_forward = 0, experts = 0, expert_width = 0, shared_width = 0;
  std::vector<std::int64_t> dense;  // layers without experts

  bool standard_heads() const { return groups == 0 && head_width == 0; }
  bool plain_experts() const {
    return experts > 0 && activation == "silu" && norm == "RMSNorm" && !biased && !query_bias &&
           !sigmoid && !router_in_float32 && shared_width == 0 && dense.empty();
  }
};

bool dense_layers_are_first(const Shape& shape) {
  for (std::size_t i = 0; i < shape.dense.size(); ++i)
    if (shape.dense[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

// The family of config.json that has exactly these layers; else Megatron's own.
std::string_view family_of(const Shape& shape) {
  const bool rotary = shape.position == "rope";
  const bool whole_rotary = rotary && shape.rotary_percent == 1;
  const bool swiglu = shape.gated && shape.activation == "silu";
  if (shape.embedding_norm && shape.position != "alibi") return kOwnFamily;
  if (shape.latent) {
    const bool shares = shape.shared_width > 0 && shape.expert_width > 0 &&
                        shape.shared_width % shape.expert_width == 0 && !shape.shared_gate;
    return whole_rotary && swiglu && shape.norm == "RMSNorm" && !shape.biased && shape.query_rank &&
                   shape.experts > 0 && shape.sigmoid && (shares || shape.shared_width == 0) &&
                   dense_layers_are_first(shape)
               ? "deepseek_v3"
               : kOwnFamily;
  }
  if (shape.experts > 0)
    return whole_rotary && shape.gated && shape.plain_experts()
               ? (shape.query_norm ? "qwen3_moe" : "mixtral")
               : kOwnFamily;
  if (swiglu && whole_rotary && shape.norm == "RMSNorm") {
    if (shape.query_norm) return shape.biased || shape.query_bias ? kOwnFamily : "qwen3";
    return shape.query_bias && !shape.biased ? "qwen2" : "llama";
  }
  if (shape.gated || shape.query_norm) return kOwnFamily;
  const bool layer_norm = shape.norm == "LayerNorm";
  const bool as_first =
      layer_norm && shape.biased && shape.activation == "gelu" && shape.standard_heads();
  if (as_first && shape.position == "learned_absolute") return "gpt2";
  if (as_first && shape.position == "alibi" && shape.embedding_norm &&
      shape.feed_forward == 4 * shape.hidden)
    return "bloom";
  if (shape.activation == "relu2" && rotary && shape.norm != "RMSNorm" && !shape.query_bias)
    return "nemotron";
  return kOwnFamily;
}

std::string position_of(ConfigReader& reading) {
  std::string position = reading.word("position_embedding_type").value_or("learned_absolute");
  if (reading.is("use_rotary_position_embeddings")) position = "rope";
  // Of forks, and of bigscience's.
  const auto known = ours_of(
      "rope=rope|yarn=rope|rotary=rope|learned_absolute=learned_absolute|learned=learned_absolute|"
      "absolute=learned_absolute|alibi=alibi|none=none",
      position);
  // Switched off, which older versions said beside rope.
  if (reading.on("no_position_embedding") != nullptr && position == "learned_absolute")
    return "none";
  if (!known)
    reading.unweighed(*reading.theirs().find("position_embedding_type"), "position_embedding_type",
                      fmt::format("position embeddings \"{}\" are not described here", position));
  return known.value_or("none");
}

// --swiglu, --squared-relu, --quick-geglu, and of forks --glu-activation.
void read_activation(ConfigReader& reading, Shape& shape) {
  const bool swiglu = reading.is("swiglu"), squared = reading.is("squared_relu");
  const bool quick = reading.is("quick_geglu");
  const bool plain_gate = reading.is("geglu");  // NeMo's, which Megatron-LM has no flag for
  shape.gated = swiglu || quick || plain_gate;
  shape.activation = swiglu ? "silu" : squared ? "relu2" : quick ? "quick_gelu" : "gelu";
  if (const Value* gate = reading.take("glu_activation"); gate != nullptr) {
    shape.gated = true;
    const auto known = ours_of("swiglu=silu|geglu=gelu|reglu=relu|liglu=gelu", word_of(*gate));
    shape.activation = known.value_or("silu");
  }
  if (reading.is("openai_gelu") || reading.is("onnx_safe")) shape.activation = "gelu";
}

std::string norm_of(ConfigReader& reading) {
  std::string norm = ours_of("layernorm=LayerNorm|rmsnorm=RMSNorm|layernorm1p=LayerNorm1P",
                             reading.word("normalization").value_or("LayerNorm"))
                         .value_or("LayerNorm");
  if (reading.is("use_rmsnorm") || reading.is("use_rms_norm")) norm = "RMSNorm";
  // 1 + weight inside the norm's kernel
  if (reading.is("apply_layernorm_1p") && norm == "LayerNorm") norm = "LayerNorm1P";
  return norm;
}

// Megatron-DeepSpeed's --num-experts is a list, and 1 means none.
bool runs_on_deepspeed(const ConfigReader& reading) {
  return reading.theirs().find("deepspeed") != nullptr ||
         reading.theirs().find("deepspeed_config") != nullptr;
}

void read_expert_flags(ConfigReader& reading, Shape& shape) {
  if (runs_on_deepspeed(reading)) {
    for (const Value& count : reading.words("num_experts"))
      if (count_of(count).value_or(1) > 1) {
        reading.unweighed(*reading.take("num_experts"), "num_experts",
                          "the experts of DeepSpeed's own MoE layer");
        break;
      }
    return;
  }
  shape.experts = reading.count("num_experts").value_or(0);
  if (shape.experts < 1) return;
  shape.expert_width = reading.count("moe_ffn_hidden_size").value_or(shape.feed_forward);
  shape.shared_width = reading.count("moe_shared_expert_intermediate_size").value_or(0);
  shape.shared_gate = reading.is("moe_shared_expert_gate");
  shape.sigmoid = reading.word("moe_router_score_function").value_or("softmax") == "sigmoid";
  shape.router_in_float32 = reading.word("moe_router_dtype").value_or("none") != "none";
  const Value* frequency = reading.take("moe_layer_freq");
  if (frequency == nullptr || shape.layers < 1) return;
  const auto dense = dense_layers_of(*frequency, shape.layers);
  if (!dense)
    return reading.refuse(*frequency,
                          fmt::format("moe-layer-freq {} does not say which of {} layers have "
                                      "experts",
                                      shown(*frequency), shape.layers),
                          "expected a number, or a list as ([0]*3+[1]*58)");
  shape.dense = *dense;
}

void read_flags(ConfigReader& reading, Shape& shape) {
  shape.layers = reading.count("num_layers").value_or(0);
  shape.hidden = reading.count("hidden_size").value_or(0);
  shape.heads = reading.count("num_attention_heads").value_or(0);
  shape.position = position_of(reading);
  if (const Value* part = reading.take("rotary_percent"); part != nullptr && part->is_number())
    shape.rotary_percent = part->as_number();
  read_activation(reading, shape);
  shape.norm = norm_of(reading);
  shape.biased = !reading.is("disable_bias_linear");
  shape.query_bias = reading.is("add_qkv_bias");
  shape.query_norm = reading.is("qk_layernorm");
  shape.tied = !reading.is("untie_embeddings_and_output_weights");
  shape.embedding_norm = reading.is("embed_layernorm");
  shape.latent = reading.is("multi_latent_attention");
  shape.query_rank = reading.count("q_lora_rank").has_value();
  // Groups count only with --group-query-attention; Megatron-DeepSpeed has a flag of its own.
  const auto groups = reading.count("num_query_groups");
  if (reading.is("group_query_attention")) shape.groups = groups.value_or(1);
  if (const auto heads = reading.count("num_key_value_heads"); heads && *heads != shape.heads)
    shape.groups = *heads;
  if (shape.groups == shape.heads) shape.groups = 0;
  shape.head_width = reading.count("kv_channels").value_or(0);
  if (shape.heads > 0 && shape.head_width * shape.heads == shape.hidden) shape.head_width = 0;
  const std::int64_t wide = std::min<std::int64_t>(shape.hidden, 1'000'000'000);
  const bool swiglu = shape.gated && shape.activation == "silu" &&
                      reading.theirs().find("glu_activation") == nullptr;
  const std::int64_t standard =
      swiglu ? static_cast<std::int64_t>(static_cast<double>(4 * wide) * 2 / 3 / 64) * 64
             : 4 * wide;
  shape.feed_forward = reading.count("ffn_hidden_size").value_or(standard);
  read_expert_flags(reading, shape);
}

// Flags whose tensors are not described here: the run is refused by their names.
constexpr UnweighedKey kOtherLayers[] = {
    {"hybrid_layer_pattern", "state-space layers among those of attention"},
    {"hybrid_override_pattern", "state-space layers among those of attention"},
    {"hybrid_attention_ratio", "state-space layers among those of attention"},
    {"is_hybrid_model", "state-space layers among those of attention"},
    {"experimental_attention_variant", "another attention"},
    {"linear_attention_freq", "linear attention among the layers"},
    {"moe_latent_size", "experts behind a projection of their own"},
    {"softmax_type", "attention with sinks"},
    {"attention_output_gate", "a gate behind attention"},
    {"heterogeneous_layers_config_path", "layers of different widths"},
    {"heterogeneous_layers_config_encoded_json", "layers of different widths"},
    {"retro_add_retriever", "RETRO's retriever beside the decoder"},
    {"perform_rl_step", "rollouts are generated during training"},
    {"kd", "a teacher's logits beside the student's"},
    {"load_teacher", "a teacher beside the student"},
    {"teacher_model_path", "a teacher beside the student"},
    {"export_kd_teacher_load", "a teacher beside the student"},
    {"use_legacy_models", "the model code before Megatron-core: weighed as Megatron-core's", true},
};

// Whose layers a --spec names: Megatron-core's GPT of one implementation or another, or another model.
void read_spec(ConfigReader& reading) {
  std::string whole;
  for (const Value& word : reading.words("spec")) whole += word_of(word) + " ";
  const Value* spec = reading.take("spec");
  if (spec == nullptr) return;
  if (whole.find("gpt_layer_specs") != std::string::npos || whole == "local ") {
    if (whole.find("local") != std::string::npos) reading.say("training.kernels", "local", *spec);
    return;
  }
  if (whole.find("mamba") != std::string::npos || whole.find("hybrid") != std::string::npos)
    return reading.unweighed(*spec, "spec", "state-space layers");
  reading.unweighed(*spec, "spec", "layers of somebody's own");
}

void put_attention(ConfigReader& reading, const Shape& shape, std::string_view family,
                   ModelTable& model) {
  if (shape.latent) {
    const auto rank = reading.count("q_lora_rank");
    if (rank) model.put("q_lora_rank", Value::integer(*rank));
    model.put("kv_lora_rank", Value::integer(reading.count("kv_lora_rank").value_or(32)));
    model.put("qk_nope_head_dim", Value::integer(reading.count("qk_head_dim").value_or(128)));
    model.put("qk_rope_head_dim",
              Value::integer(reading.count("qk_pos_emb_head_dim").value_or(64)));
    model.put("v_head_dim", Value::integer(reading.count("v_head_dim").value_or(128)));
    return;
  }
  const bool whole_heads = family == "gpt2" || family == "bloom";  // no groups, no width of a head
  if (whole_heads) return;
  if (shape.heads > 0)
    model.put("num_key_value_heads", Value::integer(shape.groups > 0 ? shape.groups : shape.heads),
              shape.groups > 0 ? reading.theirs().find("num_query_groups")
                               : reading.theirs().find("num_attention_heads"));
  if (const auto channels = reading.count("kv_channels"))
    model.put("head_dim", Value::integer(*channels), reading.theirs().find("kv_channels"));
}

void put_experts(ConfigReader& reading, const Shape& shape, std::string_view family,
                 ModelTable& model) {
  if (shape.experts < 1) return;
  const Value* from = reading.theirs().find("num_experts");
  model.put(family == "mixtral"       ? "num_local_experts"
            : family == "deepseek_v3" ? "n_routed_experts"
                                      : "num_experts",
            Value::integer(shape.experts), from);
  const std::int64_t top = reading.count("moe_router_topk").value_or(2);
  model.put("num_experts_per_tok", Value::integer(top), reading.theirs().find("moe_router_topk"));
  if (family == "mixtral") return;
  model.put("moe_intermediate_size", Value::integer(shape.expert_width));
  if (family == "deepseek_v3") {
    if (shape.shared_width > 0)
      model.put("n_shared_experts", Value::integer(shape.shared_width / shape.expert_width));
    else
      model.put("n_shared_experts", Value::integer(0));
    model.put("first_k_dense_replace",
              Value::integer(static_cast<std::int64_t>(shape.dense.size())));
    return;
  }
  if (family != kOwnFamily) return;
  if (shape.shared_width > 0)
    model.put("shared_expert_intermediate_size", Value::integer(shape.shared_width),
              reading.theirs().find("moe_shared_expert_intermediate_size"));
  if (shape.shared_gate) model.put("shared_expert_gate", Value::boolean(true));
  if (shape.sigmoid) model.put("scoring_func", Value::string("sigmoid"));
  if (shape.router_in_float32) model.put("router_in_float32", Value::boolean(true));
  if (shape.dense.empty()) return;
  Value list = Value::array();
  for (const std::int64_t layer : shape.dense) list.items().push_back(Value::integer(layer));
  model.put("mlp_only_layers", std::move(list), reading.theirs().find("moe_layer_freq"));
}

// What the families leave to a key, each in its own words.
void put_particulars(ConfigReader& reading, const Shape& shape, std::string_view family,
                     ModelTable& model) {
  if (family == "llama" || family == "nemotron") {
    model.put("attention_bias", Value::boolean(shape.biased));
    model.put("mlp_bias", Value::boolean(shape.biased));
  }
  if (family == "nemotron") model.put("partial_rotary_factor", Value::number(shape.rotary_percent));
  if (family == kOwnFamily) {
    model.put("normalization", Value::string(shape.norm));
    model.put("position_embedding_type", Value::string(shape.position));
    if (shape.position == "rope" && shape.rotary_percent != 1)
      model.put("rotary_pct", Value::number(shape.rotary_percent));
    model.put("gated_linear_unit", Value::boolean(shape.gated));
    model.put("hidden_act",
              Value::string(shape.activation == "gelu" ? "gelu_pytorch_tanh" : shape.activation));
    model.put("add_bias_linear", Value::boolean(shape.biased));
    if (shape.query_bias) model.put("add_qkv_bias", Value::boolean(true));
    if (shape.query_norm) model.put("qk_layernorm", Value::boolean(true));
    if (shape.embedding_norm) model.put("embedding_layernorm", Value::boolean(true));
  }
  const bool first = family == "gpt2" || family == "bloom";
  const Value* epsilon = reading.take("norm_epsilon");
  if (epsilon == nullptr) epsilon = reading.take("layernorm_epsilon");
  if (epsilon != nullptr)
    model.put(first                  ? "layer_norm_epsilon"
              : family == kOwnFamily ? "layer_norm_eps"
              : family == "nemotron" ? "norm_eps"
                                     : "rms_norm_eps",
              *epsilon, epsilon);
  model.put("tie_word_embeddings", Value::boolean(shape.tied));
}

}  // namespace

void read_megatron_model(ConfigReader& reading) {
  read_spec(reading);
  reading.unweighed(kOtherLayers);
  const Value* layers = reading.take("num_layers");
  const Value* hidden = reading.take("hidden_size");
  if (layers == nullptr && hidden == nullptr) return;
  const Value& at = layers == nullptr ? *hidden : *layers;
  Shape shape;
  read_flags(reading, shape);
  const std::string family(family_of(shape));
  ModelTable model(at);
  model.put("model_type", Value::string(family));
  const auto size = [&](std::string_view key, std::int64_t count, std::string_view flag) {
    if (count > 0) model.put(key, Value::integer(count), reading.theirs().find(flag));
  };
  size("num_hidden_layers", shape.layers, "num_layers");
  size("hidden_size", shape.hidden, "hidden_size");
  size("num_attention_heads", shape.heads, "num_attention_heads");
  put_attention(reading, shape, family, model);
  if (family == "mixtral")
    size("intermediate_size", shape.expert_width, "moe_ffn_hidden_size");
  else
    size(family == "gpt2" || family == "bloom" ? "n_inner" : "intermediate_size",
         shape.feed_forward, "ffn_hidden_size");
  if (const auto positions = reading.count("max_position_embeddings"))
    size("max_position_embeddings", *positions, "max_position_embeddings");
  put_experts(reading, shape, family, model);
  put_particulars(reading, shape, family, model);
  read_megatron_vocabulary(reading, model);
  reading.say("model", std::move(model).value(), at);
}

}  // namespace steelyard
