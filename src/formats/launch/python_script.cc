#include "formats/launch/python_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "formats/launch/hugging_face.h"
#include "formats/launch/python_calls.h"

namespace steelyard {
namespace {

std::string_view last_word(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

// transformers.TrainingArguments and what TRL makes of it (trl/trainer/*_config.py).
constexpr std::string_view kArguments =
    "TrainingArguments|Seq2SeqTrainingArguments|SFTConfig|DPOConfig|KTOConfig|GRPOConfig|"
    "RewardConfig|PPOConfig|ORPOConfig|CPOConfig|GKDConfig|RLOOConfig|UnslothTrainingArguments";
// Trainers, and what they train; "other" is refused by name.
constexpr std::string_view kTrainers =
    "SFTTrainer=sft|Trainer=|Seq2SeqTrainer=|UnslothTrainer=sft|DPOTrainer=dpo|KTOTrainer=kto|"
    "GRPOTrainer=grpo|PPOTrainer=ppo|RewardTrainer=rm|ORPOTrainer=orpo|CPOTrainer=cpo|"
    "GKDTrainer=other|RLOOTrainer=other|OnlineDPOTrainer=other";

bool is_unsloth_class(std::string_view name) {
  for (const std::string_view one : {"FastLanguageModel.", "FastModel.", "FastVisionModel."})
    if (name.starts_with(one)) return true;
  return false;
}

bool loads_a_model(std::string_view name) {
  if (last_word(name) != "from_pretrained") return false;
  const std::string_view owner =
      name.substr(0, name.size() - std::string_view(".from_pretrained").size());
  const std::string_view type = last_word(owner);
  return is_unsloth_class(name) || type.starts_with("AutoModel") || type.ends_with("ForCausalLM") ||
         type.ends_with("ForConditionalGeneration");
}

// A script whose arguments come from its command line (HfArgumentParser) is told by what starts it.
bool is_known(std::string_view name) {
  return ours_of(kArguments, last_word(name)) || (loads_a_model(name) && is_unsloth_class(name));
}

const PythonCall* first_of(const std::vector<PythonCall>& calls, bool (*wanted)(std::string_view)) {
  const auto found = std::find_if(calls.begin(), calls.end(),
                                  [&](const PythonCall& call) { return wanted(call.name); });
  return found == calls.end() ? nullptr : &*found;
}

// Trainer's names of what other calls say.
constexpr std::pair<std::string_view, std::string_view> kOfModel[] = {
    {"model_name", "model_name_or_path"},
    {"pretrained_model_name_or_path", "model_name_or_path"},
    {"torch_dtype", "dtype"},
    {"dtype", "dtype"},
    {"load_in_4bit", "load_in_4bit"},
    {"load_in_8bit", "load_in_8bit"},
    {"attn_implementation", "attn_implementation"},
    {"max_seq_length", "max_seq_length"},
};
constexpr std::pair<std::string_view, std::string_view> kOfBits[] = {
    {"load_in_4bit", "load_in_4bit"},
    {"load_in_8bit", "load_in_8bit"},
    {"bnb_4bit_use_double_quant", "use_bnb_nested_quant"},
};
constexpr std::pair<std::string_view, std::string_view> kOfAdapter[] = {
    {"r", "lora_r"},
    {"lora_alpha", "lora_alpha"},
    {"lora_dropout", "lora_dropout"},
    {"target_modules", "lora_target_modules"},
    {"modules_to_save", "lora_modules_to_save"},
    {"use_dora", "use_dora"},
    {"use_gradient_checkpointing", "gradient_checkpointing"},
};
// What is asked for where the script computes it.
constexpr std::pair<std::string_view, std::string_view> kAskedFor[] = {
    {"model_name_or_path", "model"},
    {"per_device_train_batch_size", "training.micro_batch"},
    {"gradient_accumulation_steps", "training.gradient_accumulation"},
    {"max_length", "training.sequence_length"},
    {"max_seq_length", "training.sequence_length"},
    {"gradient_checkpointing", "recompute.mode"},
    {"lora_r", "adapter.rank"},
    {"lora_target_modules", "adapter.target_modules"},
    {"optim", "training.optimizer"},
};

// Trainer's arguments, gathered from several calls.
class Gathered {
 public:
  explicit Gathered(const Mark& mark) { document_.set_mark(mark); }

  void add(std::string_view key, const Value& value) {
    if (document_.member(key) == nullptr)
      document_.members().push_back({std::string(key), value.mark(), value});
  }
  void add(const Value& keywords,
           std::span<const std::pair<std::string_view, std::string_view>> names) {
    for (const auto& [theirs, ours] : names)
      if (const Value* value = keywords.find(theirs)) add(ours, *value);
  }
  void add_switch(std::string_view key, const Mark& mark) {
    Value on = Value::boolean(true);
    on.set_mark(mark);
    add(key, on);
  }
  Value& document() { return document_; }

 private:
  Value document_ = Value::table();
};

void gather_model(const std::vector<PythonCall>& calls, ConfigReader& reading, Gathered& all) {
  const PythonCall* model = first_of(calls, loads_a_model);
  if (model == nullptr) return;
  if (!model->positional.empty()) all.add("model_name_or_path", model->positional.front());
  all.add(model->keywords, kOfModel);
  if (const Value* bits = model->keywords.find("quantization_config");
      bits != nullptr && bits->is_table())
    all.add(*bits, kOfBits);
  // A configuration that a name holds: model = ...from_pretrained(..., quantization_config=bnb_config).
  if (model->keywords.find("quantization_config") != nullptr)
    for (const PythonCall& call : calls)
      if (last_word(call.name) == "BitsAndBytesConfig") all.add(call.keywords, kOfBits);
  for (const std::string_view head : {"Classification", "QuestionAnswering", "MultipleChoice"})
    if (model->name.find(head) != std::string::npos) {
      Value at;
      at.set_mark(model->mark);
      reading.unweighed(at, model->name, "another head and loss than those of the vocabulary");
    }
  if (!is_unsloth_class(model->name)) return;
  all.add_switch("use_unsloth", model->mark);
  const Value* full = model->keywords.find("full_finetuning");
  // FastLanguageModel.from_pretrained: weights of 4 bits unless told.
  if (model->keywords.find("load_in_4bit") == nullptr &&
      model->keywords.find("load_in_8bit") == nullptr &&
      (full == nullptr || !truth_of(*full).value_or(false)))
    all.add_switch("load_in_4bit", model->mark);
}

void gather_adapter(const std::vector<PythonCall>& calls, Gathered& all) {
  for (const PythonCall& call : calls) {
    const std::string_view word = last_word(call.name);
    const bool unsloth = word == "get_peft_model" && is_unsloth_class(call.name);
    if (word != "LoraConfig" && !unsloth) continue;
    all.add_switch("use_peft", call.mark);
    for (const auto& [theirs, ours] : kOfAdapter)
      if (const Value* value = call.keywords.find(theirs)) {
        // use_gradient_checkpointing = "unsloth" recomputes, too, and moves what is kept to the host.
        if (value->is_string() && ours == "gradient_checkpointing")
          all.add_switch(ours, value->mark());
        else
          all.add(ours, *value);
      }
    return;
  }
}

// bf16 = is_bfloat16_supported(): true on every device that is weighed by name; fp16 = not ... is its opposite.
bool asks_for_the_device(const Value& value) {
  const Value* call = value.is_table() ? value.find(kCallName) : nullptr;
  const std::string name = call == nullptr ? "" : word_of(*call);
  return name.find("bf16_supported") != std::string::npos ||
         name.find("bfloat16_supported") != std::string::npos;
}

void gather_arguments(const std::vector<PythonCall>& calls, Gathered& all) {
  const auto is_arguments = [](std::string_view name) {
    return ours_of(kArguments, last_word(name)).has_value();
  };
  const PythonCall* arguments = first_of(calls, is_arguments);
  if (arguments != nullptr)
    for (const Value::Member& member : arguments->keywords.members()) {
      if (member.key == "bf16" && asks_for_the_device(member.value))
        all.add_switch("bf16", member.value.mark());
      else if (member.key != kCallName && member.key != kMoreKeywords)
        all.add(member.key, member.value);
    }
  // TrainingArguments(**options): whatever else there is, no default may be taken.
  const bool more = arguments != nullptr && arguments->keywords.member(kMoreKeywords) != nullptr;
  if (more || arguments == nullptr)
    for (const auto& [theirs, ours] : kAskedFor)
      if (theirs.find("lora") == std::string_view::npos && theirs != "model_name_or_path" &&
          !(theirs == "max_seq_length" && all.document().find("max_length") != nullptr) &&
          !(theirs == "max_length" && all.document().find("max_seq_length") != nullptr))
        all.add(theirs, Value());
  // Older TRL: lengths and packing are the trainer's own arguments.
  const auto is_trainer = [](std::string_view name) {
    return ours_of(kTrainers, last_word(name)).has_value();
  };
  if (const PythonCall* trainer = first_of(calls, is_trainer)) {
    if (const Value* model = trainer->keywords.find("model");
        model != nullptr && model->is_string())
      all.add("model_name_or_path", *model);
    for (const char* key : {"max_seq_length", "max_length"})
      if (const Value* value = trainer->keywords.find(key)) all.add(key, *value);
  }
}

// Says what is trained; whether the trainer is TRL's.
bool read_method(const std::vector<PythonCall>& calls, ConfigReader& reading) {
  for (const PythonCall& call : calls) {
    const auto method = ours_of(kTrainers, last_word(call.name));
    if (!method) continue;
    Value at;
    at.set_mark(call.mark);
    if (method->empty()) return false;
    if (*method == "other")
      reading.unweighed(at, call.name, "its losses and further models are not weighed");
    else
      reading.say("training.method", *method, at);
    return true;
  }
  return false;
}

}  // namespace

bool is_python_file(std::string_view name) {
  return name.ends_with(".py") || name.ends_with(".ipynb");
}

bool is_training_script(std::string_view text, std::string_view name) {
  const std::string code = name.ends_with(".ipynb") ? notebook_code(text) : std::string(text);
  const std::vector<PythonCall> calls = python_calls(code, name);
  return std::any_of(calls.begin(), calls.end(),
                     [](const PythonCall& call) { return is_known(call.name); });
}

void read_python_script(std::string_view text, std::string_view name, Launch& launch) {
  const bool notebook = name.ends_with(".ipynb");
  const std::string code = notebook ? notebook_code(text) : std::string(text);
  const std::vector<PythonCall> calls =
      python_calls(code, notebook ? fmt::format("{}, its cells", name) : std::string(name));
  const PythonCall* first = first_of(calls, is_known);
  if (first == nullptr) return;
  Gathered all(first->mark);
  const Value none = Value::table();
  ConfigReader reading(none, "python", launch.into);
  gather_model(calls, reading, all);
  gather_adapter(calls, all);
  gather_arguments(calls, all);
  Value& document = all.document();
  launch.into.formats.emplace_back(notebook ? "notebook (Trainer arguments)"
                                            : "Python script (Trainer arguments)");
  if (document.find("use_unsloth") != nullptr) launch.into.formats.emplace_back("Unsloth");
  launch.trl = read_method(calls, reading);
  for (const PythonCall& call : calls)
    if (last_word(call.name) == "prepare_model_for_kbit_training") {
      Value at;
      at.set_mark(call.mark);
      reading.say("adapter.upcast", Value::boolean(true), at);
      break;
    }
  // What is computed is not read, and no default takes its place.
  std::vector<std::pair<std::string, std::string>> computed;
  std::erase_if(document.members(), [&](const Value::Member& member) {
    const bool table = member.value.is_table() && member.value.find(kCallName) != nullptr;
    if (!member.value.is_null() && !table) return false;
    for (const auto& [theirs, ours] : kAskedFor)
      if (theirs == member.key) computed.emplace_back(theirs, ours);
    return true;
  });
  read_hugging_face(document, launch, "trainer");
  for (const auto& pair : computed) {
    const auto& theirs = pair.first;
    const auto& ours = pair.second;
    remove_path(launch.into.run, ours);
    std::erase_if(launch.into.unsaid, [&](const Unsaid& unsaid) { return unsaid.key == ours; });
    reading.lacks(ours, fmt::format("{} is computed in the script", theirs));
  }
  reading.lacks("cluster.devices",
                "what starts the script decides: torchrun, accelerate launch, python");
}

}  // namespace steelyard
