#include "formats/launch/open_instruct.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/arguments.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/hugging_face_scripts.h"
#include "formats/launch/unweighed_keys.h"

namespace steelyard {
namespace {

constexpr Row kRows[] = {
    {"max_seq_length", "training.sequence_length"},
    {"per_device_train_batch_size", "training.micro_batch", "", "", "8"},
    {"gradient_accumulation_steps", "training.gradient_accumulation", "", "", "1"},
    {"gradient_checkpointing", "recompute.mode", "true=full|false=none", "", "none"},
};

constexpr Row kAdapter[] = {
    {"lora_rank", "adapter.rank", "", "", "64"},
    {"lora_alpha", "adapter.alpha", "", "", "16"},
    {"lora_dropout", "adapter.dropout", "", "", "0.1"},
};

constexpr UnweighedKey kUnweighed[] = {
    {"sequence_parallel_size", "sequences divided by DeepSpeed's Ulysses"},
    {"load_balancing_loss", "routers' logits are kept", true},
    {"packing", "tokens of a micro-batch are as many as its samples have", true},
};

bool has_any_key(const Value& document, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](std::string_view key) { return document.find(key) != nullptr; });
}

void read_adapter(ConfigReader& reading) {
  const Value* quantised = reading.on("use_qlora");
  const Value* lora = reading.on("use_lora");
  if (lora == nullptr) {
    // The switch of the bits does nothing alone but load few of them.
    if (quantised != nullptr)
      reading.unweighed(*quantised, "use_qlora without use_lora", "weights of few bits alone");
    for (const char* key : {"lora_rank", "lora_alpha", "lora_dropout"}) reading.take(key);
    return;
  }
  reading.say("adapter.method", "lora", *lora);
  reading.rows(kAdapter);
  Value targets = Value::array();
  for (const char* name :
       {"q_proj", "o_proj", "v_proj", "k_proj", "gate_proj", "up_proj", "down_proj"})
    targets.items().push_back(Value::string(name));
  reading.take_default("adapter.target_modules", std::move(targets), "open-instruct's own list");
  if (quantised == nullptr) return;
  reading.say("adapter.base", "nf4", *quantised);
  reading.take_default("adapter.double_quantization", Value::boolean(true),
                       "open-instruct quantises the constants too");
}

void read_optimizer(ConfigReader& reading) {
  const Value* few = reading.on("use_8bit_optimizer");
  const Value* fused = reading.take("fused_optimizer");
  if (few != nullptr) {
    reading.say("training.optimizer", "adamw-paged-8bit", *few);
    return;
  }
  reading.take_default("training.optimizer", Value::string("adamw"), "torch.optim.AdamW");
  if (fused != nullptr)
    reading.say("training.optimizer_form", truth_of(*fused).value_or(true) ? "fused" : "foreach",
                *fused);
  else
    reading.take_default("training.optimizer_form", Value::string("fused"),
                         "open-instruct's default");
}

void read_keys(const Value& document, Launch& launch) {
  ConfigReader reading(document, "open-instruct", launch.into);
  launch.into.formats.emplace_back("open-instruct (Trainer-like arguments)");
  if (const Value* model = reading.take("model_name_or_path")) say_model(reading, *model);
  reading.rows(kRows);
  if (!reading.has("training.sequence_length"))
    reading.lacks("training.sequence_length", "max_seq_length is not said: the data decides");
  if (has_any_key(document, {"dpo_beta", "dpo_loss_type", "beta", "dpo_use_paged_optimizer"}))
    reading.take_default("training.method", Value::string("dpo"), "its keys are dpo_tune's");
  refuse_preferences_of(reading, "open-instruct", document);
  read_adapter(reading);
  read_optimizer(reading);
  if (const Value* paged = reading.on("dpo_use_paged_optimizer"))
    reading.say("training.optimizer", "adamw-paged", *paged);
  read_clip(reading, "clip_grad_norm", false);
  if (!reading.has("training.gradient_clip"))
    reading.take_default("training.gradient_clip", Value::boolean(false),
                         "open-instruct clips only when told");
  if (const Value* flash = reading.take("use_flash_attn"))
    reading.say("training.attention", truth_of(*flash).value_or(true) ? "flash" : "efficient",
                *flash);
  if (const Value* liger = reading.on("use_liger_kernel")) {
    reading.say("training.loss", "fused-linear", *liger);
    reading.say("training.kernels", "liger", *liger);
  }
  if (const Value* sync = reading.take("sync_each_batch"))
    reading.say("parallel.sync_each_micro_batch", Value::boolean(truth_of(*sync).value_or(false)),
                *sync);
  // Beside an adapter autocast computes, whatever the frozen weights are.
  if (!reading.has("adapter.method")) {
    launch.load = Value::string("bfloat16");
    launch.load.set_mark(document.mark());
  }
  reading.unweighed(kUnweighed);
  reading.carry_rest();
}

}  // namespace

bool is_open_instruct_yaml(const Value& document) {
  return document.find("model_name_or_path") != nullptr &&
         has_any_key(document, {"dataset_mixer_list", "use_slow_tokenizer", "with_tracking",
                                "checkpointing_steps", "dpo_beta", "max_train_steps"}) &&
         !has_any_key(document, {"bf16", "fp16", "torch_dtype", "dtype", "trainer", "do_eval"});
}

void read_open_instruct_yaml(const Value& document, Launch& launch) {
  read_keys(document, launch);
  const Value none = Value::table();
  ConfigReader reading(none, "open-instruct", launch.into);
  reading.lacks("engine",
                "its launch line decides: its own scripts run DeepSpeed's ZeRO-3 by Accelerate");
  reading.take_default("training.precision", Value::string("bf16-mixed"),
                       "its scripts launch with --mixed_precision bf16");
}

bool is_open_instruct(const ProgramCall& call) {
  return call.program.as_string().find("open_instruct") != std::string::npos;
}

bool read_open_instruct(const ProgramCall& call, Launch& launch) {
  const Arguments& arguments = call.arguments;
  Value document = Value::table();
  document.set_mark(call.program.mark());
  if (!arguments.words.empty() && is_file_of(arguments.words[0], {".yaml", ".yml", ".json"})) {
    const auto read = named_document(launch, arguments.words[0]);
    if (!read) return true;
    document = *read;
  }
  lay_over_document(document, arguments.flags);
  const std::size_t slash = call.name.rfind('/');
  say_method_of_script(slash == std::string::npos ? call.name : call.name.substr(slash + 1),
                       call.program, launch);
  read_keys(document, launch);
  launch.hugging_face = true;  // what Accelerate is told about precision and engine counts
  return true;
}

bool is_mason(const ProgramCall& call) { return call.name == "mason"; }

bool read_mason(const ProgramCall& call, Launch& launch) {
  const auto is_break = [](const Value& word) {
    return word.as_string() == "--" || word.as_string() == "&&";
  };
  auto begin = std::find_if(call.words.begin(), call.words.end(), is_break);
  while (begin != call.words.end()) {
    ++begin;
    const auto end = std::find_if(begin, call.words.end(), is_break);
    const std::vector<Value> words(begin, end);
    if (!words.empty() && read_command_line(words, launch)) return true;
    begin = end;
  }
  return false;
}

}  // namespace steelyard
