// Accelerate's YAML or JSON: accelerate/commands/config/config_args.py, utils/dataclasses.py (1.x).
#include <fmt/format.h>

#include "formats/launch/formats.h"
#include "formats/launch/fsdp_keys.h"
#include "formats/launch/hugging_face.h"

namespace steelyard {
namespace {

// Top-level keys; any other is an error there.
constexpr std::string_view kTopKeys[] = {"compute_environment",
                                         "distributed_type",
                                         "mixed_precision",
                                         "use_cpu",
                                         "debug",
                                         "num_processes",
                                         "machine_rank",
                                         "num_machines",
                                         "gpu_ids",
                                         "main_process_ip",
                                         "main_process_port",
                                         "rdzv_backend",
                                         "same_network",
                                         "main_training_function",
                                         "enable_cpu_affinity",
                                         "fp8_config",
                                         "deepspeed_config",
                                         "fsdp_config",
                                         "parallelism_config",
                                         "megatron_lm_config",
                                         "mpirun_config",
                                         "ipex_config",
                                         "downcast_bf16",
                                         "tpu_name",
                                         "tpu_zone",
                                         "tpu_use_cluster",
                                         "tpu_use_sudo",
                                         "tpu_env",
                                         "command_file",
                                         "commands",
                                         "tpu_vm",
                                         "tpu_config",
                                         "dynamo_config",
                                         "dynamo_backend",
                                         "fp16",
                                         "deepspeed_hostfile"};

constexpr std::string_view kPlaces = "none=none|cpu=cpu|nvme=nvme";

constexpr Row kDeepSpeed[] = {
    {"deepspeed_config.zero_stage", "parallel.zero_stage", "", "", "2"},
    {"deepspeed_config.offload_optimizer_device", "offload.optimizer", kPlaces},
    {"deepspeed_config.offload_param_device", "offload.parameters", kPlaces},
    {"deepspeed_config.gradient_accumulation_steps", "training.gradient_accumulation"},
    {"deepspeed_config.zero3_save_16bit_model", "checkpoint.save", "true=full-rank0|false=sharded"},
};

constexpr Row kMegatron[] = {
    {"megatron_lm_config.megatron_lm_tp_degree", "parallel.tensor", "", "", "1"},
    {"megatron_lm_config.megatron_lm_pp_degree", "parallel.pipeline", "", "", "1"},
    {"megatron_lm_config.megatron_lm_num_micro_batches", "training.gradient_accumulation", "", "",
     "1"},
    {"megatron_lm_config.megatron_lm_sequence_parallelism", "parallel.sequence_parallel", "", "",
     "false"},
    // Two, when nobody says: the plugin's own default.
    {"megatron_lm_config.megatron_lm_context_parallel_size", "parallel.context", "", "", "2"},
    {"megatron_lm_config.megatron_lm_expert_model_parallel_size", "parallel.expert"},
    {"megatron_lm_config.megatron_lm_expert_tensor_parallel_size", "parallel.expert_tensor"},
    {"megatron_lm_config.megatron_lm_use_distributed_optimizer", "parallel.zero_stage",
     "true=1|false=0", "", "0"},
};

constexpr Row kParallelism[] = {
    {"parallelism_config.parallelism_config_dp_replicate_size", "parallel.replicate"},
    {"parallelism_config.parallelism_config_tp_size", "parallel.tensor"},
};

void read_fsdp(ConfigReader& reading) {
  // With or without its prefix.
  const FsdpKey key = [&](std::string_view name) -> const Value* {
    if (const Value* value = reading.take(fmt::format("fsdp_config.fsdp_{}", name))) return value;
    return reading.take(fmt::format("fsdp_config.{}", name));
  };
  const Value* version = key("version");
  const bool second = version != nullptr && word_of(*version) == "2";
  if (version == nullptr)
    reading.take_default("engine", Value::string("fsdp1"), "Accelerate takes FSDP version 1");
  else
    reading.say("engine", second ? "fsdp2" : "fsdp1", *version);
  const Value* strategy = key("sharding_strategy");
  const Value* reshard = key("reshard_after_forward");
  if (second) {
    const auto after = reshard == nullptr ? std::optional(true) : truth_of(*reshard);
    if (!after)
      reading.refuse(*reshard, "version 2 takes true or false here",
                     "a strategy's name is version 1's", "true is FULL_SHARD, false SHARD_GRAD_OP");
    else if (reshard == nullptr)
      reading.take_default("parallel.zero_stage", Value::integer(3),
                           "Accelerate reshards after forward");
    else
      reading.say("parallel.zero_stage", Value::integer(*after ? 3 : 2), *reshard);
  } else {
    static constexpr std::string_view kStrategies =
        "FULL_SHARD=3|1=3|SHARD_GRAD_OP=2|2=2|NO_SHARD=0|3=0|HYBRID_SHARD=3|4=3|"
        "HYBRID_SHARD_ZERO2=2|5=2";
    if (strategy == nullptr) {
      reading.take_default("parallel.zero_stage", Value::integer(3),
                           "Accelerate takes FULL_SHARD in version 1");
    } else if (const auto stage = ours_of(kStrategies, word_of(*strategy))) {
      const std::string name = word_of(*strategy);
      if (*stage == "0") {
        reading.refuse(*strategy, "NO_SHARD is DDP by another name",
                       "this form of FSDP is not read", "distributed_type: MULTI_GPU");
      } else {
        reading.say("parallel.zero_stage", typed_value(*stage), *strategy);
        if (name.starts_with("HYBRID") || name == "4" || name == "5") {
          // One copy a machine.
          const Value* machines = reading.theirs().find("num_machines");
          reading.say("parallel.replicate",
                      Value::integer(machines == nullptr ? 1 : count_of(*machines).value_or(1)),
                      *strategy);
        }
      }
    } else {
      reading.refuse(*strategy, fmt::format("no strategy \"{}\"", word_of(*strategy)),
                     "FULL_SHARD, SHARD_GRAD_OP, HYBRID_SHARD or HYBRID_SHARD_ZERO2");
    }
  }
  if (const Value* policy = key("auto_wrap_policy")) {
    const std::string name = word_of(*policy);
    if (name == "TRANSFORMER_BASED_WRAP")
      reading.say("wrap.policy", "block", *policy);
    else if (name == "SIZE_BASED_WRAP")
      reading.say("wrap.policy", "size", *policy);
    else
      reading.say("wrap.policy", "none", *policy);
  } else {
    reading.take_default("wrap.policy", Value::string("none"),
                         "Accelerate wraps the whole model as one unit");
  }
  if (read_fsdp_switches(reading, key)) return;
  if (second)
    reading.take_default("checkpoint.save", Value::string("sharded"),
                         "Accelerate saves shards in version 2");
  else
    reading.take_default("checkpoint.save", Value::string("full-rank0"),
                         "Accelerate saves whole in version 1");
}

void read_megatron_plugin(ConfigReader& reading) {
  reading.rows(kMegatron);
  const std::string granularity =
      reading.word("megatron_lm_config.megatron_lm_recompute_granularity").value_or("full");
  const bool again = reading.is("megatron_lm_config.megatron_lm_recompute_activations");
  if (!again) return;
  const Value& at = *reading.theirs().at("megatron_lm_config.megatron_lm_recompute_activations");
  reading.say("recompute.mode", granularity == "selective" ? "selective" : "full", at);
}

}  // namespace

void read_accelerate(const Value& document, Launch& launch) {
  ConfigReader reading(document, "accelerate", launch.into);
  launch.into.formats.emplace_back("Accelerate configuration");
  launch.hugging_face = true;
  for (const Value::Member& member : document.members()) {
    bool known = false;
    for (const std::string_view key : kTopKeys) known = known || key == member.key;
    if (known) continue;
    Value at;
    at.set_mark(member.key_mark);
    reading.refuse(at, fmt::format("unknown key \"{}\"", member.key),
                   "Accelerate refuses a file with it", nearest_help(member.key, kTopKeys));
  }
  const Value* type = reading.take("distributed_type");
  const std::string engine = type == nullptr ? "" : word_of(*type);
  if (type == nullptr) reading.refuse(document, "no distributed_type", "Accelerate needs one", {});
  const Value* processes = reading.take("num_processes");
  const Value* machines = reading.take("num_machines");
  if (processes != nullptr)
    if (const auto devices = count_of(*processes); devices && *devices > 0) {
      reading.say("cluster.devices", Value::integer(*devices), *processes);
      const std::int64_t nodes = machines == nullptr ? 1 : count_of(*machines).value_or(1);
      if (nodes > 0 && *devices % nodes == 0)
        reading.say("cluster.devices_per_node", Value::integer(*devices / nodes),
                    machines == nullptr ? *processes : *machines);
    }
  // A script's own bf16 or fp16 wins: TrainingArguments writes it over the launcher's ACCELERATE_MIXED_PRECISION.
  const std::string own = launch.mixed.is_null() ? "" : word_of(launch.mixed);
  if (const Value* mixed = reading.take("mixed_precision");
      mixed != nullptr && own != "bf16" && own != "fp16") {
    launch.mixed = Value::string(mixed->is_bool() ? "no" : word_of(*mixed));
    launch.mixed.set_mark(mixed->mark());
  }
  if (engine == "FSDP") {
    read_fsdp(reading);
  } else if (engine == "DEEPSPEED") {
    reading.say("engine", "deepspeed", *type);
    if (const Value* file = reading.take("deepspeed_config.deepspeed_config_file")) {
      Value wrapped = *file;
      const Value table = [&] {
        Value outer = Value::table();
        outer.members().push_back({"deepspeed", file->mark(), wrapped});
        return outer;
      }();
      ConfigReader inner(table, "accelerate", launch.into);
      read_deepspeed_key(inner, launch, "deepspeed");
    } else {
      reading.rows(kDeepSpeed);
      remove_path(launch.into.run, "training.gradient_clip");
      read_clip(reading, "deepspeed_config.gradient_clipping", false);
      reading.take_default("training.gradient_clip", Value::boolean(false),
                           "DeepSpeed clips only where its configuration says gradient_clipping");
    }
  } else if (engine == "MEGATRON_LM") {
    reading.say("engine", "megatron", *type);
    read_megatron_plugin(reading);
  } else if (engine.starts_with("MULTI_") || engine == "NO") {
    reading.say("engine", "ddp", *type);
    if (engine == "NO" && processes == nullptr)
      reading.take_default("cluster.devices", Value::integer(1),
                           "distributed_type NO is one process");
  } else if (type != nullptr) {
    reading.refuse(*type, fmt::format("distributed_type {} is not read", engine),
                   "NO, MULTI_GPU and its like, FSDP, DEEPSPEED and MEGATRON_LM are");
  }
  reading.rows(kParallelism);
  const auto degree = [&](const char* name) -> const Value* {
    return reading.take(fmt::format("parallelism_config.parallelism_config_{}", name));
  };
  const Value* context = degree("cp_size");
  const Value* ulysses = degree("sp_size");
  if (context != nullptr && count_of(*context).value_or(1) > 1) {
    reading.say("parallel.context", *context, *context);
    const Value* way = degree("cp_comm_strategy");
    if (way != nullptr)
      reading.say("parallel.context_method",
                  word_of(*way) == "alltoall" ? "all-to-all" : "allgather", *way);
    else
      reading.take_default("parallel.context_method", Value::string("allgather"),
                           "Accelerate rotates by all-gather");
  } else if (ulysses != nullptr && count_of(*ulysses).value_or(1) > 1) {
    reading.say("parallel.context", *ulysses, *ulysses);
    reading.say("parallel.context_method", "ulysses", *ulysses);
    degree("sp_backend");
    degree("sp_attn_implementation");
  }
  if (const Value* shard = degree("dp_shard_size"); shard != nullptr && shard->is_integer()) {
    const Value* replicate = document.at("parallelism_config.parallelism_config_dp_replicate_size");
    reading.say("parallel.data",
                Value::integer(shard->as_integer() *
                               (replicate == nullptr ? 1 : count_of(*replicate).value_or(1))),
                *shard);
  }
  if (const Value* backend = reading.take("dynamo_config.dynamo_backend"))
    reading.say("training.compile",
                Value::boolean(word_of(*backend) != "NO" && word_of(*backend) != "no"), *backend);
  warn_of_compile_mode(reading, "dynamo_config.dynamo_mode");
  constexpr UnweighedKey kUnweighed[] = {
      {"kt_config", "experts run on the host (KTransformers)"},
      {"fsdp_config.fsdp_ignored_modules", "modules that are not divided"},
      {"fsdp_config.fsdp_cpu_offload_pin_memory", "whether the host's copies are locked", true},
  };
  reading.unweighed(kUnweighed);
  reading.carry_rest();
}

void write_accelerate(ConfigWriter& writing) {
  const std::string engine = writing.word("engine", "ddp");
  const std::int64_t devices = writing.count("cluster.devices", 1);
  const std::int64_t per_node = writing.count("cluster.devices_per_node", devices);
  writing.put("compute_environment", "LOCAL_MACHINE");
  writing.put("distributed_type",
              engine == "ddp"         ? (devices > 1 ? "MULTI_GPU" : "NO")
              : engine == "deepspeed" ? "DEEPSPEED"
                                      : "FSDP",
              "what runs the training");
  writing.put("num_processes", Value::integer(devices), "devices of the whole run");
  writing.put("num_machines", Value::integer(std::max<std::int64_t>(
                                  1, devices / std::max<std::int64_t>(1, per_node))));
  writing.put("machine_rank", Value::integer(0));
  const HalfPrecision half = half_precision(writing);
  writing.put("mixed_precision", half.mixed, "arithmetic; a quoted 'no', which is false otherwise");
  if (engine == "megatron" || engine == "nanotron")
    writing.refuse("engine", fmt::format("Accelerate does not run {} for this model code", engine),
                   "steelyard export megatron writes Megatron-LM's own arguments");
  refuse_fsdp_alone(writing);
  if (engine == "fsdp1" || engine == "fsdp2") {
    const std::int64_t stage = writing.count("parallel.zero_stage", 3);
    writing.put("fsdp_config.fsdp_version", Value::integer(engine == "fsdp2" ? 2 : 1));
    if (engine == "fsdp2")
      writing.put("fsdp_config.fsdp_reshard_after_forward", Value::boolean(stage != 2),
                  "parameters go after forward and are gathered again");
    else
      writing.put("fsdp_config.fsdp_sharding_strategy",
                  stage == 2 ? "SHARD_GRAD_OP" : "FULL_SHARD");
    write_ends(writing);
    writing.take("parallel.sync_each_micro_batch");  // said to Trainer
    if (writing.word("wrap.policy", "block") == "block")
      writing.put("fsdp_config.fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP",
                  "each block is a unit");
    writing.put("fsdp_config.fsdp_offload_params", Value::boolean(offloads_with_fsdp(writing)));
    const std::string save = writing.word("checkpoint.save", "sharded");
    writing.put("fsdp_config.fsdp_state_dict_type",
                save == "sharded" ? "SHARDED_STATE_DICT" : "FULL_STATE_DICT");
    writing.put("fsdp_config.fsdp_cpu_ram_efficient_loading", Value::boolean(true));
    if (engine == "fsdp1") {
      writing.put("fsdp_config.fsdp_use_orig_params", Value::boolean(true));
      writing.put("fsdp_config.fsdp_sync_module_states", Value::boolean(true));
    }
  }
  // DeepSpeed's own file says more than these keys can, and they may not stand beside it.
  if (engine == "deepspeed") {
    writing.put("deepspeed_config.deepspeed_config_file", "ds_config.json");
    writing.put("deepspeed_config.zero3_init_flag",
                Value::boolean(writing.look_count("parallel.zero_stage", 0) == 3));
    remove_path(writing.theirs, "mixed_precision");
  }
  const std::int64_t replicate = writing.count("parallel.replicate", 1);
  const std::int64_t tensor = writing.count("parallel.tensor", 1);
  const std::int64_t context = writing.count("parallel.context", 1);
  const std::string method = writing.word("parallel.context_method");
  const std::int64_t data =
      writing.count("parallel.data", devices / std::max<std::int64_t>(1, tensor * context));
  if (tensor > 1 || context > 1 || replicate > 1) {
    if (engine == "fsdp1")
      writing.refuse("engine", "only FSDP2 takes a mesh in Accelerate", "--engine fsdp2");
    const auto put = [&](const char* name, std::int64_t degree) {
      writing.put(fmt::format("parallelism_config.parallelism_config_{}", name),
                  Value::integer(degree));
    };
    put("dp_replicate_size", replicate);
    put("dp_shard_size", data / std::max<std::int64_t>(1, replicate));
    put("tp_size", tensor);
    if (method == "ulysses") {
      // Accelerate 1.12 registers it with DeepSpeed 0.18.2 (accelerator.py, _prepare_deepspeed).
      if (context > 1 && engine != "deepspeed")
        writing.refuse("parallel.context_method", "Accelerate runs Ulysses with DeepSpeed alone",
                       "--engine deepspeed, or --context-method allgather");
      put("sp_size", context);
      if (context > 1) {
        writing.put("parallelism_config.parallelism_config_sp_backend", "deepspeed");
        writing.put(
            "parallelism_config.parallelism_config_sp_attn_implementation",
            writing.look_word("training.attention") == "flash" ? "flash_attention_2" : "sdpa");
      }
    } else {
      put("cp_size", context);
      if (context > 1)
        writing.put("parallelism_config.parallelism_config_cp_comm_strategy",
                    method == "all-to-all" ? "alltoall" : "allgather");
      if (context > 1 && method == "ring")
        writing.refuse("parallel.context_method",
                       "Accelerate has allgather, all-to-all and ulysses");
    }
  }
  writing.take("parallel.sequence_parallel");
}

}  // namespace steelyard
