#include "formats/launch/heavy_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace steelyard {
namespace {

struct HeavyKey {
  std::string_view pattern;  // `*` stands for anything; the first that matches decides
  std::string_view changes;  // empty: like one of the others, and changes nothing
};

constexpr HeavyKey kHeavyKeys[] = {
    // Named like a heavy key, and none.
    {"fp8_margin", ""},
    {"fp8_interval", ""},
    {"fp8_amax_*", ""},
    {"moe_aux_loss_coeff", ""},
    {"freeze_seed", ""},
    {"lora_dropout", ""},
    {"*lora*_lr*", ""},
    {"loraplus_*", ""},
    {"*learning_rate*", ""},
    {"*_path", ""},
    {"*_dir", ""},
    {"*_name", ""},
    {"*_url", ""},
    {"per_device_eval_batch_size", ""},
    {"eval_*", ""},
    {"*_eval_*", ""},
    {"val_*", ""},
    {"*_val", ""},
    {"generation_*", ""},
    {"*fsdp_cpu_ram_efficient_loading", ""},
    {"*sync_module_states", ""},
    {"zero_force_ds_cpu_optimizer", ""},
    {"*_loss_coef*", ""},
    {"no_async_tensor_model_parallel_allreduce", ""},
    {"deepspeed_activation_checkpointing",
     ""},  // by whose function: --checkpoint-activations says whether
    // Who holds what.
    {"zero_stage", "which states are divided"},
    {"zero", "which states are divided"},
    {"*offload*", "what waits on the host"},
    {"*cpu_optimizer", "what waits on the host"},
    {"checkpoint_in_cpu", "what waits on the host"},
    {"fsdp", "which states are divided"},
    {"*fsdp_config", "which states are divided"},
    {"sharding_strategy", "which states are divided"},
    {"*tensor*parallel*", "the model is divided"},
    {"*pipeline*parallel*", "the model is divided"},
    {"*context_parallel*", "the sequence is divided"},
    {"*sequence_parallel*", "the sequence is divided"},
    {"*expert*parallel*", "experts are divided"},
    {"*ring_attn*", "the sequence is divided"},
    {"*ulysses*", "the sequence is divided"},
    {"tp_size", "the model is divided"},
    {"pp_size", "the model is divided"},
    {"cp_size", "the sequence is divided"},
    {"sp_size", "the sequence is divided"},
    {"ep_size", "experts are divided"},
    {"ep_world_size", "experts are divided"},
    // What is trained, and beside what.
    {"*lora*", "an adapter"},
    {"*dora", "an adapter"},
    {"use_peft*", "an adapter"},
    {"*boft*", "an adapter"},
    {"*hra_*", "an adapter"},
    {"use_hra", "an adapter"},
    {"*loha*", "an adapter"},
    {"*lokr*", "an adapter"},
    {"*vera_*", "an adapter"},
    {"*ia3*", "an adapter"},
    {"virtual_prompt_style", "an adapter"},
    {"num_virtual_tokens", "an adapter"},
    {"peft_*", "an adapter"},
    {"*adapter*", "an adapter"},
    {"*freeze*", "what is trained"},
    {"*frozen*", "what is trained"},
    {"trainable_*", "what is trained"},
    {"tune_mm_*", "what is trained"},
    {"bitfit", "what is trained"},
    {"*teacher*", "a second model"},
    {"*distill*", "a second model"},
    {"kd", "a second model"},
    {"export_kd*", "a second model"},
    {"ref_model*", "a second model"},
    {"*reference_model*", "a second model"},
    {"reward_model*", "a second model"},
    {"critic_*", "a second model"},
    {"*ema", "a second copy of the weights"},
    {"ema_*", "a second copy of the weights"},
    // Bytes of a value.
    {"bits", "the type of the weights"},
    {"*load_in_*bit", "the type of the weights"},
    {"*4bit*", "the type of the weights"},
    {"*8bit*", "the type of the weights"},
    {"*quant*", "the type of the weights"},
    {"qat*", "fake quantisation beside the weights"},
    {"bf16", "the type of the weights or of the products"},
    {"fp16", "the type of the weights or of the products"},
    {"fp8", "the type of the products"},
    {"fp8_*", "the type of the products"},
    {"*pure_bf16", "the type of the weights"},
    {"*torch_dtype", "the type of the weights"},
    {"dtype", "the type of the weights"},
    {"precision", "the type of the weights or of the products"},
    {"mixed_precision", "the type of the products"},
    {"amp", "the type of the products"},
    {"megatron_amp_o2", "master weights"},
    {"*main_params_dtype", "master weights"},
    {"*main_grads_dtype", "the type of the gradients"},
    // Lengths and batches.
    {"*max_seq_len*", "the length of a sequence"},
    {"*model_max_length", "the length of a sequence"},
    {"max_length", "the length of a sequence"},
    {"max_len", "the length of a sequence"},
    {"cutoff_len", "the length of a sequence"},
    {"block_size", "the length of a sequence"},
    {"seq_len*", "the length of a sequence"},
    {"sequence_len*", "the length of a sequence"},
    {"*_seq_length", "the length of a sequence"},
    {"max_source_length", "the length of a sequence"},
    {"max_target_length", "the length of a sequence"},
    {"max_prompt_length", "the length of a sequence"},
    {"max_completion_length", "the length of a sequence"},
    {"micro_batch_size*", "the micro-batch"},
    {"batch_size", "the micro-batch"},
    {"*train_batch_size*", "the micro-batch"},
    {"gradient_accumulation*_steps", "the number of micro-batches"},
    {"packing", "tokens that are computed"},
    {"padding_free", "tokens that are computed"},
    // What is kept for backward, and who computes it.
    {"*recompute*", "activations that are kept"},
    {"*gradient_checkpointing*", "activations that are kept"},
    {"*activation_checkpointing*", "activations that are kept"},
    {"*checkpoint_activations*", "activations that are kept"},
    {"activations_checkpoint_*", "activations that are kept"},
    {"*flash_att*", "the kernel of attention"},
    {"attn_impl*", "the kernel of attention"},
    {"*xformers*", "the kernel of attention"},
    {"contigious_checkpointing", "activations that are kept"},
    {"contiguous_checkpointing", "activations that are kept"},
    {"partition_activations", "activations that are kept"},
    {"cpu_checkpointing", "what waits on the host"},
    {"defer_embedding_wgrad*", "activations that are kept"},
    {"delay_wgrad*", "activations that are kept"},
    {"tiled_*", "activations that are kept"},
    {"*op_fuser", "kernels that keep other tensors"},
    {"use_*kernel*", "kernels that keep other tensors"},
    {"use_*_loss", "the loss, and what it keeps"},
    {"enable_*_loss", "the loss, and what it keeps"},
    {"*liger*", "kernels that keep less"},
    {"*unsloth*", "kernels that keep less"},
    {"*cut_cross_entropy*", "logits that are not kept"},
    {"num_experts", "experts"},
    {"num_moe_experts", "experts"},
    {"*shared_expert*", "experts"},
    {"moe", "experts"},
    {"optim", "states of the optimizer"},
    {"optimizer", "states of the optimizer"},
    {"*galore*", "states of the optimizer"},
    {"*badam*", "states of the optimizer"},
    {"*apollo*", "states of the optimizer"},
    {"*lisa*", "states of the optimizer"},
    {"use_bnb_optimizer", "states of the optimizer"},
    {"*optimizer_states", "states of the optimizer"},
    {"*master_weights*", "master weights"},
};

std::string normal_name(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return result;
}

// `*` matches any stretch. Names are short, so each start is tried.
bool matches_pattern(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  const std::string_view rest = pattern.substr(star + 1);
  if (rest.empty()) return true;
  for (std::size_t at = star; at <= name.size(); ++at)
    if (matches_pattern(rest, name.substr(at))) return true;
  return false;
}

// What is off, empty, null or none asks for nothing.
bool asks_for_nothing(const Value& value) {
  if (value.is_null()) return true;
  if (value.is_array()) return value.items().empty();
  const std::string word = normal_name(word_of(value));
  return word.empty() || word == "none" || word == "null" ||
         truth_of(value) == std::optional(false);
}

bool is_of_evaluation(std::string_view section) {
  const std::string name = normal_name(section);
  return name.starts_with("val") || name.starts_with("test") ||
         name.find("eval") != std::string::npos || name.starts_with("infer");
}

struct Warned {
  Imported& into;
  std::set<std::tuple<std::string, int, int>> told;  // places that a problem points at already

