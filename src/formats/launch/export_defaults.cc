// What a target is of itself where a run says nothing, and what a model leaves to its family: said before it is written.
#include "formats/launch/launch.h"

namespace steelyard {
namespace {

// Whose files start Hugging Face's Trainer.
bool is_trainer(std::string_view target) {
  return target == "accelerate" || target == "deepspeed" || target == "axolotl" ||
         target == "llama-factory";
}

// What its code takes where the run says nothing: clipping by 1.0 with Trainer and torchtitan, Trainer's autocast where no engine
// divides the states, embedding and head in units of their own since Accelerate 1.14.
void settle_defaults(Value& run, std::string_view target) {
  const auto take = [&](std::string_view key, Value value) {
    if (run.at(key) == nullptr) set_path(run, key, std::move(value), Place{});
  };
  const Value* engine = run.find("engine");
  const std::string name = engine == nullptr ? "" : word_of(*engine);
  const Value* devices = run.at("cluster.devices");
  const bool alone = devices != nullptr && count_of(*devices) == 1;
  const bool whole = name == "ddp" || (name.empty() && alone);
  // The engines that clip by themselves say so where the run is weighed.
  const Value* in_backward = run.at("training.optimizer_in_backward");
  const bool clips = name != "deepspeed" && name != "megatron" &&
                     (in_backward == nullptr || !truth_of(*in_backward).value_or(false));
  if (clips && (is_trainer(target) || target == "torchtitan"))
    take("training.gradient_clip", Value::number(1.0));
  if (!is_trainer(target)) return;
  if (whole) take("training.precision", Value::string("bf16-autocast"));
  if (name == "fsdp2" || (name.empty() && !alone)) take("wrap.ends", Value::string("apart"));
}

}  // namespace

void settle_for(Value& run, std::string_view target) {
  if (target == "slurm") target = target_of(run);
  const bool open = run.find("engine") == nullptr;
  if (open) {
    if (target == "megatron" || target == "nanotron" || target == "deepspeed" || target == "fsdp2")
      set_path(run, "engine", Value::string(std::string(target)), Place{});
    if (target == "torchtitan") set_path(run, "engine", Value::string("fsdp2"), Place{});
  }
  if (target == "nanotron" && run.at("training.precision") == nullptr)
    set_path(run, "training.precision", Value::string("bf16-mixed-fp32-gradients"), Place{});
  if (target == "torchtitan" && run.find("implementation") == nullptr)
    set_path(run, "implementation", Value::string("torchtitan"), Place{});
  // Whose scripts load a transformers model, with whichever engine; a run that names its engine has said enough.
  if (open && target != "torchtitan" && target != "megatron" && target != "nanotron" &&
      run.find("implementation") == nullptr)
    set_path(run, "implementation", Value::string("transformers"), Place{});
  settle_defaults(run, target);
}

void say_sizes(Value& run, const Architecture& model) {
  Value::Member* config = run.member("model");
  if (config == nullptr || !config->value.is_table() || model.kinds.empty()) return;
  const auto* attention = std::get_if<GroupedAttention>(&usual_layer(model).attention);
  // Families of other names (n_head) have as many of both.
  if (attention == nullptr || config->value.find("num_attention_heads") == nullptr) return;
  const auto say = [&](const char* key, std::int64_t size) {
    const Value* said = config->value.find(key);
    if (said == nullptr || said->is_null())
      set_path(config->value, key, Value::integer(size), config->value.place());
  };
  say("num_key_value_heads", attention->key_value_heads);
  const Value* width = config->value.find("hidden_size");
  if (width != nullptr && count_of(*width) != attention->heads * attention->head_width)
    say("head_dim", attention->head_width);
}

}  // namespace steelyard
