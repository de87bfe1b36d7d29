#include "formats/launch/hugging_face_scripts.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/arguments.h"
#include "formats/launch/heavy_keys.h"
#include "formats/launch/script_flags.h"

namespace steelyard {
namespace {

Value texts(std::initializer_list<std::string_view> words) {
  Value list = Value::array();
  for (const std::string_view word : words)
    list.items().push_back(Value::string(std::string(word)));
  return list;
}

// "q_proj,v_proj" and "q_proj v_proj" are lists; one word with what regular expressions have is one.
Value targets_of(const Value& value) {
  const std::string word = word_of(value);
  if (word == "all-linear" || word == "all") return Value::string("all-linear");
  return Value::array(words_of(&value));
}

void say_bits(ScriptFlags& flags, const std::string& bits, const Value& at) {
  if (bits == "4")
    flags.say("adapter.base", "nf4", at);
  else if (bits == "8")
    flags.say("adapter.base", "int8", at);
}

// Weights of two bytes, as from_pretrained's torch_dtype says.
void load_as(ScriptFlags& flags, const char* type, const Value& at) {
  flags.launch().load = Value::string(type);
  flags.launch().load.set_mark(at.mark());
}

// --- artidoro/qlora qlora.py: full_finetune is false and bits are 4 unless said --------------------------------
bool is_qlora(const ProgramCall& call, const Value&) { return call.name == "qlora"; }

void read_qlora(ScriptFlags& flags) {
  constexpr const char* kWhy = "qlora.py's default";
  const Value* full = flags.on("full_finetune");
  const Value* bits = flags.take("bits");
  const Value* twice = flags.take("double_quant");
  const Value* brain = flags.all().find("bf16");
  const bool halves = brain != nullptr && truth_of(*brain).value_or(false);
  if (halves) load_as(flags, "bfloat16", *brain);
  if (full == nullptr) {
    flags.otherwise("adapter.method", Value::string("lora"),
                    "qlora.py trains an adapter unless told");
    flags.row("lora_r", "adapter.rank", Value::integer(64), kWhy);
    flags.row("lora_alpha", "adapter.alpha", Value::integer(16), kWhy);
    flags.row("lora_dropout", "adapter.dropout", Value::number(0), kWhy);
    flags.otherwise("adapter.target_modules", Value::string("all-linear"),
                    "qlora.py finds every linear module but the head");
    if (bits == nullptr)
      flags.otherwise("adapter.base", Value::string("nf4"), "qlora.py's bits are 4 unless told");
    else
      say_bits(flags, word_of(*bits), *bits);
    const Value* quantised = flags.launch().into.run.at("adapter.base");
    if (quantised != nullptr && word_of(*quantised) == "nf4") {
      if (twice != nullptr)
        flags.say("adapter.double_quantization", Value::boolean(truth_of(*twice).value_or(true)),
                  *twice);
      else
        flags.otherwise("adapter.double_quantization", Value::boolean(true), kWhy);
    }
    if (halves) {
      flags.otherwise("adapter.type", Value::string("bf16"), "with bf16 qlora.py casts adapters");
      if (quantised != nullptr)
        flags.otherwise("adapter.upcast", Value::boolean(false),
                        "qlora.py casts the embedding and the head back; norms alone stay fp32");
    }
  }
  const auto length = [&](const char* key, std::int64_t otherwise) {
    const Value* value = flags.take(key);
    const std::int64_t count = value == nullptr ? otherwise : count_of(*value).value_or(otherwise);
    return std::clamp<std::int64_t>(count, 1, 1 << 30);
  };
  const Value* source = flags.all().find("source_max_len");
  const Value* target = flags.all().find("target_max_len");
  const std::int64_t tokens = length("source_max_len", 1024) + length("target_max_len", 256);
  if (source != nullptr || target != nullptr)
    flags.say("training.sequence_length", Value::integer(tokens),
              source != nullptr ? *source : *target);
  else
    flags.otherwise("training.sequence_length", Value::integer(tokens),
                    "qlora.py's source_max_len and target_max_len together");
  flags.row("per_device_train_batch_size", "training.micro_batch", Value::integer(1), kWhy);
  flags.row("gradient_accumulation_steps", "training.gradient_accumulation", Value::integer(16),
            kWhy);
  if (!flags.says("optim"))
    flags.otherwise("training.optimizer", Value::string("adamw-paged"), kWhy);
  if (!flags.says("gradient_checkpointing"))
    flags.otherwise("recompute.mode", Value::string("full"), kWhy);
  if (!flags.says("max_grad_norm"))
    flags.otherwise("training.gradient_clip", Value::number(0.3), kWhy);
}

// --- FastChat's train_lora.py, which runs beside its train.py --------------------------------------------------
bool is_fastchat_lora(const ProgramCall& call, const Value& flags) {
  return call.name == "train_lora" || call.name == "fastchat.train.train_lora" ||
         flags.find("q_lora") != nullptr;
}

void read_fastchat_lora(ScriptFlags& flags) {
  constexpr const char* kWhy = "train_lora.py's default";
  flags.otherwise("adapter.method", Value::string("lora"), "train_lora.py trains an adapter");
  flags.row("lora_r", "adapter.rank", Value::integer(8), kWhy);
  flags.row("lora_alpha", "adapter.alpha", Value::integer(16), kWhy);
  flags.row("lora_dropout", "adapter.dropout", Value::number(0.05), kWhy);
  if (const Value* targets = flags.take("lora_target_modules"))
    flags.say("adapter.target_modules", targets_of(*targets), *targets);
  else
    flags.otherwise("adapter.target_modules", texts({"q_proj", "v_proj"}), kWhy);
  const Value* narrow = flags.on("flash_attn");
  if (narrow != nullptr) flags.say("training.attention", "flash", *narrow);
  if (const Value* quantised = flags.on("q_lora")) {
    flags.say("adapter.base", "nf4", *quantised);
    flags.otherwise("adapter.double_quantization", Value::boolean(true), kWhy);
    if (narrow != nullptr)
      flags.otherwise("adapter.upcast", Value::boolean(false),
                      "with flash_attn norms, embedding and head are cast back");
  } else {
    // No torch_dtype: what is frozen is fp32, too.
    flags.otherwise("adapter.base", Value::string("fp32"), "train_lora.py loads in fp32");
  }
  if (!flags.says("model_max_length"))
    flags.otherwise("training.sequence_length", Value::integer(512), kWhy);
}

// --- LLaVA's train.py, train_mem.py and train_xformers.py -----------------------------------------------------
bool is_llava(const ProgramCall& call, const Value& flags) {
  return call.program.as_string().find("llava") != std::string::npos ||
         flags.find("mm_projector_type") != nullptr ||
         flags.find("tune_mm_mlp_adapter") != nullptr || flags.find("lora_enable") != nullptr;
}

void read_llava(ScriptFlags& flags) {
  constexpr const char* kWhy = "LLaVA's default";
  const Value* brain = flags.all().find("bf16");
  if (brain != nullptr && truth_of(*brain).value_or(false)) load_as(flags, "bfloat16", *brain);
  if (const Value* lora = flags.on("lora_enable")) {
    flags.say("adapter.method", "lora", *lora);
    flags.row("lora_r", "adapter.rank", Value::integer(64), kWhy);
    flags.row("lora_alpha", "adapter.alpha", Value::integer(16), kWhy);
    flags.row("lora_dropout", "adapter.dropout", Value::number(0.05), kWhy);
    flags.otherwise("adapter.target_modules", Value::string("all-linear"),
                    "every linear module but the head's and the tower's");
  }
  if (const Value* bits = flags.take("bits"); bits != nullptr && word_of(*bits) != "16") {
    if (flags.launch().into.run.at("adapter.method") == nullptr)
      flags.unweighed(*bits, "bits", "weights of few bits and no adapter");
    else
      say_bits(flags, word_of(*bits), *bits);
    if (word_of(*bits) == "4")
      flags.otherwise("adapter.double_quantization", Value::boolean(true), kWhy);
  }
  if (const Value* tower = flags.take("vision_tower"); tower != nullptr && !word_of(*tower).empty())
    flags.unweighed(*tower, "vision_tower",
                    "a tower of vision and a projector beside the language model that is named: "
                    "model = \"llava-1.5-7b\" has both");
  for (const char* key : {"freeze_backbone", "tune_mm_mlp_adapter", "freeze_mm_mlp_adapter"})
    if (const Value* frozen = flags.on(key))
      flags.unweighed(*frozen, key,
                      "a part of the model is frozen: training.frozen says it by patterns");
  if (!flags.says("model_max_length"))
    flags.otherwise("training.sequence_length", Value::integer(512), kWhy);
}

// --- LMFlow's examples/finetune.py ----------------------------------------------------------------------------
bool is_lmflow(const ProgramCall& call, const Value& flags) {
  const bool named = call.name == "finetune" || call.name.ends_with("finetune_multi_modal");
  return named && (flags.find("dataset_path") != nullptr || flags.find("use_lora") != nullptr ||
                   flags.find("use_qlora") != nullptr || flags.find("use_lisa") != nullptr);
}

void read_lmflow(ScriptFlags& flags) {
  constexpr const char* kWhy = "LMFlow's default";
  const Value* quantised = flags.on("use_qlora");
  const Value* lora = flags.on("use_lora");
  if (lora == nullptr) lora = quantised;
  if (lora != nullptr) {
    const Value* dora = flags.on("use_dora");
    flags.say("adapter.method", dora != nullptr ? "dora" : "lora", dora != nullptr ? *dora : *lora);
    flags.row("lora_r", "adapter.rank", Value::integer(8), kWhy);
    flags.row("lora_alpha", "adapter.alpha", Value::integer(32), kWhy);
    flags.row("lora_dropout", "adapter.dropout", Value::number(0.1), kWhy);
    if (const Value* targets = flags.take("lora_target_modules"))
      flags.say("adapter.target_modules", targets_of(*targets), *targets);
    else
      flags.lacks("adapter.target_modules", "PEFT chooses the modules by the model's family");
    const Value* bits = flags.take("bits");
    if (quantised != nullptr && (bits == nullptr || word_of(*bits) == "4")) {
      flags.say("adapter.base", "nf4", *quantised);
      const Value* twice = flags.take("double_quant");
      flags.otherwise("adapter.double_quantization",
                      Value::boolean(twice == nullptr || truth_of(*twice).value_or(true)), kWhy);
    } else if (quantised != nullptr) {
      say_bits(flags, word_of(*bits), *bits);
    }
  }
  for (const char* key :
       {"use_lisa", "use_customized_optim", "freeze_backbone", "only_tune_language_model"})
    if (const Value* other = flags.on(key))
      flags.unweighed(*other, key, "other tensors or states than those of a whole training");
  if (const Value* layers = flags.take("lisa_activated_layers");
      layers != nullptr && count_of(*layers).value_or(0) > 0)
    flags.unweighed(*layers, "lisa_activated_layers", "layers take turns in being trained");
}

// --- PEFT's examples/sft/train.py -----------------------------------------------------------------------------
bool is_peft_example(const ProgramCall&, const Value& flags) {
  return flags.find("use_peft_lora") != nullptr || flags.find("use_4bit_quantization") != nullptr ||
         flags.find("use_8bit_quantization") != nullptr;
}

void read_peft_example(ScriptFlags& flags) {
  constexpr const char* kWhy = "PEFT's example's default";
  const Value* lora = flags.on("use_peft_lora");
  const Value* four = flags.on("use_4bit_quantization");
  for (const char* key : {"bnb_4bit_compute_dtype", "bnb_4bit_quant_type"}) flags.take(key);
  const Value* eight = flags.on("use_8bit_quantization");
  // The type that stores 4 bits is also the type of the load; uint8 loads fp32.
  const Value* storage = flags.take("bnb_4bit_quant_storage_dtype");
  const std::string type = storage == nullptr ? "uint8" : word_of(*storage);
  const bool halves = type == "bfloat16" || type == "float16";
  if (halves) load_as(flags, type == "bfloat16" ? "bfloat16" : "float16", *storage);
  if (lora != nullptr) {
    flags.say("adapter.method", "lora", *lora);
    flags.row("lora_r", "adapter.rank", Value::integer(64), kWhy);
    flags.row("lora_alpha", "adapter.alpha", Value::integer(16), kWhy);
    flags.row("lora_dropout", "adapter.dropout", Value::number(0.1), kWhy);
    if (const Value* targets = flags.take("lora_target_modules"))
      flags.say("adapter.target_modules", targets_of(*targets), *targets);
    else
      flags.otherwise(
          "adapter.target_modules",
          texts({"q_proj", "k_proj", "v_proj", "o_proj", "down_proj", "up_proj", "gate_proj"}),
          kWhy);
    if (four != nullptr)
      flags.say("adapter.base", "nf4", *four);
    else if (eight != nullptr)
      flags.say("adapter.base", "int8", *eight);
    else if (!halves)
      flags.otherwise("adapter.base", Value::string("fp32"),
                      "the example loads in fp32 unless told");
    const Value* twice = flags.on("use_nested_quant");
    if (four != nullptr)
      flags.otherwise("adapter.double_quantization", Value::boolean(twice != nullptr), kWhy);
  } else if (four != nullptr || eight != nullptr) {
    flags.unweighed(four != nullptr ? *four : *eight, "weights of few bits and no adapter",
                    "only an adapter can be trained on them");
  }
  if (const Value* flash = flags.on("use_flash_attn"))
    flags.say("training.attention", "flash", *flash);
  if (const Value* reentrant = flags.take("use_reentrant"))
    flags.say("recompute.reentrant", Value::boolean(truth_of(*reentrant).value_or(false)),
              *reentrant);
}

struct Script {
  std::string_view framework;
  bool (*is_this)(const ProgramCall& call, const Value& flags);
  void (*read)(ScriptFlags& flags);
};
constexpr Script kScripts[] = {
    {"qlora.py", is_qlora, read_qlora},
    {"FastChat", is_fastchat_lora, read_fastchat_lora},
    {"LLaVA", is_llava, read_llava},
    {"LMFlow", is_lmflow, read_lmflow},
    {"PEFT's example", is_peft_example, read_peft_example},
};

}  // namespace

namespace {

const Script* script_of(const ProgramCall& call) {
  const Value& flags = call.arguments.flags;
  for (const Script& script : kScripts)
    if (script.is_this(call, flags)) return &script;
  return nullptr;
}

// "src/open_r1/grpo", "trl.scripts.dpo", "run_orpo" -> grpo, dpo, orpo.
std::string method_word(std::string_view name) {
  for (const char separator : {'/', '.'})
    if (const std::size_t at = name.rfind(separator); at != std::string_view::npos)
      name.remove_prefix(at + 1);
  for (const std::string_view prefix : {"run_", "train_"})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  return std::string(name.substr(0, name.find('_')));
}

constexpr std::string_view kMethods =
    "sft=sft|dpo=dpo|simpo=cpo|ipo=dpo|cpo=cpo|orpo=orpo|kto=kto|grpo=grpo|ppo=ppo|reward=rm|rm="
    "rm";
// Losses with models beside the trained one that no method of the run file stands for.
constexpr std::string_view kOthers[] = {"gkd",     "gold", "xpo", "nash", "online",
                                        "distill", "rlhf", "bco", "rloo", "prm"};

}  // namespace

bool is_hugging_face_script(const ProgramCall& call) { return script_of(call) != nullptr; }

bool read_hugging_face_script(const ProgramCall& call, Launch& launch) {
  const Script* script = script_of(call);
  if (script == nullptr) return false;
  ScriptFlags flags(call, launch);
  script->read(flags);
  flags.read_rest(script->framework);
  return true;
}

void say_method_of_script(std::string_view name, const Value& program, Launch& launch) {
  const Value none = Value::table();
  ConfigReader reading(none, "script", launch.into);
  const std::string word = method_word(name);
  if (name.starts_with("trl.scripts") ||
      program.as_string().find("trl/scripts/") != std::string::npos)
    launch.trl = true;
  if (const auto method = ours_of(kMethods, word))
    return reading.say("training.method", *method, program);
  if (std::find(std::begin(kOthers), std::end(kOthers), word) != std::end(kOthers))
    reading.unweighed(program, name, "another model beside the trained one");
}

void refuse_flags_of_others(Launch& launch) {
  static constexpr std::string_view kChanges[] = {"an adapter", "what is trained", "a second model",
                                                  "the type of the weights"};
  const Value* carried = launch.into.run.at("carried.trainer");
  if (carried == nullptr || !carried->is_table()) return;
  const Value none = Value::table();
  ConfigReader reading(none, "script", launch.into);
  const bool adapts = reading.has("adapter.method");
  const Value left = *carried;
  for (const Value::Member& member : left.members()) {
    const std::string_view changes = what_changes(member.key);
    const bool heavy =
        std::find(std::begin(kChanges), std::end(kChanges), changes) != std::end(kChanges);
    const bool off = member.value.is_null() || word_of(member.value).empty() ||
                     truth_of(member.value) == std::optional(false) ||
                     word_of(member.value) == "16";
    // TRL's own switches of an adapter say nothing without use_peft.
    if (!heavy || off || (adapts && changes == "an adapter")) continue;
    reading.unweighed(member.value, member.key,
                      fmt::format("a flag of this script's own: {}", changes));
  }
}

}  // namespace steelyard