  bool is_told(const Place& place) const {
    return place.line > 0 && told.count({place.source, place.line, place.column}) > 0;
  }

  void look(const std::string& path, const std::string& key, const Value& value) {
    if (is_told(value.place()) || into.idle.count(path) > 0) return;
    if (value.is_table()) {
      // What is evaluated beside training is no part of its step.
      if (is_of_evaluation(key)) return;
      for (const Value::Member& member : value.members())
        look(path + "." + member.key, member.key, member.value);
      return;
    }
    const std::string_view changes = what_changes(key);
    if (changes.empty() || asks_for_nothing(value)) return;
    if (changes.ends_with("divided") && word_of(value) == "1") return;
    into.unread.push_back(path.substr(path.find('.') + 1));
    add_problem(into.problems,
                {Severity::kWarning,
                 "E602",
                 fmt::format("{} = {} is not read", into.unread.back(), shown(value)),
                 value.place(),
                 fmt::format("it may change memory: {}", changes),
                 {}});
  }
};

}  // namespace

std::string_view what_changes(std::string_view name) {
  const std::string normal = normal_name(name);
  for (const HeavyKey& key : kHeavyKeys)
    if (matches_pattern(key.pattern, normal)) return key.changes;
  return {};
}

void warn_of_heavy_keys(Imported& into) {
  const Value* carried = into.run.find("carried");
  if (carried == nullptr) return;
  Warned warned{into, {}};
  for (const Diagnostic& problem : into.problems)
    warned.told.insert({problem.place.source, problem.place.line, problem.place.column});
  if (const Value* unweighed = into.run.at("training.unweighed"); unweighed != nullptr)
    for (const Value& one : unweighed->items())
      warned.told.insert({one.place().source, one.place().line, one.place().column});
  for (const Value::Member& format : carried->members())
    if (format.value.is_table())
      for (const Value::Member& member : format.value.members())
        warned.look(format.key + "." + member.key, member.key, member.value);
}

}  // namespace steelyard
