// GPT-NeoX: megatron/neox_arguments (2.0), megatron/model/transformer.py. One document, laid out over several files.
//
//   python ./deepy.py train.py -d configs 125M.yml local_setup.yml
//   { "pipe_parallel_size": 1, "model_parallel_size": 1, "num_layers": 12, "hidden_size": 768, "pos_emb": "rotary",
//     "zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": 4, "fp16": {"enabled": true} }
//
// Its layers are Megatron's, and DeepSpeed trains them: what belongs to DeepSpeed's JSON is handed to its reader.
#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/arguments.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/megatron_vocabulary.h"
#include "formats/launch/programs.h"

namespace steelyard {
namespace {

// Keys of a NeoX configuration that are DeepSpeed's own (megatron/neox_arguments/deepspeed_args.py).
constexpr std::string_view kDeepSpeedKeys[] = {
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "optimizer",
    "gradient_clipping",
    "zero_optimization",
    "fp16",
    "bf16",
    "amp",
    "data_types",
    "communication_data_type",
    "activation_checkpointing",
    "elasticity",
    "compression_training",
};

constexpr Row kNeoxRows[] = {
    {"seq_length", "training.sequence_length"},
    {"sequence_parallel", "parallel.sequence_parallel", "", "", "false"},
    {"make_vocab_size_divisible_by", "training.vocabulary_multiple", "", "", "128"},
    {"hidden_dropout", "training.hidden_dropout", "", "", "0"},
    {"attention_dropout", "training.attention_dropout", "", "", "0"},
    {"train_impl", "training.method", "normal=pretrain|dpo=dpo|rm=rm|kto=kto|reinforce=grpo", "",
     "pretrain"},
};

constexpr UnweighedKey kNeoxOthers[] = {
    {"soft_prompt_tuning", "only a prompt is trained, and everything else is frozen"},
    {"num_unique_layers", "layers share their parameters"},
    {"checkpoint_in_cpu", "checkpoints are copied to the host"},
    {"contiguous_checkpointing", "checkpoints are copied into one buffer"},
    {"use_bnb_optimizer", "bitsandbytes' optimizer holds states of 8 bits"},
    {"te_columnparallel", "Transformer Engine's layers: weighed as Megatron's", true},
    {"te_rowparallel", "Transformer Engine's layers: weighed as Megatron's", true},
    {"te_layernorm_mlp", "Transformer Engine's layers: weighed as Megatron's", true},
    {"te_mha", "Transformer Engine's layers: weighed as Megatron's", true},
    {"gpt_j_tied", "one norm for attention and MLP: weighed with two", true},
};

// Names with dashes are the same keys, as NeoXArgs.from_ymls takes them.
Value with_underscores(const Value& document) {
  Value result = Value::table();
  result.set_mark(document.mark());
  for (const Value::Member& member : document.members()) {
    std::string key = member.key;
    std::replace(key.begin(), key.end(), '-', '_');
    if (result.member(key) == nullptr)
      result.members().push_back({std::move(key), member.key_mark, member.value});
  }
  return result;
}

// The part that DeepSpeed's engine is told, with what NeoX fills in; taken from what `reading` carries.
Value deepspeed_part(ConfigReader& reading) {
  const Value& theirs = reading.theirs();
  Value part = Value::table();
  part.set_mark(theirs.mark());
  for (const std::string_view key : kDeepSpeedKeys)
    if (const Value* value = theirs.find(key); value != nullptr && !value->is_null()) {
      reading.take(key);
      part.members().push_back({std::string(key), value->mark(), *value});
    }
  // Some of its files have the section's name in the section; nothing reads it.
  remove_path(part, "fp16.fp16");
  remove_path(part, "bf16.bf16");
  if (const Value* more = theirs.find("deepspeed_extra_args");
      more != nullptr && more->is_table()) {
    reading.take("deepspeed_extra_args");
    lay_over_document(part, *more);
  }
  if (const Value* precision = reading.take("precision")) {
    const std::string word = word_of(*precision);
    const auto section = ours_of("fp16=fp16|bfloat16=bf16|bf16=bf16|fp32=", word);
    if (!section)
      reading.refuse(*precision, fmt::format("precision: {} is not read", word),
                     "fp16, bfloat16 and fp32 are");
    else if (!section->empty()) {
      Value on = Value::boolean(true);
      on.set_mark(precision->mark());
      set_path(part, *section + ".enabled", std::move(on), precision->place());
    }
  }
  // NeoX clips by 1.0 unless told; DeepSpeed's own file would not.
  if (part.find("gradient_clipping") == nullptr)
    set_path(part, "gradient_clipping", Value::number(1.0), theirs.place());
  return part;
}

struct NeoxActivation {
  bool gated = false;
  std::string ours = "gelu";
};

NeoxActivation activation_of(ConfigReader& reading) {
  const Value* said = reading.take("activation");
  const std::string word = said == nullptr ? "gelu" : word_of(*said);
  NeoxActivation result;
  // A gate of any function keeps what silu's does, one input of the function and the other factor.
  const auto gate = ours_of("swiglu=silu|geglu=gelu|reglu=relu", word);
  const auto plain = ours_of("gelu=gelu|relu=relu|silu=silu|swish=silu", word);
  result.gated = gate.has_value();
  if (!gate && !plain) {
    reading.unweighed(*said, fmt::format("activation {}", word),
                      "what this function keeps for backward is not described here");
    return result;
  }
  result.ours = gate ? *gate : *plain;
  // bias_gelu_fusion computes tanh's approximation in one kernel (megatron/model/fused_bias_gelu.py).
  if (reading.is("bias_gelu_fusion") && word == "gelu") result.ours = "gelu_pytorch_tanh";
  return result;
}

// The width of the MLP: gated ones take two thirds of it, and both are rounded up (ParallelMLP's constructor).
std::int64_t feed_forward_of(ConfigReader& reading, std::int64_t hidden, bool gated) {
  const Value* factor = reading.take("expansion_factor");
  std::int64_t width = 4 * hidden;
  if (const auto said = reading.count("intermediate_size"); said && *said > 0)
    width = *said;
  else if (factor != nullptr && factor->is_number() && factor->as_number() < 1'000)
    width = static_cast<std::int64_t>(factor->as_number() * static_cast<double>(hidden));
  const std::int64_t multiple =
      std::clamp<std::int64_t>(reading.count("mlp_multiple_of").value_or(1), 1, 1'000'000);
  width = std::min<std::int64_t>(width, 1'000'000'000);
  if (gated) width = width * 2 / 3 / 2;
  return (width + multiple - 1) / multiple * multiple;
}

// megatron/model/moe_mlp.py, LLaMAParallelMLP, which mlp_type: llama named before 2.1: SwiGLU without biases.
std::int64_t llama_feed_forward(ConfigReader& reading, std::int64_t hidden) {
  if (const auto said = reading.count("intermediate_size"); said && *said > 0) return *said;
  const std::int64_t width = 8 * hidden / 3;
  return (width + 255) / 256 * 256;
}

struct NeoxNorm {
  bool rms = false;
};

NeoxNorm norm_of_neox(ConfigReader& reading) {
  const Value* said = reading.take("norm");
  const std::string word = said == nullptr ? "layernorm" : word_of(*said);
  const auto ours = ours_of(
      "layernorm=LayerNorm|te_layernorm=LayerNorm|rmsnorm=RMSNorm|te_rmsnorm=RMSNorm", word);
  if (!ours)
    reading.warn(*said, fmt::format("norm {} has fewer parameters", word),
                 "weighed as layernorm, a few vectors more");
  if (const Value* bias = reading.take("use_bias_in_norms");
      bias != nullptr && !truth_of(*bias).value_or(true) && ours.value_or("LayerNorm") != "RMSNorm")
    reading.warn(*bias, "norms without biases", "weighed with them, a few vectors more");
  return {ours.value_or("LayerNorm") == "RMSNorm"};
}

std::string position_of_neox(ConfigReader& reading) {
  const Value* said = reading.take("pos_emb");
  const std::string word = said == nullptr ? "learned" : word_of(*said);
  const auto ours =
      ours_of("rotary=rope|learned=learned_absolute|alibi=alibi|none=none|sinusoidal=none", word);
  if (!ours)
    reading.unweighed(*said, fmt::format("pos_emb {}", word), "a table of relative positions");
  return ours.value_or("none");
}

// Of both sizes 0 means that nothing is divided, as 1 does for memory.
void read_neox_parallel(ConfigReader& reading) {
  for (const auto& [theirs, ours] : {std::pair{"model_parallel_size", "parallel.tensor"},
                                     std::pair{"pipe_parallel_size", "parallel.pipeline"}}) {
    const Value* said = reading.take(theirs);
    if (said == nullptr)
      reading.take_default(ours, Value::integer(1), "GPT-NeoX divides nothing unless told");
    else
      reading.say(ours, count_of(*said) == 0 ? Value::integer(1) : *said, *said);
  }
  const Value* tensor = reading.said("parallel.tensor");
  if (count_of(*tensor).value_or(1) < 2)
    reading.idle({"partition_activations", "sequence_parallel"});
  else if (const Value* divided = reading.on("partition_activations"))
    reading.warn(*divided, "partition_activations divides checkpoints over the tensor ranks",
                 "they are weighed whole");
}

void read_neox_model(ConfigReader& reading) {
  const Value* layers = reading.take("num_layers");
  const Value* hidden_size = reading.take("hidden_size");
  if (layers == nullptr || hidden_size == nullptr)
    return reading.lacks("model", "num_layers and hidden_size are in another file of this run");
  for (const Value* value : {layers, hidden_size})
    if (reading.asks("model", *value)) return;
  ModelTable model(*layers);
  const auto whether = [&](const char* key, bool otherwise) {
    return reading.truth(key).value_or(otherwise);
  };
  const std::int64_t hidden =
      std::clamp<std::int64_t>(count_of(*hidden_size).value_or(0), 0, 1'000'000'000);
  const bool llama_mlp = reading.word("mlp_type").value_or("regular") == "llama";
  NeoxActivation activation = activation_of(reading);
  if (llama_mlp) activation = {true, "silu"};
  const bool rms = norm_of_neox(reading).rms;
  const bool parallel = whether("gpt_j_residual", false);
  const bool mlp_bias = whether("use_bias_in_mlp", true) && !llama_mlp;
  const bool attention_bias = whether("use_bias_in_attn_linear", true);
  const bool query_norm = whether("use_qk_layernorm", false);
  const std::string position = position_of_neox(reading);
  const Value* part = reading.take("rotary_pct");
  const double rotary = part != nullptr && part->is_number() ? part->as_number() : 1.0;
  const bool as_llama = rms && activation.gated && activation.ours == "silu" && !parallel &&
                        !query_norm && position == "rope" && rotary == 1.0;
  model.put("model_type", Value::string(as_llama ? "llama" : "megatron_gpt"), layers);
  model.put("num_hidden_layers", *layers, layers);
  model.put("hidden_size", *hidden_size, hidden_size);
  const Value* heads = reading.take("num_attention_heads");
  if (heads == nullptr)
    return reading.lacks("model", "num_attention_heads is in another file of this run");
  model.put("num_attention_heads", *heads, heads);
  const Value* groups = reading.take("num_kv_heads");
  if (groups != nullptr && groups->is_null()) groups = nullptr;
  model.put("num_key_value_heads", groups == nullptr ? *heads : *groups,
            groups == nullptr ? heads : groups);
  const std::int64_t width = llama_mlp ? llama_feed_forward(reading, hidden)
                                       : feed_forward_of(reading, hidden, activation.gated);
  model.put("intermediate_size", Value::integer(width), reading.theirs().find("intermediate_size"));
  if (const Value* positions = reading.take("max_position_embeddings"))
    model.put("max_position_embeddings", *positions, positions);
  if (as_llama) {
    model.put("attention_bias", Value::boolean(attention_bias));
    model.put("mlp_bias", Value::boolean(mlp_bias));
  } else {
    model.put("normalization", Value::string(rms ? "RMSNorm" : "LayerNorm"));
    model.put("position_embedding_type", Value::string(position));
    if (position == "rope" && rotary != 1.0) model.put("rotary_pct", *part, part);
    model.put("gated_linear_unit", Value::boolean(activation.gated));
    model.put("hidden_act", Value::string(activation.ours));
    model.put("add_bias_linear", Value::boolean(mlp_bias));
    model.put("add_qkv_bias", Value::boolean(attention_bias));
    if (parallel) model.put("use_parallel_residual", Value::boolean(true));
    if (query_norm) model.put("qk_layernorm", Value::boolean(true));
    if (attention_bias != mlp_bias)
      reading.warn(*layers, "biases of attention alone, or of the MLP alone",
                   "one vector of a layer is weighed otherwise");
  }
  model.put("tie_word_embeddings", Value::boolean(!whether("no_weight_tying", false)));
  read_megatron_vocabulary(reading, model);
  reading.say("model", std::move(model).value(), *layers);
}

// attention_config: [[["flash"], 12]], kinds and how often each list of them is repeated.
void read_attention_config(ConfigReader& reading) {
  const Value* config = reading.take("attention_config");
  std::vector<std::string> kinds;
  if (config != nullptr && config->is_array())
    for (const Value& group : config->items()) {
      if (!group.is_array() || group.items().empty()) continue;
      for (const Value& kind : words_of(&group.items().front())) kinds.push_back(word_of(kind));
    }
  bool flash = !kinds.empty();
  for (const std::string& kind : kinds) {
    if (kind != "global" && kind != "flash")
      return reading.unweighed(*config, fmt::format("attention_config {}", kind),
                               "layers of this kind are not described here");
    flash = flash && kind == "flash";
  }
  if (flash) return reading.say("training.attention", "flash", *config);
  if (std::find(kinds.begin(), kinds.end(), "flash") != kinds.end())
    reading.warn(*config, "layers of flash and of global attention", "all are weighed as global");
  if (config == nullptr)
    reading.take_default("training.attention", Value::string("eager"),
                         "GPT-NeoX writes attention out unless attention_config says flash");
  else
    reading.say("training.attention", "eager", *config);
}

void read_neox_recompute(ConfigReader& reading) {
  const Value* checkpoints = reading.on("checkpoint_activations");
  const std::int64_t each = reading.count("checkpoint_num_layers").value_or(1);
  if (checkpoints == nullptr)
    return reading.take_default("recompute.mode", Value::string("none"),
                                "GPT-NeoX recomputes nothing unless told");
  reading.say("recompute.mode", "full", *checkpoints);
  if (each > 1)
    reading.warn(*checkpoints, fmt::format("checkpoints of {} layers at once", each),
                 "weighed as a checkpoint of every layer");
}

// deepy.py hands these to DeepSpeed's launcher; without them a hostfile or the machine decides.
void read_neox_devices(ConfigReader& reading) {
  const Value* all = reading.take("global_num_gpus");
  const Value* each = reading.take("num_gpus");
  const Value* nodes = reading.take("num_nodes");
  if (all != nullptr && count_of(*all)) return reading.say("cluster.devices", *all, *all);
  const std::int64_t machines = nodes == nullptr ? 1 : count_of(*nodes).value_or(0);
  const std::int64_t devices = each == nullptr ? 0 : count_of(*each).value_or(0);
  if (devices < 1 || machines < 1 || devices > 4'096 || machines > 100'000) {
    if (!reading.has("cluster.devices"))
      reading.lacks("cluster.devices", "num_gpus and num_nodes, or a hostfile, say it");
    return;
  }
  reading.say("cluster.devices", Value::integer(devices * machines), *each);
  reading.say("cluster.devices_per_node", Value::integer(devices), *each);
}

void read_neox(const Value& document, Launch& launch) {
  const Value plain = with_underscores(document);
  launch.into.formats.emplace_back("GPT-NeoX configuration");
  ConfigReader reading(plain, "gpt-neox", launch.into);
  reading.say("implementation", "megatron", plain);
  read_neox_model(reading);
  read_neox_parallel(reading);
  reading.rows(kNeoxRows);
  if (const Value* experts = reading.take("moe_num_experts");
      experts != nullptr && count_of(*experts).value_or(0) > 1)
    reading.unweighed(*experts, "moe_num_experts", "experts of megablocks under DeepSpeed");
  reading.unweighed(kNeoxOthers);
  read_attention_config(reading);
  read_neox_recompute(reading);
  read_neox_devices(reading);
  const Value* stages = reading.said("parallel.pipeline");
  if (stages != nullptr && count_of(*stages).value_or(1) > 1) {
    reading.take_default("parallel.schedule", Value::string("1f1b"), "DeepSpeed's order");
    const Value* method = reading.take("pipe_partition_method");
    const std::string word = method == nullptr ? "type:transformer|mlp" : word_of(*method);
    if (word != "type:transformer|mlp" && word != "type:transformer")
      reading.warn(*method, fmt::format("pipe_partition_method {} is not followed", word),
                   "the layers are weighed in equal stages",
                   "pipeline_layout = [...] states the layers of each stage");
  }
  const Value part = deepspeed_part(reading);
  reading.carry_rest();
  read_deepspeed(part, launch);
  if (!reading.has("training.gradient_accumulation") && !reading.has("training.global_batch"))
    reading.take_default("training.gradient_accumulation", Value::integer(1),
                         "GPT-NeoX accumulates nothing unless told");
}

bool is_neox_document(const Value& document) {
  if (!document.is_table()) return false;
  const auto has = [&](std::initializer_list<const char*> keys) {
    return std::any_of(keys.begin(), keys.end(),
                       [&](const char* key) { return document.find(key) != nullptr; });
  };
  if (has({"pipe_parallel_size", "pipe-parallel-size", "checkpoint_factor", "checkpoint-factor"}))
    return true;
  return has({"num_layers", "num-layers"}) &&
         has({"gpt_j_residual", "gpt-j-residual", "no_weight_tying", "no-weight-tying", "pos_emb",
              "pos-emb", "attention_config", "attention-config"});
}

bool is_neox(const ProgramCall& call) { return call.name == "deepy"; }

// deepy.py SCRIPT [-d FOLDER] FILES...: endings are added, and of all files one document is made.
bool read_neox_program(const ProgramCall& call, Launch& launch) {
  if (call.words.empty() || !call.words.front().as_string().ends_with("train.py")) return false;
  Value document = Value::table();
  document.set_mark(call.program.mark());
  std::string folder;
  for (std::size_t i = 1; i < call.words.size(); ++i) {
    const std::string& word = call.words[i].as_string();
    if (word == "-d" || word == "--conf_dir") {
      if (i + 1 < call.words.size()) folder = call.words[++i].as_string() + "/";
    } else if (word.starts_with("--")) {
      ++i;  // of Weights & Biases, evaluation and generation; each has a value
    }
  }
  for (std::size_t i = 1; i < call.words.size(); ++i) {
    std::string name = call.words[i].as_string();
    if (name.starts_with("-")) {
      ++i;
      continue;
    }
    if (!name.ends_with(".yml") && !name.ends_with(".yaml") && !name.ends_with(".json"))
      name += ".yml";
    Value file = Value::string(folder + name);
    file.set_mark(call.words[i].mark());
    if (const auto read = named_document(launch, file)) lay_over_document(document, *read);
  }
  read_neox(document, launch);
  return true;
}

}  // namespace

extern const TrainingProgram gpt_neox_program = {"GPT-NeoX", is_neox, read_neox_program,
                                                 "deepy.py"};
extern const DocumentFormat gpt_neox_document = {"gpt-neox", "GPT-NeoX configuration",
                                                 is_neox_document, read_neox};

}  // namespace steelyard
