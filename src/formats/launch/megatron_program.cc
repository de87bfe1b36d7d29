#include "formats/launch/megatron_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/arguments.h"
#include "formats/launch/megatron_yaml.h"

namespace steelyard {
namespace {

// Flags that take no value (argparse: store_true). A variable behind one of them holds further flags, and is none of its value.
constexpr std::string_view kMegatronSwitches[] = {
    "swiglu",
    "squared_relu",
    "quick_geglu",
    "bf16",
    "fp16",
    "sequence_parallel",
    "use_distributed_optimizer",
    "disable_bias_linear",
    "untie_embeddings_and_output_weights",
    "group_query_attention",
    "use_rotary_position_embeddings",
    "no_position_embedding",
    "add_qkv_bias",
    "qk_layernorm",
    "multi_latent_attention",
    "apply_layernorm_1p",
    "embed_layernorm",
    "recompute_activations",
    "checkpoint_activations",
    "use_flash_attn",
    "use_mcore_models",
    "use_legacy_models",
    "overlap_grad_reduce",
    "overlap_param_gather",
    "tp_comm_overlap",
    "cross_entropy_loss_fusion",
    "accumulate_allreduce_grads_in_fp32",
    "grad_reduce_in_bf16",
    "moe_grouped_gemm",
    "moe_shared_expert_gate",
    "moe_pad_expert_input_to_capacity",
    "optimizer_cpu_offload",
    "use_precision_aware_optimizer",
    "use_megatron_fsdp",
    "use_custom_fsdp",
    "use_torch_fsdp2",
    "init_model_with_meta_device",
    "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split",
    "enable_cuda_graph",
    "external_cuda_graph",
    "te_rng_tracker",
    "enable_vocab_parallel",
    "no_pipeline_parallel",
    "deepspeed_activation_checkpointing",
    "cpu_optimizer",
};

bool takes_no_value(std::string_view name) {
  return std::find(std::begin(kMegatronSwitches), std::end(kMegatronSwitches), name) !=
         std::end(kMegatronSwitches);
}

bool is_whole_variable(const Value& word) {
  return word.is_string() && word.as_string().starts_with("${") &&
         word.as_string().find('}') + 1 == word.as_string().size();
}

// What argparse would make of the flags once variables that nobody set are taken out: each stood for words of its own, or
// for none.
Value without_variables(const Value& flags, Launch& launch) {
  Value result = Value::table();
  result.set_mark(flags.mark());
  std::vector<std::string> told;
  const auto leave_out = [&](const Value& word) {
    const std::string name = word.as_string();
    if (std::find(told.begin(), told.end(), name) != told.end()) return;
    told.push_back(name);
    add_problem(launch.into.problems, {Severity::kWarning,
                                       "E602",
                                       fmt::format("{} is set by nobody here", name),
                                       word.place(),
                                       "flags that it may hold are not read",
                                       {}});
  };
  for (const Value::Member& member : flags.members()) {
    Value value = member.value;
    if (value.is_array()) {
      Value kept = Value::array();
      for (const Value& word : value.items()) {
        if (is_whole_variable(word))
          leave_out(word);
        else
          kept.items().push_back(word);
      }
      const Mark mark = value.mark();
      if (kept.items().size() == value.items().size()) {
      } else if (kept.items().size() == 1) {
        value = kept.items().front();
      } else {
        value = kept.items().empty() ? Value::boolean(true) : std::move(kept);
        value.set_mark(mark);
      }
    }
    if (takes_no_value(member.key) && value.is_string() && is_whole_variable(value)) {
      leave_out(value);
      const Mark mark = value.mark();
      value = Value::boolean(true);
      value.set_mark(mark);
    }
    result.members().push_back({member.key, member.key_mark, std::move(value)});
  }
  return result;
}

// `--deepspeed --deepspeed_config FILE` beside Megatron's own flags.
void read_with_deepspeed(const Value& flags, Launch& launch, std::string_view program) {
  const Value file = *flags.find("deepspeed_config");
  read_megatron(flags, launch, program);
  for (const char* key :
       {"engine", "training.precision", "parallel.zero_stage", "training.gradient_clip"})
    remove_path(launch.into.run, key);
  std::erase_if(launch.into.unsaid, [](const Unsaid& unsaid) {
    return unsaid.key == "training.precision" || unsaid.key == "parallel.zero_stage" ||
           unsaid.key == "training.gradient_clip";
  });
  const Value none = Value::table();
  ConfigReader reading(none, "megatron", launch.into);
  reading.say("implementation", "megatron", file);
  if (const auto document = named_document(launch, file)) read_deepspeed(*document, launch);
}

}  // namespace

bool is_megatron_program(const ProgramCall& call) {
  static constexpr std::string_view kPrograms[] = {
      "pretrain_gpt",         "pretrain_bert",
      "pretrain_t5",          "pretrain_ict",
      "pretrain_vlm",         "pretrain_mamba",
      "pretrain_hybrid",      "pretrain_retro",
      "pretrain_mimo",        "pretrain_vision_classify",
      "pretrain_vision_dino", "pretrain_vision_inpaint",
      "pretrain_gpt2"};
  return std::find(std::begin(kPrograms), std::end(kPrograms), call.name) != std::end(kPrograms);
}

// One flag is anybody's; several of these are Megatron's.
bool has_megatron_flags(const ProgramCall& call) {
  static constexpr std::string_view kFlags[] = {
      "num_layers",        "hidden_size",     "num_attention_heads",
      "micro_batch_size",  "seq_length",      "max_position_embeddings",
      "global_batch_size", "tokenizer_type",  "tensor_model_parallel_size",
      "train_iters",       "lr_decay_style",  "pipeline_model_parallel_size",
      "vocab_file",        "init_method_std", "distributed_backend"};
  const Value& flags = call.arguments.flags;
  return std::count_if(std::begin(kFlags), std::end(kFlags),
                       [&](std::string_view flag) { return flags.find(flag) != nullptr; }) >= 2;
}

bool read_program_with_megatron_flags(const ProgramCall& call, Launch& launch) {
  // Megatron's arguments are those of its tools, too.
  static constexpr std::string_view kTools[] = {"generat", "inference", "server",     "eval",
                                                "convert", "export",    "preprocess", "tokenize",
                                                "merge",   "checkpoint"};
  if (std::any_of(std::begin(kTools), std::end(kTools),
                  [&](std::string_view part) { return call.name.find(part) != std::string::npos; }))
    return false;
  // tasks/main.py: evaluations and prompts, and classifiers that are finetuned.
  if (const Value* task = call.arguments.flags.find("task")) {
    static constexpr std::string_view kNoTraining =
        "LAMBADA=|WIKITEXT103=|MSDP-PROMPT=|MSDP-EVAL-F1=|ICT-ZEROSHOT-NQ=|RETRIEVER-EVAL=";
    if (ours_of(kNoTraining, word_of(*task))) return false;
    const Value none = Value::table();
    ConfigReader reading(none, "megatron", launch.into);
    launch.into.formats.emplace_back("Megatron-LM task");
    reading.unweighed(*task, "task", "a head that classifies in the place of words");
    return true;
  }
  add_problem(launch.into.problems,
              {Severity::kWarning,
               "E602",
               fmt::format("{} is none of Megatron-LM's own programs", call.name),
               call.program.place(),
               "its flags are read as Megatron-LM's; what it adds is not read",
               {}});
  return read_megatron_program(call, launch);
}

bool read_megatron_program(const ProgramCall& call, Launch& launch) {
  Value flags = without_variables(call.arguments.flags, launch);
  flags.set_mark(call.program.mark());
  // A file in place of all flags (megatron/training/arguments.py, parse_args).
  if (const Value* file = flags.find("yaml_cfg"); file != nullptr && file->is_string()) {
    const auto document = named_document(launch, *file);
    if (document) read_megatron(flags_of_megatron_yaml(*document), launch, call.name);
    return true;
  }
  const Value* json = flags.find("deepspeed_config");
  if (json != nullptr && json->is_string())
    read_with_deepspeed(flags, launch, call.name);
  else
    read_megatron(flags, launch, call.name);
  return true;
}

}  // namespace steelyard
