// LitGPT's tables: full fine-tunes, LoRA, QLoRA and adapters on one A10G or A100 40 GB. It prints max_memory_allocated in decimal
// GB, which the rows have as GiB. Samples are padded to the longest of the batch and cut at max_seq_length, so the longest
// sample of the run decides.
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "model/catalogue.h"
#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

struct Name {
  std::string_view printed, preset;
};
constexpr std::array kPresets = {
    Name{"gemma-2b", "gemma-2b"},          Name{"gemma-7b", "gemma-7b"},
    Name{"llama-2-7b", "llama-2-7b"},      Name{"Llama 2 7 B", "llama-2-7b"},
    Name{"Llama 2 13 B", "llama-2-13b"},   Name{"llama-3-8b", "llama-3-8b"},
    Name{"llama-3.1-8b", "llama-3.1-8b"},  Name{"llama-3.2-1b", "llama-3.2-1b"},
    Name{"llama-3.2-3b", "llama-3.2-3b"},  Name{"phi-2", "phi-2"},
    Name{"phi-1.5 1.3 B", "phi-1.5"},      Name{"Phi-3-mini-4k-instruct", "phi-3-mini-4k"},
    Name{"mistral-7b", "mistral-7b-v0.1"}, Name{"Mistral-7B-v0.1", "mistral-7b-v0.1"},
    Name{"tiny-llama", "tinyllama-1.1b"},  Name{"TinyLlama 1.1B", "tinyllama-1.1b"},
    Name{"falcon-7b", "falcon-7b"},        Name{"Falcon 7 B", "falcon-7b"},
    Name{"gemma2-2b", "gemma-2-2b"},       Name{"gemma2-9b", "gemma-2-9b"},
};

