// verl's words and YAML: verl/trainer/config/{sft_trainer,sft_trainer_engine,ppo_trainer}.yaml (January 2026).
//
//   torchrun --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer model.partial_pretrain=Qwen/Qwen2.5-7B data.max_length=4096
//   python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen3-8B ...
//
// Fine-tuning is weighed, and the actor of GRPO and its kin on FSDP, beside a vLLM that takes the share of the device that it is
// told. PPO is read, and refused when it is weighed: a critic has states of its own.
#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/arguments.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/megatron_bridge.h"
#include "formats/launch/programs.h"

namespace steelyard {
namespace {

constexpr Row kFineTuning[] = {
    {"data.train_batch_size", "training.global_batch", "", "", "256"},
    {"model.enable_gradient_checkpointing", "recompute.mode", "true=full|false=none", "", "full"},
};

constexpr Row kLora[] = {
    {"model.lora_rank", "adapter.rank"},
    {"model.lora_alpha", "adapter.alpha", "", "", "16"},
};

constexpr UnweighedKey kUnweighed[] = {
    {"model.use_fused_kernels", "another loss, made of the hidden states"},
    {"model.enable_activation_offload", "inputs of layers wait on the host"},
    {"model.tiled_mlp.enabled", "the mlp runs in pieces"},
    {"model.mtp.enable_train", "further layers predict further tokens"},
    {"engine.param_offload", "weights wait on the host between steps"},
    {"engine.optimizer_offload", "optimizer states wait on the host between steps"},
    {"engine.grad_offload", "gradients wait on the host between steps"},
};

// Words with their key before the sign; `engine=megatron` chooses a file and is no value of the document.
struct HydraWords {
  Value document = Value::table();
  Value choices = Value::table();
};
HydraWords hydra_words(std::span<const Value> words, const Mark& mark) {
  HydraWords result;
  result.document.set_mark(mark);
  std::vector<Value> values;
  for (const Value& word : words) {
    const std::string& text = word.as_string();
    const std::size_t sign = text.find('=');
    const std::size_t dot = text.find('.');
    const bool chooses = sign != std::string::npos && dot > sign &&
                         (text.starts_with("engine=") || text.starts_with("optim=") ||
                          text.find('@') < sign || text.find('/') < sign);
    if (chooses) {
      Value choice = Value::string(text.substr(sign + 1));
      choice.set_mark(word.mark());
      set_path(result.choices, text.substr(0, sign), std::move(choice), word.place());
    } else {
      values.push_back(word);
    }
  }
  lay_over_assignments(result.document, values);
  return result;
}

void say_verl_devices(ConfigReader& reading) {
  const Value* each = reading.take("trainer.n_gpus_per_node");
  const Value* nodes = reading.take("trainer.nnodes");
  if (reading.has("cluster.devices")) return;
  const auto per_node = each == nullptr ? std::optional<std::int64_t>(8) : count_of(*each);
  const auto machines = nodes == nullptr ? std::optional<std::int64_t>(1) : count_of(*nodes);
  if (!per_node || !machines || *per_node < 1 || *machines < 1 || *per_node > 4'096 ||
      *machines > 4'096)
    return reading.lacks("cluster.devices", "trainer.nnodes and trainer.n_gpus_per_node decide");
  if (each == nullptr && nodes == nullptr) {
    // A launcher that did not say how many starts as many as it will, whatever verl's file says.
    if (reading.is_asked("cluster.devices")) return;
    reading.take_default("cluster.devices", Value::integer(8), "verl's trainer.n_gpus_per_node");
    return;
  }
  const Value& at = each != nullptr ? *each : *nodes;
  reading.say("cluster.devices", Value::integer(*per_node * *machines), at);
  reading.say("cluster.devices_per_node", Value::integer(*per_node), at);
}

void say_ulysses(ConfigReader& reading, std::string_view path) {
  const Value* divided = reading.take(path);
  if (divided == nullptr || count_of(*divided).value_or(1) <= 1) return;
  reading.say("parallel.context", Value::integer(*count_of(*divided)), *divided);
  reading.say("parallel.context_method", "ulysses", *divided);
}

// What both trainers do around the model: loaded in fp32 unless told, computed in bf16, clipped.
void read_fsdp_types(ConfigReader& reading, std::string_view path) {
  const Value* type = reading.take(path);
  const std::string word = type == nullptr ? "fp32" : word_of(*type);
  const bool narrow = word == "bf16" || word == "bfloat16";
  if (type == nullptr)
    reading.take_default("training.precision", Value::string("bf16-mixed"),
                         "verl loads weights in fp32 and computes in bf16");
  else
    reading.say("training.precision", narrow ? "bf16-pure" : "bf16-mixed", *type);
  if (reading.has("adapter.method") && narrow)
    reading.take_default("adapter.type", Value::string("bf16"),
                         "verl gives adapters the type of the weights");
}

void read_verl_adapter(ConfigReader& reading) {
  const Value* rank = reading.theirs().at("model.lora_rank");
  if (rank == nullptr || count_of(*rank).value_or(0) <= 0) {
    for (const char* key : {"model.lora_rank", "model.lora_alpha", "model.target_modules"})
      reading.take(key);
    return;
  }
  reading.say("adapter.method", "lora", *rank);
  reading.rows(kLora);
  if (reading.theirs().at("model.target_modules") != nullptr)
    read_targets(reading, "model.target_modules", "all-linear");
  else
    reading.take_default("adapter.target_modules", Value::string("all-linear"),
                         "verl's target_modules is all-linear");
}

void read_verl_kernels(ConfigReader& reading) {
  // Liger's patches make norms, rotary and mlp; the loss is verl's own, of whole logits.
  if (const Value* liger = reading.on("model.use_liger"))
    reading.say("training.kernels", "liger", *liger);
  reading.take_default("training.loss", Value::string("plain"), "verl's loss takes whole logits");
  reading.take_default("training.attention", Value::string("flash"),
                       "verl loads models with flash_attention_2");
  reading.take_default("training.optimizer", Value::string("adamw"), "verl's AdamW is torch's");
  reading.take_default("training.optimizer_form", Value::string("foreach"),
                       "verl's AdamW is torch's");
  reading.take_default("recompute.reentrant", Value::boolean(false),
                       "verl checkpoints without reentrance");
  read_clip(reading, "optim.clip_grad", true);
}

// verl/trainer/fsdp_sft_trainer.py.
void read_fsdp_trainer(ConfigReader& reading) {
  if (const Value* model = reading.take("model.partial_pretrain"))
    say_model(reading, *model);
  else
    reading.lacks("model", "model.partial_pretrain is needed");
  const Value* strategy = reading.take("model.strategy");
  if (strategy == nullptr)
    reading.take_default("engine", Value::string("fsdp2"), "verl's model.strategy is fsdp2");
  else
    reading.say("engine", word_of(*strategy) == "fsdp" ? "fsdp1" : "fsdp2", *strategy);
  reading.take_default("parallel.zero_stage", Value::integer(3), "verl divides everything");
  reading.rows(kFineTuning);
  if (const Value* micro = reading.take("data.micro_batch_size_per_gpu"))
    reading.say("training.micro_batch", *micro, *micro);
  else
    reading.take_default("training.micro_batch", Value::integer(4),
                         "verl's data.micro_batch_size_per_gpu");
  if (const Value* old = reading.take("data.micro_batch_size"))
    reading.warn(*old, "data.micro_batch_size is not read by verl",
                 "data.micro_batch_size_per_gpu is, and is 4 unless said");
  if (const Value* length = reading.take("data.max_length"))
    reading.say("training.sequence_length", *length, *length);
  else
    reading.take_default("training.sequence_length", Value::integer(1024),
                         "verl's data.max_length");
  say_ulysses(reading, "ulysses_sequence_parallel_size");
  read_verl_adapter(reading);
  read_fsdp_types(reading, "model.fsdp_config.model_dtype");
  if (reading.is("model.fsdp_config.cpu_offload") && reading.is("model.fsdp_config.offload_params"))
    for (const char* part : {"offload.parameters", "offload.optimizer"})
      reading.say(part, "cpu", *reading.theirs().at("model.fsdp_config.offload_params"));
}

// verl/trainer/sft_trainer.py: micro-batches are filled with whole samples up to a number of tokens.
void read_engine_batch(ConfigReader& reading) {
  const Value* dynamic = reading.take("data.use_dynamic_bsz");
  const Value* length = reading.take("data.max_length");
  const Value* micro = reading.take("data.micro_batch_size_per_gpu");
  const Value* tokens = reading.take("data.max_token_len_per_gpu");
  if (dynamic != nullptr && !truth_of(*dynamic).value_or(true)) {
    if (length != nullptr) reading.say("training.sequence_length", *length, *length);
    if (micro != nullptr) reading.say("training.micro_batch", *micro, *micro);
    reading.take_default("training.sequence_length", Value::integer(1024),
                         "verl's data.max_length");
    reading.take_default("training.micro_batch", Value::integer(4),
                         "verl's data.micro_batch_size_per_gpu");
    reading.rows(std::span(kFineTuning).first(1));
    return;
  }
  reading.take("data.train_batch_size");
  const std::int64_t most = tokens == nullptr ? 8192 : count_of(*tokens).value_or(0);
  const Value* divided = reading.said("parallel.context");
  const std::int64_t ranks = divided == nullptr ? 1 : count_of(*divided).value_or(1);
  if (most < 1 || most > 1'000'000'000 || ranks < 1 || ranks > 1'000'000)
    return reading.lacks("training.sequence_length", "data.max_token_len_per_gpu decides");
  if (tokens != nullptr)
    reading.say("training.sequence_length", Value::integer(most * ranks), *tokens);
  else
    reading.take_default("training.sequence_length", Value::integer(most * ranks),
                         "verl's data.max_token_len_per_gpu");
  reading.take_default("training.micro_batch", Value::integer(1),
                       "samples are laid end to end up to max_token_len_per_gpu");
  reading.take_default("training.gradient_accumulation", Value::integer(1),
                       "the data decide how many such micro-batches a step has");
}

// engine=megatron: Megatron-core, by verl/trainer/config/engine/megatron.yaml.
void read_megatron_engine(ConfigReader& reading, Launch& launch) {
  Value flags = Value::table();
  flags.set_mark(reading.theirs().mark());
  for (const char* key :
       {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
        "expert_model_parallel_size", "expert_tensor_parallel_size", "use_distributed_optimizer"})
    if (const Value* value = reading.take(fmt::format("engine.{}", key)))
      put_flag(flags, key, *value, *value);
  if (const Value* chunks = reading.take("engine.virtual_pipeline_model_parallel_size"))
    put_flag(flags, "num_virtual_stages_per_pipeline_rank", *chunks, *chunks);
  for (const char* key : {"recompute_granularity", "recompute_method", "recompute_num_layers",
                          "recompute_modules", "attention_backend"})
    if (const Value* value =
            reading.take(fmt::format("engine.override_transformer_config.{}", key)))
      put_flag(flags, key, *value, *value);
  for (const auto& [length, flag] : {std::pair{"training.sequence_length", "seq_length"},
                                     std::pair{"training.micro_batch", "micro_batch_size"},
                                     std::pair{"training.global_batch", "global_batch_size"}})
    if (const Value* said = reading.said(length)) put_flag(flags, flag, *said, *said);
  Place taken;
  taken.source = "<verl's engine/megatron.yaml>";
  Value at;
  at.set_mark(mark_of(taken));
  put_flag(flags, "sequence_parallel", Value::boolean(true), at);
  put_flag(flags, "use_distributed_optimizer", Value::boolean(true), at);
  put_flag(flags, "bf16", Value::boolean(true), at);
  put_flag(flags, "attention_backend", Value::string("flash"), at);
  put_flag(flags, "hidden_dropout", Value::number(0.0), at);
  put_flag(flags, "attention_dropout", Value::number(0.0), at);
  put_flag(flags, "make_vocab_size_divisible_by", Value::integer(1), at);
  read_megatron(flags, launch);
  list_added_flags(launch.into);
}

void read_engine_trainer(ConfigReader& reading, Launch& launch, std::string_view engine) {
  if (const Value* model = reading.take("model.path"))
    say_model(reading, *model);
  else
    reading.lacks("model", "model.path is needed");
  if (engine == "megatron") {
    read_engine_batch(reading);
    return read_megatron_engine(reading, launch);
  }
  if (engine != "fsdp" && !engine.empty())
    return reading.unweighed(reading.theirs(), fmt::format("engine={}", engine),
                             "this engine is not weighed");
  const Value* strategy = reading.take("engine.strategy");
  if (strategy == nullptr)
    reading.take_default("engine", Value::string("fsdp1"), "verl's engine.strategy is fsdp");
  else
    reading.say("engine", word_of(*strategy) == "fsdp2" ? "fsdp2" : "fsdp1", *strategy);
  const Value* reshard = reading.take("engine.reshard_after_forward");
  if (reshard != nullptr)
    reading.say("parallel.zero_stage", Value::integer(truth_of(*reshard).value_or(true) ? 3 : 2),
                *reshard);
  else
    reading.take_default("parallel.zero_stage", Value::integer(3), "verl divides everything");
  say_ulysses(reading, "engine.ulysses_sequence_parallel_size");
  reading.rows(std::span(kFineTuning).subspan(1));
  read_engine_batch(reading);
  read_verl_adapter(reading);
  read_fsdp_types(reading, "engine.model_dtype");
  if (const Value* offload = reading.on("engine.offload_policy"))
    for (const char* part : {"offload.parameters", "offload.optimizer"})
      reading.say(part, "cpu", *offload);
}

void read_fine_tuning(const Value& document, Launch& launch, std::string_view engine) {
  ConfigReader reading(document, "verl", launch.into);
  launch.into.formats.emplace_back("verl configuration");
  reading.say("training.method", "sft", document);
  say_verl_devices(reading);
  const bool first =
      document.at("model.partial_pretrain") != nullptr || document.at("model.strategy") != nullptr;
  if (first)
    read_fsdp_trainer(reading);
  else
    read_engine_trainer(reading, launch, engine);
  if (engine != "megatron") read_verl_kernels(reading);
  reading.unweighed(kUnweighed);
  reading.carry_rest();
}

// --- reinforcement learning ----------------------------------------------------------------------------------
constexpr Row kActor[] = {
    {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "training.micro_batch"},
    {"actor_rollout_ref.model.enable_gradient_checkpointing", "recompute.mode",
     "true=full|false=none"},
    {"actor_rollout_ref.actor.megatron.tensor_model_parallel_size", "parallel.tensor"},
    {"actor_rollout_ref.actor.megatron.pipeline_model_parallel_size", "parallel.pipeline"},
    {"actor_rollout_ref.actor.megatron.context_parallel_size", "parallel.context"},
    {"actor_rollout_ref.actor.megatron.expert_model_parallel_size", "parallel.expert"},
    {"actor_rollout_ref.actor.megatron.expert_tensor_parallel_size", "parallel.expert_tensor"},
};

constexpr UnweighedKey kOfActor[] = {
    {"actor_rollout_ref.model.use_fused_kernels", "another loss, made of the hidden states"},
    {"actor_rollout_ref.model.enable_activation_offload", "inputs of layers wait on the host"},
    {"actor_rollout_ref.actor.use_fused_kernels", "another loss, made of the hidden states"},
    {"actor_rollout_ref.actor.calculate_entropy", "the entropy of each token's logits"},
    {"actor_rollout_ref.actor.fsdp_config.offload_policy", "weights and states wait on the host"},
    {"actor_rollout_ref.actor.fsdp_config.param_offload",
     "weights leave the device while vLLM generates: weighed as if they stayed", true},
    {"actor_rollout_ref.actor.fsdp_config.optimizer_offload",
     "states leave the device while vLLM generates: weighed as if they stayed", true},
};

// workers/fsdp_workers.py: a share of the device for vLLM, which gives it back unless told to keep it (free_cache_engine).
void read_rollout(ConfigReader& reading) {
  const Value* engine = reading.take("actor_rollout_ref.rollout.name");
  const Value* share = reading.take("actor_rollout_ref.rollout.gpu_memory_utilization");
  const Value* frees = reading.take("actor_rollout_ref.rollout.free_cache_engine");
  if (engine != nullptr && word_of(*engine) != "vllm") {
    reading.take_default("generation.engine", Value::string("elsewhere"), "its share is not known");
    return reading.unweighed(*engine, fmt::format("rollout by {}", word_of(*engine)),
                             "what it holds of the device is not known here; vLLM's share is");
  }
  if (engine != nullptr)
    reading.say("generation.engine", "vllm", *engine);
  else
    reading.take_default("generation.engine", Value::string("vllm"), "verl's rollout.name is vllm");
  if (share != nullptr)
    reading.say("generation.memory_fraction", *share, *share);
  else
    reading.take_default("generation.memory_fraction", Value::number(0.5),
                         "verl's rollout.gpu_memory_utilization");
  if (frees != nullptr && truth_of(*frees))
    reading.say("generation.sleep", Value::boolean(*truth_of(*frees)), *frees);
  else
    reading.take_default("generation.sleep", Value::boolean(true),
                         "verl's rollout.free_cache_engine");
}

// Samples are laid end to end up to a number of tokens, or a number of them is padded away.
void read_actor_batch(ConfigReader& reading) {
  const Value* dynamic = reading.take("actor_rollout_ref.actor.use_dynamic_bsz");
  const Value* tokens = reading.take("actor_rollout_ref.actor.ppo_max_token_len_per_gpu");
  if (dynamic == nullptr || !truth_of(*dynamic).value_or(false)) return;
  reading.take("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu");
  if (tokens != nullptr)
    reading.say("training.sequence_length", *tokens, *tokens);
  else
    reading.take_default("training.sequence_length", Value::integer(16'384),
                         "verl's ppo_max_token_len_per_gpu");
  reading.say("training.micro_batch", Value::integer(1), *dynamic);
  reading.take_default("training.gradient_accumulation", Value::integer(2),
                       "a step has several such micro-batches: the data decide how many");
}

// workers/fsdp_workers.py: a step takes ppo_mini_batch_size prompts with all of their completions.
void read_mini_batch(ConfigReader& reading) {
  const Value* prompts = reading.take("actor_rollout_ref.actor.ppo_mini_batch_size");
  const Value* each = reading.take("actor_rollout_ref.rollout.n");
  if (reading.has("training.gradient_accumulation")) return;
  const std::int64_t of_each = each == nullptr ? 1 : count_of(*each).value_or(0);
  const std::int64_t count = prompts == nullptr ? 256 : count_of(*prompts).value_or(0);
  if (count < 1 || of_each < 1 || count > 1'000'000'000 || of_each > 1'000'000)
    return reading.lacks("training.global_batch", "ppo_mini_batch_size and rollout.n decide");
  if (prompts != nullptr)
    reading.say("training.global_batch", Value::integer(count * of_each), *prompts);
  else
    reading.take_default("training.global_batch", Value::integer(count * of_each),
                         "verl's ppo_mini_batch_size, with rollout.n completions each");
}

// The reference waits on the host in every case (CPUOffload); what a step on the device holds is the actor's.
void read_actor(ConfigReader& reading) {
  read_rollout(reading);
  // Of all devices together, as it was before each had its own.
  const Value* of_all = reading.take("actor_rollout_ref.actor.ppo_micro_batch_size");
  const Value* devices = reading.said("cluster.devices");
  if (of_all != nullptr && devices != nullptr && !reading.has("training.micro_batch")) {
    const std::int64_t all = count_of(*of_all).value_or(0), among = count_of(*devices).value_or(0);
    if (all > 0 && among > 0 && all % among == 0)
      reading.say("training.micro_batch", Value::integer(all / among), *of_all);
  }
  if (!reading.has("training.micro_batch"))
    reading.lacks("training.micro_batch", "verl needs ppo_micro_batch_size_per_gpu");
  if (const Value* padded = reading.take("actor_rollout_ref.model.use_remove_padding");
      padded != nullptr && !truth_of(*padded).value_or(true))
    reading.unweighed(*padded, "use_remove_padding false", "logits of padded sequences are cut");
  if (const Value* parts = reading.take("actor_rollout_ref.actor.entropy_coeff");
      parts != nullptr && !(parts->is_number() && parts->as_number() == 0))
    reading.unweighed(*parts, "entropy_coeff", "the entropy of each token's logits");
  reading.take_default("training.loss", Value::string("fused"),
                       "verl takes flash-attention's cross entropy of whole logits");
  reading.take_default("training.reference", Value::string("none"),
                       "verl's reference waits on the host, and scores before the actor trains");
  reading.take_default("training.attention", Value::string("flash"),
                       "verl loads models with flash_attention_2");
  reading.take_default("training.optimizer", Value::string("adamw"), "verl's AdamW is torch's");
  reading.take_default("training.optimizer_form", Value::string("foreach"),
                       "verl's AdamW is torch's");
  reading.take_default("recompute.mode", Value::string("full"),
                       "verl's model.enable_gradient_checkpointing");
  reading.take_default("recompute.reentrant", Value::boolean(false),
                       "verl checkpoints without reentrance");
  read_mini_batch(reading);
  read_clip(reading, "actor_rollout_ref.actor.grad_clip", true);
  say_ulysses(reading, "actor_rollout_ref.actor.ulysses_sequence_parallel_size");
  const Value* rank = reading.take("actor_rollout_ref.model.lora_rank");
  if (rank != nullptr && count_of(*rank).value_or(0) > 0) {
    reading.say("adapter.method", "lora", *rank);
    reading.say("adapter.rank", *rank, *rank);
    reading.take_default("adapter.target_modules", Value::string("all-linear"),
                         "verl's target_modules is all-linear");
  }
  read_fsdp_types(reading, "actor_rollout_ref.actor.fsdp_config.model_dtype");
  reading.take_default("parallel.zero_stage", Value::integer(3), "verl divides everything");
  reading.unweighed(kOfActor);
  // Of what is generated, and of the reference on the host: nothing of it is in the actor's memory.
  reading.idle({"data.train_batch_size", "actor_rollout_ref.actor.use_kl_loss",
                "actor_rollout_ref.rollout.tensor_model_parallel_size",
                "actor_rollout_ref.ref.fsdp_config.param_offload"});
}

void read_reinforcement(const Value& document, Launch& launch) {
  ConfigReader reading(document, "verl", launch.into);
  launch.into.formats.emplace_back("verl configuration");
  if (const Value* model = reading.take("actor_rollout_ref.model.path");
      model != nullptr && !word_of(*model).empty())
    say_model(reading, *model);
  say_verl_devices(reading);
  const Value* strategy = reading.take("actor_rollout_ref.actor.strategy");
  const bool megatron = document.at("actor_rollout_ref.actor.megatron") != nullptr;
  if (strategy != nullptr) {
    if (const auto engine = ours_of("fsdp=fsdp1|fsdp2=fsdp2|megatron=megatron", word_of(*strategy)))
      reading.say("engine", *engine, *strategy);
  } else {
    reading.take_default("engine", Value::string(megatron ? "megatron" : "fsdp1"),
                         "the actor's own, by its keys");
  }
  read_actor_batch(reading);
  reading.rows(kActor);
  const Value* prompt = reading.take("data.max_prompt_length");
  const Value* answer = reading.take("data.max_response_length");
  if (prompt != nullptr && answer != nullptr) {
    const auto both = std::pair{count_of(*prompt), count_of(*answer)};
    if (!reading.has("training.sequence_length") && both.first && both.second && *both.first > 0 &&
        *both.second > 0 && *both.first < 1'000'000'000 && *both.second < 1'000'000'000)
      reading.say("training.sequence_length", Value::integer(*both.first + *both.second), *answer);
  }
  const Value* estimator = reading.take("algorithm.adv_estimator");
  const bool critic = estimator == nullptr || word_of(*estimator) == "gae";
  reading.say("training.method", critic ? "ppo" : "grpo",
              estimator != nullptr ? *estimator : document);
  if (!critic && !megatron) read_actor(reading);
  reading.carry_rest();
}

bool is_reinforcement(const Value& document) {
  return document.find("actor_rollout_ref") != nullptr;
}

bool is_verl_document(const Value& document) {
  return is_reinforcement(document) ||
         (document.at("data.train_files") != nullptr && document.find("trainer") != nullptr &&
          (document.at("model.partial_pretrain") != nullptr ||
           document.at("data.micro_batch_size_per_gpu") != nullptr));
}

void read_verl_document(const Value& document, Launch& launch) {
  if (is_reinforcement(document))
    read_reinforcement(document, launch);
  else
    read_fine_tuning(document, launch, "");
}

bool is_verl(const ProgramCall& call) {
  if (call.name.starts_with("verl.") || call.program.as_string().find("verl/") == 0) return true;
  // Recipes beside verl, and scripts of somebody's own that start from its configuration.
  return std::any_of(call.words.begin(), call.words.end(), [](const Value& word) {
    return word.as_string().starts_with("actor_rollout_ref.") ||
           word.as_string().starts_with("model.partial_pretrain=");
  });
}

bool read_verl(const ProgramCall& call, Launch& launch) {
  const HydraWords words = hydra_words(call.words, call.program.mark());
  if (is_reinforcement(words.document)) {
    read_reinforcement(words.document, launch);
    return true;
  }
  if (call.name.find("sft_trainer") == std::string::npos &&
      words.document.at("model.partial_pretrain") == nullptr)
    return false;
  const Value* engine = words.choices.find("engine");
  read_fine_tuning(words.document, launch, engine == nullptr ? "" : word_of(*engine));
  return true;
}

}  // namespace

extern const TrainingProgram verl_program = {"verl", is_verl, read_verl};
extern const DocumentFormat verl_document = {"verl", "verl configuration", is_verl_document,
                                             read_verl_document};

}  // namespace steelyard
