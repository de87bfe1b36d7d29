// NeMo 1.x's YAML (nemo_framework_launcher, launcher_scripts/conf/training) and Megatron-Bridge's
// (megatron/bridge/training/config.py): what Megatron-LM's flags say, in sections and under other names.
#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/formats.h"
#include "formats/launch/megatron_bridge.h"
#include "formats/launch/nemo_references.h"

namespace steelyard {
namespace {

// A dotted path, the flag of Megatron-LM, and how its words differ.
constexpr Row kFlags[] = {
    {"model.micro_batch_size", "micro_batch_size", "", "train.micro_batch_size"},
    {"model.global_batch_size", "global_batch_size", "", "train.global_batch_size"},
    {"model.rampup_batch_size", "rampup_batch_size", "", "train.rampup_batch_size"},
    {"model.tensor_model_parallel_size", "tensor_model_parallel_size"},
    {"model.pipeline_model_parallel_size", "pipeline_model_parallel_size"},
    {"model.virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"},
    {"model.pipeline_model_parallel_layout", "pipeline_model_parallel_layout"},
    {"model.context_parallel_size", "context_parallel_size"},
    {"model.cp_comm_type", "cp_comm_type"},
    {"model.num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers"},
    {"model.num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers"},
    {"model.account_for_embedding_in_pipeline_split", "account_for_embedding_in_pipeline_split"},
    {"model.account_for_loss_in_pipeline_split", "account_for_loss_in_pipeline_split"},
    {"model.microbatch_group_size_per_vp_stage",
     "microbatch_group_size_per_virtual_pipeline_stage"},
    {"model.expert_model_parallel_size", "expert_model_parallel_size"},
    {"model.expert_tensor_parallel_size", "expert_tensor_parallel_size"},
    {"model.sequence_parallel", "sequence_parallel"},
    // Of a fine-tune the data cut the sequences (megatron_gpt_finetuning.py).
    {"model.data.train_ds.max_seq_length", "seq_length", "",
     "model.encoder_seq_length|dataset.seq_length|dataset.sequence_length|model.seq_length|model."
     "data.seq_length"},
    {"model.max_position_embeddings", "max_position_embeddings"},
    {"model.num_layers", "num_layers"},
    {"model.hidden_size", "hidden_size"},
    {"model.ffn_hidden_size", "ffn_hidden_size"},
    {"model.num_attention_heads", "num_attention_heads"},
    {"model.kv_channels", "kv_channels"},
    {"model.hidden_dropout", "hidden_dropout"},
    {"model.attention_dropout", "attention_dropout"},
    {"model.layernorm_epsilon", "norm_epsilon"},
    {"model.normalization", "normalization",
     "rmsnorm=RMSNorm|RMSNorm=RMSNorm|layernorm=LayerNorm|layernorm1p=LayerNorm1P|LayerNorm="
     "LayerNorm"},
    {"model.position_embedding_type", "position_embedding_type"},
    {"model.rotary_percentage", "rotary_percent", "", "model.rotary_percent"},
    {"model.make_vocab_size_divisible_by", "make_vocab_size_divisible_by"},
    {"model.vocab_size", "vocab_size", "", "tokenizer.vocab_size|model.override_vocab_size"},
    {"model.qk_layernorm", "qk_layernorm"},
    {"model.num_moe_experts", "num_experts"},
    {"model.moe_router_topk", "moe_router_topk"},
    {"model.moe_ffn_hidden_size", "moe_ffn_hidden_size"},
    {"model.moe_shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"},
    {"model.moe_expert_capacity_factor", "moe_expert_capacity_factor"},
    {"model.moe_pad_expert_input_to_capacity", "moe_pad_expert_input_to_capacity"},
    {"model.moe_grouped_gemm", "moe_grouped_gemm"},
    {"model.moe_token_dispatcher_type", "moe_token_dispatcher_type"},
    {"model.activations_checkpoint_granularity", "recompute_granularity", "",
     "model.recompute_granularity"},
    {"model.activations_checkpoint_method", "recompute_method", "", "model.recompute_method"},
    {"model.activations_checkpoint_num_layers", "recompute_num_layers", "",
     "model.recompute_num_layers"},
    {"model.recompute_modules", "recompute_modules"},
    {"model.cuda_graph_impl", "cuda_graph_impl"},
    {"model.cuda_graph_scope", "cuda_graph_scope", "", "model.cuda_graph_modules"},
    {"model.enable_cuda_graph", "enable_cuda_graph"},
    {"model.external_cuda_graph", "external_cuda_graph"},
    {"model.multi_latent_attention", "multi_latent_attention"},
    {"model.q_lora_rank", "q_lora_rank"},
    {"model.kv_lora_rank", "kv_lora_rank"},
    {"model.qk_head_dim", "qk_head_dim"},
    {"model.qk_pos_emb_head_dim", "qk_pos_emb_head_dim"},
    {"model.v_head_dim", "v_head_dim"},
    {"model.mtp_num_layers", "mtp_num_layers"},
    {"model.use_flash_attention", "use_flash_attn"},
    {"model.cross_entropy_loss_fusion", "cross_entropy_loss_fusion"},
    {"trainer.gradient_clip_val", "clip_grad", "", "optimizer.clip_grad"},
    {"ddp.use_distributed_optimizer", "use_distributed_optimizer", "",
     "optimizer.use_distributed_optimizer"},
    {"ddp.use_megatron_fsdp", "use_megatron_fsdp", "", "dist.use_megatron_fsdp"},
    {"dist.use_torch_fsdp2", "use_torch_fsdp2"},
    {"ddp.data_parallel_sharding_strategy", "data_parallel_sharding_strategy"},
    {"ddp.fsdp_double_buffer", "fsdp_double_buffer"},
    {"ddp.nccl_ub", "nccl_ub"},
    {"ddp.num_distributed_optimizer_instances", "num_distributed_optimizer_instances"},
    {"optimizer.optimizer", "optimizer"},
    {"optimizer.optimizer_cpu_offload", "optimizer_cpu_offload"},
    {"optimizer.optimizer_offload_fraction", "optimizer_offload_fraction"},
    {"optimizer.use_precision_aware_optimizer", "use_precision_aware_optimizer"},
    {"checkpoint.ckpt_format", "ckpt_format"},
};

void translate_activation(ConfigReader& reading, Value& flags) {
  const Value* activation = reading.take("model.activation");
  if (activation != nullptr) {
    const std::string word = word_of(*activation);
    if (word == "swiglu" || word == "fast-swiglu")
      put_flag(flags, "swiglu", Value::boolean(true), *activation);
    else if (word == "squared-relu")
      put_flag(flags, "squared_relu", Value::boolean(true), *activation);
    else if (word == "geglu" || word == "fast-geglu")
      put_flag(flags, "geglu", Value::boolean(true), *activation);
    else if (word != "gelu" && word != "openai-gelu")
      reading.unweighed(*activation, "model.activation",
                        fmt::format("the activation \"{}\"", word));
  }
}

void translate_precision(ConfigReader& reading, const References& references, Value& flags) {
  const Value* said = reading.take("trainer.precision");
  if (said == nullptr) said = reading.take("model.precision");
  if (said == nullptr) return;
  const Value value = references.resolved(*said, "trainer");
  const std::string word = word_of(value);
  if (word.starts_with("bf16")) put_flag(flags, "bf16", Value::boolean(true), *said);
  if (word.starts_with("16") || word.starts_with("fp16"))
    put_flag(flags, "fp16", Value::boolean(true), *said);
  if (const Value* eight = reading.on("model.fp8"))
    put_flag(flags, "fp8_format", Value::string("hybrid"), *eight);
  for (const char* part : {"model.fp8_e4m3", "model.fp8_hybrid"}) reading.take(part);
  const Value* reduced = reading.take("model.optim.grad_sync_dtype");
  if (reduced != nullptr && word_of(*reduced) == "bf16")
    put_flag(flags, "grad_reduce_in_bf16", Value::boolean(true), *reduced);
}

void translate_optimizer(ConfigReader& reading, Value& flags) {
  const Value* name = reading.take("model.optim.name");
  if (name == nullptr) return;
  const std::string word = word_of(*name);
  if (word == "distributed_fused_adam" || word == "mcore_distributed_optim")
    put_flag(flags, "use_distributed_optimizer", Value::boolean(true), *name);
  else if (word.find("adam") == std::string::npos)
    reading.unweighed(*name, "model.optim.name",
                      fmt::format("states of the optimizer \"{}\"", word));
}

void translate_tokenizer(ConfigReader& reading, Value& flags) {
  const Value* library = reading.take("model.tokenizer.library");
  const Value* type = reading.take("model.tokenizer.type");
  const Value* file = reading.take("model.tokenizer.model");
  const std::string kind = library == nullptr ? "" : word_of(*library);
  if (kind == "megatron" && type != nullptr) {
    put_flag(flags, "tokenizer_type", *type, *type);
  } else if (kind == "huggingface" && type != nullptr) {
    put_flag(flags, "tokenizer_type", Value::string("HuggingFaceTokenizer"), *type);
    put_flag(flags, "tokenizer_model", *type, *type);
  } else if (kind == "sentencepiece" && file != nullptr) {
    put_flag(flags, "tokenizer_type", Value::string("GPTSentencePieceTokenizer"), *file);
    put_flag(flags, "tokenizer_model", *file, *file);
  }
}

// What else NeMo 1.x trains: which keys it alone has.
struct OtherNemoModel {
  std::string_view keys;  // "a|b": any of them
  std::string_view name;  // a part of `name`, or of the program's
  std::string_view what;
};
constexpr OtherNemoModel kOtherNemoModels[] = {
    {"model.mcore_t5|model.encoder.num_layers|model.encoder.arch", "t5", "T5 as NeMo trains it"},
    {"model.mcore_bert|model.bert_binary_head", "bert", "BERT as NeMo trains it"},
    {"model.retro|model.retro_workdir", "retro", "RETRO's retriever beside the decoder"},
    {"model.mm_cfg", "neva", "a tower of vision beside the decoder"},
    {"model.vision|model.text", "clip", "towers of vision and of text that are compared"},
    {"model.vision_pretraining|model.img_h", "vit", "a tower of vision"},
    {"model.unet_config|model.first_stage_config", "diffusion", "a model of diffusion"},
    {"model.preprocessor|model.perception", "salm", "a model of speech"},
    {"model.reward_model_type|model.regression", "reward",
     "a head that scores in the place of words"},
    {"trainer.ppo|remote_critic_rm", "ppo", "rollouts are generated during training"},
    {"model.griffin|model.mamba_ssm_ngroups|model.hybrid_override_pattern", "griffin",
     "recurrent layers"},
    {"", "mamba", "state-space layers"},
    {"", "dreambooth", "a model of diffusion"},
    {"", "imagen", "a model of diffusion"},
    {"", "controlnet", "a model of diffusion"},
    {"", "pix2pix", "a model of diffusion"},
    {"", "nsfw", "a tower of vision"},
};

bool is_other_nemo_model(ConfigReader& reading) {
  const Value* name = reading.theirs().find("name");
  const std::string named = name == nullptr ? "" : word_of(*name);
  for (const OtherNemoModel& other : kOtherNemoModels) {
    const Value* said = nullptr;
    for (std::size_t from = 0; from < other.keys.size();) {
      const std::size_t end = std::min(other.keys.find('|', from), other.keys.size());
      if (said == nullptr) said = reading.theirs().at(other.keys.substr(from, end - from));
      from = end + 1;
    }
    if (said == nullptr && named.find(other.name) != std::string::npos) said = name;
    if (said == nullptr || said->is_null()) continue;
    reading.unweighed(*said, "this model", other.what);
    reading.lacks("model", std::string(other.what));
    return true;
  }
  return false;
}

// peft_scheme beside a model that is restored from a file.
void translate_peft(ConfigReader& reading) {
  const Value* scheme = reading.take("model.peft.peft_scheme");
  const Value* from = reading.take("model.restore_from_path");
  if (from != nullptr && reading.theirs().at("model.num_layers") == nullptr)
    reading.lacks("model", "it is restored from a .nemo file: --model");
  // The data's batch is the model's, by reference.
  if (const Value* same = reading.theirs().at("model.data.train_ds.micro_batch_size");
      same != nullptr && word_of(*same).ends_with("model.micro_batch_size}"))
    reading.idle({"model.data.train_ds.micro_batch_size"});
  reading.idle({"model.data.train_ds.min_seq_length"});
  // Each scheme has a section, and one of them is in force.
  reading.idle({"model.peft.adapter_tuning.adapter_dim",
                "model.peft.adapter_tuning.adapter_dropout", "model.peft.p_tuning.virtual_tokens",
                "model.peft.lora_tuning.adapter_dim", "model.peft.lora_tuning.adapter_dropout"});
  if (scheme == nullptr || word_of(*scheme).empty() || word_of(*scheme) == "none" ||
      word_of(*scheme) == "sft")
    return;
  if (word_of(*scheme) != "lora")
    return reading.unweighed(*scheme, "model.peft.peft_scheme",
                             fmt::format("the adapter \"{}\"", word_of(*scheme)));
  reading.say("adapter.method", "lora", *scheme);
  if (const auto rank = reading.count("model.peft.lora_tuning.adapter_dim"))
    reading.say("adapter.rank", Value::integer(*rank), *scheme);
  const Value* targets = reading.take("model.peft.lora_tuning.target_modules");
  if (targets == nullptr || word_of(*targets).empty()) {
    Value names =
        Value::array({Value::string("q_proj"), Value::string("k_proj"), Value::string("v_proj")});
    reading.take_default("adapter.target_modules", std::move(names),
                         "NeMo's LoRA stands beside attention_qkv");
  }
}

// What stands around Megatron's layers and is not weighed.
constexpr UnweighedKey kAroundNemo[] = {
    {"model.fsdp", "torch's FSDP around Megatron's layers"},
    {"model.knowledge_distillation", "a teacher beside the student"},
    {"model.teacher", "a teacher beside the student"},
    {"model.virtual_prompt_style", "adapters of NeMo's own: prompts, bottlenecks or IA3"},
    {"model.adapter_tuning", "adapters of NeMo's own: bottlenecks"},
    {"model.ia3_tuning", "adapters of NeMo's own: IA3"},
};

void look_around(ConfigReader& reading) {
  reading.unweighed(kAroundNemo);
  const Value* half = reading.take("model.megatron_amp_O2");
  if (half == nullptr) half = reading.take("model.megatron_amp_o2");
  const Value* precision = reading.theirs().at("trainer.precision");
  if (const Value* again = reading.theirs().at("model.precision");
      again != nullptr && precision != nullptr && word_of(*again) == word_of(*precision))
    reading.idle({"model.precision"});
  if (half != nullptr && truth_of(*half) == std::optional(false) && precision != nullptr &&
      !word_of(*precision).starts_with("32"))
    reading.unweighed(*half, "model.megatron_amp_O2",
                      "false: weights stay in fp32, and autocast narrows them");
}

void say_devices(ConfigReader& reading) {
  const Value* nodes = reading.take("trainer.num_nodes");
  const Value* each = reading.take("trainer.devices");
  if (each == nullptr) return;
  const std::int64_t machines = nodes == nullptr ? 1 : count_of(*nodes).value_or(0);
  const std::int64_t devices = count_of(*each).value_or(0);
  if (machines < 1 || devices < 1 || machines > 1'000'000 || devices > 1'000'000) return;
  reading.say("cluster.devices", Value::integer(machines * devices), *each);
  reading.say("cluster.devices_per_node", Value::integer(devices), *each);
}

}  // namespace

void read_nemo(const Value& document, Launch& launch) {
  ConfigReader reading(document, "nemo", launch.into);
  const bool bridge = document.find("trainer") == nullptr;
  launch.into.formats.emplace_back(bridge ? "Megatron-Bridge YAML" : "NeMo YAML");
  const References references(document);
  Value flags = Value::table();
  flags.set_mark(document.mark());
  for (const Row& row : kFlags) {
    std::string paths = fmt::format("{}|{}", row.theirs, row.also);
    for (std::size_t from = 0; from < paths.size();) {
      const std::size_t end = std::min(paths.find('|', from), paths.size());
      const std::string path = paths.substr(from, end - from);
      from = end + 1;
      const Value* value = path.empty() ? nullptr : reading.take(path);
      if (value == nullptr) continue;
      Value said = references.resolved(*value, path.substr(0, path.rfind('.')));
      if (!row.words.empty())
        if (const auto word = ours_of(row.words, word_of(said))) said = Value::string(*word);
      // A switch that is off is a flag that is not there.
      if (said.is_bool() && !said.as_bool()) continue;
      put_flag(flags, row.ours, std::move(said), *value);
    }
  }
  if (const Value* groups = reading.take("model.num_query_groups")) {
    put_flag(flags, "group_query_attention", Value::boolean(true), *groups);
    put_flag(flags, "num_query_groups", references.resolved(*groups, "model"), *groups);
  }
  for (const char* bias : {"model.bias", "model.add_bias_linear"})
    if (const Value* value = reading.take(bias);
        value != nullptr && !truth_of(*value).value_or(true))
      put_flag(flags, "disable_bias_linear", Value::boolean(true), *value);
  for (const char* bias : {"model.add_qkv_bias", "model.qkv_bias"})
    if (const Value* biased = reading.on(bias))
      put_flag(flags, "add_qkv_bias", Value::boolean(true), *biased);
  if (const Value* shared = reading.take("model.share_embeddings_and_output_weights");
      shared != nullptr && !truth_of(*shared).value_or(true))
    put_flag(flags, "untie_embeddings_and_output_weights", Value::boolean(true), *shared);
  // Zero layers recomputed, and no granularity: nothing.
  if (flags.member("recompute_granularity") == nullptr)
    std::erase_if(flags.members(), [](const Value::Member& member) {
      return member.key == "recompute_method" || member.key == "recompute_num_layers";
    });
  if (bridge) {
    translate_bridge(reading, flags);
  } else {
    look_around(reading);
    translate_peft(reading);
    translate_activation(reading, flags);
    translate_precision(reading, references, flags);
    translate_optimizer(reading, flags);
    translate_tokenizer(reading, flags);
    say_devices(reading);
  }
  if (!bridge && is_other_nemo_model(reading))
    for (const char* size : {"num_layers", "hidden_size"}) remove_path(flags, size);
  read_megatron(flags, launch);
  reading.carry_rest();
}

}  // namespace steelyard