// stabilityai/stablelm-base-alpha-3b config.json.
Value stablelm_alpha_3b() {
  Value model = Value::table();
  const auto put = [&model](const char* key, Value value) {
    set_path(model, key, std::move(value), Place{});
  };
  put("model_type", Value::string("gpt_neox"));
  put("num_hidden_layers", Value::integer(16));
  put("hidden_size", Value::integer(4096));
  put("num_attention_heads", Value::integer(32));
  put("intermediate_size", Value::integer(16'384));
  put("vocab_size", Value::integer(50'688));
  put("max_position_embeddings", Value::integer(4096));
  put("tie_word_embeddings", Value::boolean(false));
  return model;
}

// The head never shares the embedding's weight (convert_hf_checkpoint.py copies it); GELU is torch's.
Value as_litgpt(const Preset& preset) {
  Value model = preset.config;
  const auto text = [&](const char* key) {
    const Value* value = model.find(key);
    return value != nullptr && value->is_string() ? value->as_string() : std::string();
  };
  set_path(model, "tie_word_embeddings", Value::boolean(false), Place{});
  if (text("hidden_act") == "gelu_new")
    set_path(model, "hidden_act", Value::string("gelu_pytorch_tanh"), Place{});
  return model;
}

std::optional<Value> model_of(const std::string& printed) {
  for (const Name& name : kPresets)
    if (name.printed == printed) return as_litgpt(*find_preset(name.preset));
  if (printed == "stablelm-base-alpha-3b" || printed == "StableLM Alpha 3 B" ||
      printed == "StableLM 3B")
    return stablelm_alpha_3b();
  return std::nullopt;
}

// Names of linear modules in our models, by the part of a layer that LitGPT's switches mean.
struct Part {
  std::string_view key;
  std::array<std::string_view, 3> modules;
};
constexpr Part kFusedAttention[] = {{"lora_query", {"query_key_value"}},
                                    {"lora_projection", {"dense"}},
                                    {"lora_mlp", {"dense_h_to_4h", "dense_4h_to_h"}}};
constexpr Part kPhi[] = {{"lora_query", {"q_proj"}},
                         {"lora_key", {"k_proj"}},
                         {"lora_value", {"v_proj"}},
                         {"lora_projection", {"self_attn.dense"}},
                         {"lora_mlp", {"fc1", "fc2"}}};
constexpr Part kPhi3[] = {{"lora_query", {"qkv_proj"}},
                          {"lora_projection", {"o_proj"}},
                          {"lora_mlp", {"gate_up_proj", "down_proj"}}};
constexpr Part kLlama[] = {{"lora_query", {"q_proj"}},
                           {"lora_key", {"k_proj"}},
                           {"lora_value", {"v_proj"}},
                           {"lora_projection", {"o_proj"}},
                           {"lora_mlp", {"gate_proj", "up_proj", "down_proj"}}};

std::span<const Part> parts_of(const std::string& model) {
  const auto says = [&](std::string_view word) { return model.find(word) != std::string::npos; };
  if (says("alcon") || says("table") || says("Stable")) return kFusedAttention;
  if (says("Phi-3")) return kPhi3;
  if (says("phi")) return kPhi;
  return kLlama;
}

void map_adapter(MeasuredRow& row, MappedRun& mapped) {
  mapped.set("adapter.method", "lora");
  if (const auto rank = row.count("train.lora.lora_r")) {
    mapped.set("adapter.rank", *rank);
  } else {
    mapped.assume("adapter.rank", 8, "not printed; LitGPT's default");
  }
  // finetune/lora.py trains queries and values when nobody says.
  const bool printed = row.at("train.lora.lora_query") != nullptr;
  Value::Array targets;
  for (const Part& part : parts_of(row.text("model.name"))) {
    const std::string path = "train.lora." + std::string(part.key);
    const bool usual = part.key == "lora_query" || part.key == "lora_value";
    if (printed ? row.text(path) != "true" : !usual) continue;
    for (std::string_view module : part.modules)
      if (!module.empty()) targets.push_back(Value::string(std::string(module)));
  }
  mapped.set("adapter.target_modules", Value::array(std::move(targets)));
  if (row.text("train.lora.lora_head") == "true")
    mapped.read_as("no adapter on the head", "its matrices are a thousandth of the run's bytes");
  mapped.assume("adapter.type", "bf16", "bf16-true casts the whole module");
  mapped.set("adapter.dropout", Value::number(0.05));
  mapped.read_as("adapter.dropout 0.05", "not printed; LitGPT's default");
  mapped.set("adapter.base", row.text("train.quant").empty() ? "bf16" : "nf4");
  if (!row.text("train.quant").empty()) {
    mapped.set_switch("adapter.upcast", false);
    mapped.assume("environment.bitsandbytes", "0.42", "what LitGPT asks for (pyproject.toml)");
  }
  mapped.set_switch("adapter.double_quantization", row.text("train.quant") == "bnb.nf4-dq");
}

// Full fine-tunes of config_hub ran on the devices of their own full.yaml, whatever the table's column says.
struct Devices {
  std::string_view model;
  std::int64_t count;
  const char* reason;
};
constexpr const char* kFullYaml = "its full.yaml says so";
constexpr Devices kFullFineTunes[] = {
    {"gemma-2b", 4, kFullYaml},
    {"phi-2", 2, kFullYaml},
    {"stablelm-base-alpha-3b", 2, kFullYaml},
};
// Their full.yaml says one device; weights, gradients and moments in 16 bits need more than that has, or twice what it printed.
constexpr std::string_view kOnUnknownDevices[] = {"llama-3.2-1b", "llama-3.2-3b",
                                                  "Phi-3-mini-4k-instruct"};

const Devices* devices_of_full(const MeasuredRow& row) {
  if (row.id().find("-hub-") == std::string::npos) return nullptr;
  const std::string name = row.text("model.name");
  for (const Devices& known : kFullFineTunes)
    if (known.model == name) return &known;
  return nullptr;
}

Mapped map(MeasuredRow& row) {
  const std::string mode = row.text("train.mode");
  if (mode == "adapter" || mode == "adapter v2")
    return left_out("LLaMA-Adapter: not a method of ours");
  if (mode == "pretrain") return left_out("prints no train.micro_batch, no train.seq_len");
  if (mode == "full finetune" && row.id().find("-hub-") != std::string::npos)
    for (const std::string_view name : kOnUnknownDevices)
      if (row.text("model.name") == name)
        return left_out_as_disagreeing(
            "not on the one device that its full.yaml names: its states need more, and "
            "nobody prints on how many");
  MappedRun mapped;
  bool caps_scores = false;
  // The table's second column calls gemma2-2b by its elder's name; the run's configuration says which it was.
  std::string name = row.text("model.name");
  if (name == "gemma-2b" && row.says("notes", "finetune/gemma2-2b/")) name = "gemma2-2b";
  if (auto model = model_of(name)) {
    caps_scores = model->find("attn_logit_softcapping") != nullptr;
    mapped.set("model", std::move(*model));
  } else {
    return left_out("a model that no preset of ours is: " + row.text("model.name"));
  }
  const bool doubtful =
      row.says("notes", "devices: 1") && row.count("hardware.gpus").value_or(1) > 1;
  map_cluster(row, mapped);
  const Devices* known = mode == "full finetune" ? devices_of_full(row) : nullptr;
  std::int64_t devices = row.count("parallel.dp").value_or(1);
  if (known != nullptr) {
    devices = known->count;
    mapped.assume("cluster.devices", devices, known->reason);
    mapped.assume("cluster.devices_per_node", devices, "one machine");
  } else if (doubtful) {
    devices = 1;
    mapped.infer("cluster.devices 1",
                 "the run's yaml says devices: 1, and its numbers are those of one");
  }
  if (devices > 1 && mode == "LoRA" && row.says("parallel.fsdp_zero_stage", "FSDP"))
    return left_out_as_disagreeing(
        "the peak is that of loading, which gathers all parameters beside their shards: four times "
        "the micro-batch adds a twentieth");
  mapped.set("engine", devices > 1 ? "fsdp1" : "ddp");
  if (devices > 1 && row.says("parallel.fsdp_zero_stage", "DDP")) mapped.set("engine", "ddp");
  mapped.set("implementation", "litgpt");
  // finetune/full.py: fabric.no_backward_sync while it accumulates, which is FSDP's no_sync.
  if (devices > 1 && mode == "full finetune")
    mapped.set_switch("parallel.sync_each_micro_batch", false);
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  const auto batch = row.count("train.global_batch");
  if (row.id().find("-res-") == std::string::npos && batch)
    mapped.set("training.global_batch", *batch);
  else
    mapped.assume("training.gradient_accumulation", 1,
                  "the longest sample comes first (finetune/lora.py of 2023), so nothing of its "
                  "length is before it");
  mapped.set("training.precision",
             row.text("train.precision") == "bf16-mixed" ? "bf16-autocast" : "bf16-pure");
  mapped.set("training.optimizer", "adamw");
  mapped.assume("training.optimizer_form", "foreach", "not printed; torch's default");
  if (caps_scores)
    mapped.set("training.attention", "eager");
  else
    mapped.assume("training.attention", "flash", "scaled_dot_product_attention in 16 bits");
  mapped.assume("recompute.mode", devices > 1 ? "full" : "none",
                "not printed; LitGPT checkpoints activations under FSDP only");
  if (mode != "full finetune") map_adapter(row, mapped);
  if (!row.complete()) return left_out(row.missing());
  if (const auto bytes = row.gib("measured.peak_allocated_gib"))
    mapped.readings.push_back({Meter::kAllocated, *bytes});
  map_outcome(row, mapped);
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.origin() == "Lightning-AI/litgpt"; }

}  // namespace

constinit const RowSource kLitgpt = {
    "litgpt", "full and adapter fine-tunes on A10G and A100 40 GB: allocated", owns, map};

}  // namespace steelyard
