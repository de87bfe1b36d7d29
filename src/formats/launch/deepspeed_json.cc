// DeepSpeed's JSON: deepspeed/runtime/config.py, runtime/zero/config.py, runtime/zero/offload_config.py.
#include <fmt/format.h>

#include "formats/launch/formats.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/unweighed_keys.h"

namespace steelyard {
namespace {

constexpr std::string_view kPlaces = "none=none|cpu=cpu|nvme=nvme";

constexpr Row kRows[] = {
    {"train_batch_size", "training.global_batch"},
    {"train_micro_batch_size_per_gpu", "training.micro_batch"},
    {"gradient_accumulation_steps", "training.gradient_accumulation"},
    {"zero_optimization.stage", "parallel.zero_stage", "", "", "0"},
    {"zero_optimization.reduce_bucket_size", "buckets.reduce"},
    {"zero_optimization.allgather_bucket_size", "buckets.gather"},
    {"zero_optimization.stage3_prefetch_bucket_size", "buckets.prefetch", "",
     "zero_optimization.prefetch_bucket_size"},
    {"zero_optimization.stage3_param_persistence_threshold", "buckets.persistence", "",
     "zero_optimization.param_persistence_threshold"},
    {"zero_optimization.stage3_max_live_parameters", "buckets.live", "",
     "zero_optimization.max_live_parameters"},
    {"zero_optimization.stage3_max_reuse_distance", "buckets.reuse", "",
     "zero_optimization.max_reuse_distance"},
    {"zero_optimization.sub_group_size", "buckets.sub_group"},
    {"zero_optimization.overlap_comm", "overlap.reduce"},
    {"zero_optimization.offload_optimizer.device", "offload.optimizer", kPlaces},
    {"zero_optimization.offload_param.device", "offload.parameters", kPlaces},
    {"zero_optimization.zero_hpz_partition_size", "parallel.secondary_shard"},
    {"zero_optimization.zero_quantized_weights", "parallel.quantized_gather"},
    {"zero_optimization.zero_quantized_gradients", "parallel.quantized_reduce"},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", "checkpoint.save",
     "true=full-rank0|false=sharded",
     "zero_optimization.gather_16bit_weights_on_model_save|"
     "zero_optimization.stage3_gather_fp16_weights_on_model_save"},
    {"tensor_parallel.autotp_size", "parallel.tensor"},
    {"sequence_parallel_size", "parallel.context"},
    {"pipeline.stages", "parallel.pipeline", "", "", "", true},
    {"pipeline.pipe_partitioned", "parallel.scattered_transfers", "", "", "", true},
};

// Every key of zero_optimization: DeepSpeed refuses all others, so a slip is found here as it is there.
constexpr std::string_view kZeroKeys[] = {"stage",
                                          "contiguous_gradients",
                                          "reduce_scatter",
                                          "reduce_bucket_size",
                                          "use_multi_rank_bucket_allreduce",
                                          "allgather_partitions",
                                          "allgather_bucket_size",
                                          "overlap_comm",
                                          "load_from_fp32_weights",
                                          "elastic_checkpoint",
                                          "offload_param",
                                          "offload_optimizer",
                                          "sub_group_size",
                                          "cpu_offload_param",
                                          "cpu_offload_use_pin_memory",
                                          "cpu_offload",
                                          "prefetch_bucket_size",
                                          "param_persistence_threshold",
                                          "model_persistence_threshold",
                                          "max_live_parameters",
                                          "max_reuse_distance",
                                          "gather_16bit_weights_on_model_save",
                                          "module_granularity_threshold",
                                          "use_all_reduce_for_fetch_params",
                                          "stage3_prefetch_bucket_size",
                                          "stage3_param_persistence_threshold",
                                          "stage3_model_persistence_threshold",
                                          "stage3_max_live_parameters",
                                          "stage3_max_reuse_distance",
                                          "stage3_gather_16bit_weights_on_model_save",
                                          "stage3_gather_fp16_weights_on_model_save",
                                          "stage3_module_granularity_threshold",
                                          "stage3_use_all_reduce_for_fetch_params",
                                          "stage3_allgather_sequential",
                                          "ignore_unused_parameters",
                                          "legacy_stage1",
                                          "round_robin_gradients",
                                          "zero_hpz_partition_size",
                                          "zero_quantized_weights",
                                          "zero_quantized_nontrainable_weights",
                                          "zero_quantized_gradients",
                                          "zeropp_loco_param",
                                          "mics_shard_size",
                                          "mics_hierarchical_params_gather",
                                          "memory_efficient_linear",
                                          "pipeline_loading_checkpoint",
                                          "override_module_apply",
                                          "log_trace_cache_warnings",
                                          "zenflow",
                                          "leaf_module",
                                          "enable_sanity_checks",
                                          "save_muon_momentum_buffer_in_memory"};

constexpr std::string_view kOptimizers =
    "adamw=adamw|adam=adam|lion=lion|muon=muon|adagrad=|lamb=|onebitadam=|sgd=sgd";

// "auto" is filled by whoever launches: a Trainer, Accelerate.
bool is_auto(const Value& document) {
  for (const char* path : {"bf16.enabled", "fp16.enabled", "bfloat16.enabled"})
    if (const Value* value = document.at(path); value != nullptr && word_of(*value) == "auto")
      return true;
  return false;
}

void read_precision(ConfigReader& reading, Launch& launch) {
  const Value& document = reading.theirs();
  const Value* brain = reading.on("bf16.enabled");
  if (brain == nullptr) brain = reading.on("bfloat16.enabled");
  const Value* half = reading.on("fp16.enabled");
  const Value* autocast = reading.on("torch_autocast.enabled");
  if (brain != nullptr && half != nullptr)
    reading.refuse(*half, "bf16 and fp16 are both enabled", "DeepSpeed takes one of them",
                   "keep one");
  const Value* accumulate = reading.take("data_types.grad_accum_dtype");
  if (autocast != nullptr) {
    const Value* dtype = reading.take("torch_autocast.dtype");
    const std::string type = dtype == nullptr ? "bfloat16" : word_of(*dtype);
    const bool narrow = type == "float16" || type == "torch.float16" || type == "fp16";
    reading.say("training.precision", narrow ? "fp16-autocast" : "bf16-autocast",
                narrow ? *dtype : *autocast);
  } else if (brain != nullptr) {
    const bool single = accumulate != nullptr && word_of(*accumulate) == "fp32";
    reading.say("training.precision", single ? "bf16-mixed-fp32-gradients" : "bf16-mixed",
                single ? *accumulate : *brain);
  } else if (half != nullptr) {
    reading.say("training.precision", "fp16-mixed", *half);
  } else if (launch.hugging_face) {
  } else if (is_auto(document)) {
    if (!reading.has("training.precision"))
      reading.lacks("training.precision", "\"auto\": the script's arguments decide");
  } else {
    reading.take_default("training.precision", Value::string("fp32"),
                         "DeepSpeed computes in fp32 unless bf16 or fp16 is enabled");
  }
}

void check_zero_keys(ConfigReader& reading, const Value& zero) {
  if (!zero.is_table()) return;
  for (const Value::Member& member : zero.members()) {
    bool known = false;
    for (const std::string_view key : kZeroKeys) known = known || key == member.key;
    if (known) continue;
    Value at;
    at.set_mark(member.key_mark);
    reading.refuse(at, fmt::format("zero_optimization has no key \"{}\"", member.key),
                   "DeepSpeed refuses what it does not know here",
                   nearest_help(member.key, kZeroKeys));
  }
}

}  // namespace

void read_deepspeed(const Value& document, Launch& launch) {
  ConfigReader reading(document, "deepspeed", launch.into);
  launch.into.formats.emplace_back("DeepSpeed JSON");
  if (const Value* elastic = reading.on("elasticity.enabled"))
    reading.refuse(*elastic, "elasticity chooses the batch at launch", "the batch is not known",
                   "say train_batch_size and train_micro_batch_size_per_gpu");
  reading.say("engine", "deepspeed", document);
  const Value* zero = document.find("zero_optimization");
  if (zero != nullptr && zero->is_bool()) {  // before 0.2: a switch, stage 1
    reading.take("zero_optimization");
    reading.say("parallel.zero_stage", Value::integer(zero->as_bool() ? 1 : 0), *zero);
  }
  if (zero != nullptr) check_zero_keys(reading, *zero);
  // Buckets "auto" are Trainer's and Accelerate's: from the model's width.
  if (zero != nullptr && zero->is_table()) {
    const Value config = model_config(launch.into.run);
    const Value* width = config.find("hidden_size");
    if (width == nullptr) width = config.find("n_embd");
    const auto fill = [&](const char* key, const char* ours, double factor, int power) {
      const Value* value = zero->find(key);
      if (value == nullptr || word_of(*value) != "auto") return;
      if (width == nullptr || !width->is_integer() || width->as_integer() > 1'000'000)
        return reading.lacks(ours, fmt::format("\"auto\" is filled from the model's hidden_size"));
      const double hidden = static_cast<double>(width->as_integer());
      reading.take_default(
          ours,
          Value::integer(static_cast<std::int64_t>(factor * hidden * (power == 2 ? hidden : 1))),
          "\"auto\", which Trainer fills from hidden_size");
    };
    fill("reduce_bucket_size", "buckets.reduce", 1, 2);
    fill("stage3_prefetch_bucket_size", "buckets.prefetch", 0.9, 2);
    fill("stage3_param_persistence_threshold", "buckets.persistence", 10, 1);
  }
  reading.rows(kRows);
  // A group ends when it holds that many: with 0, after each tensor, as with 1 (stage3.py, _create_fp16_sub_groups).
  if (const Value* group = reading.said("buckets.sub_group");
      group != nullptr && count_of(*group) == 0) {
    Value one = Value::integer(1);
    one.set_mark(group->mark());
    set_path(launch.into.run, "buckets.sub_group", std::move(one), group->place());
  }
  if (launch.into.run.at("parallel.context") != nullptr &&
      document.at("sequence_parallel_size") != nullptr)
    reading.say("parallel.context_method", "ulysses", *document.at("sequence_parallel_size"));
  for (const char* key : {"cpu_offload", "cpu_offload_param"}) {
    const std::string path = fmt::format("zero_optimization.{}", key);
    if (const Value* old = reading.on(path))
      reading.say(
          std::string_view(key) == "cpu_offload" ? "offload.optimizer" : "offload.parameters",
          "cpu", *old);
  }
  read_precision(reading, launch);
  if (const Value* type = reading.take("optimizer.type")) {
    std::string name = word_of(*type);
    for (char& c : name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const auto ours = ours_of(kOptimizers, name);
    if (ours && !ours->empty()) {
      // What the JSON names replaces what the Trainer's arguments would have made.
      launch.into.unsaid.push_back({"training.optimizer", "", ""});
      reading.say("training.optimizer", *ours, *type);
    } else {
      reading.unweighed(*type, fmt::format("optimizer {}", word_of(*type)),
                        "the states of this optimizer are not known here");
    }
  }
  const Value* clip = document.at("gradient_clipping");
  const bool filled = clip != nullptr && word_of(*clip) == "auto" && launch.hugging_face;
  if (filled) {
    reading.take("gradient_clipping");
  } else if (clip != nullptr && word_of(*clip) == "auto" && !launch.hugging_face) {
    reading.take("gradient_clipping");
    if (!reading.has("training.gradient_clip"))
      reading.take_default("training.gradient_clip", Value::number(1.0),
                           "\"auto\" is Trainer's max_grad_norm, 1.0 unless it is told");
  } else {
    // The engine clips, by its own file alone: what a Trainer would have clipped by is not asked (runtime/constants.py).
    remove_path(launch.into.run, "training.gradient_clip");
    read_clip(reading, "gradient_clipping", false);
    reading.take_default("training.gradient_clip", Value::boolean(false),
                         "DeepSpeed clips only where its file says gradient_clipping");
  }
  if (!launch.hugging_face && !reading.has("training.micro_batch") &&
      !reading.has("training.global_batch"))
    reading.lacks("training.micro_batch", "\"auto\", or not said: the script's arguments decide");
  // Of deepspeed.checkpointing, which Trainer's models do not call.
  if (launch.hugging_face)
    reading.idle({"activation_checkpointing.partition_activations",
                  "activation_checkpointing.cpu_checkpointing",
                  "activation_checkpointing.contiguous_memory_optimization"});
  reading.unweighed(unweighed_of_deepspeed());
  reading.carry_rest();
}

void write_deepspeed(ConfigWriter& writing) {
  const std::string engine = writing.word("engine", "deepspeed");
  if (engine != "deepspeed")
    writing.refuse("engine", fmt::format("the run's engine is {}", engine),
                   "--engine deepspeed makes it a DeepSpeed run");
  writing.put("train_micro_batch_size_per_gpu", Value::integer(1));
  writing.rows(kRows);
  if (writing.count("parallel.context", 1) > 1 &&
      writing.word("parallel.context_method", "ulysses") != "ulysses")
    writing.refuse("parallel.context_method", "DeepSpeed divides sequences by Ulysses");
  if (writing.look_count("parallel.pipeline", 1) > 1)
    writing.refuse("parallel.pipeline", "a DeepSpeed pipeline is written in the script's own code");
  const std::string precision = writing.look_word("training.precision");
  writing.take("training.precision");
  writing.put("bf16.enabled", Value::boolean(precision.starts_with("bf16-mixed")));
  writing.put("fp16.enabled", Value::boolean(precision == "fp16-mixed"));
  if (precision == "bf16-mixed-fp32-gradients") writing.put("data_types.grad_accum_dtype", "fp32");
  if (precision.ends_with("-autocast")) {
    writing.put("torch_autocast.enabled", Value::boolean(true));
    writing.put("torch_autocast.dtype", precision == "fp16-autocast" ? "float16" : "bfloat16");
  }
  if (precision == "bf16-pure")
    writing.refuse("training.precision", "DeepSpeed keeps fp32 master weights");
  if (writing.look_word("offload.optimizer") == "cpu") {
    // Its own optimizers alone step on the host (runtime/engine.py, _configure_basic_optimizer).
    const std::string optimizer = writing.word("training.optimizer", "adamw");
    if (const auto name = theirs_of("AdamW=adamw|Adam=adam|Lion=lion", optimizer)) {
      writing.put("optimizer.type", *name);
      // Without these DeepSpeed takes its own, among them a learning rate of 1e-3; a Trainer fills them from its arguments.
      for (const char* key : {"lr", "betas", "eps", "weight_decay"})
        writing.put(fmt::format("optimizer.params.{}", key), "auto");
    } else {
      writing.refuse("training.optimizer",
                     fmt::format("DeepSpeed steps no {} on the host", optimizer),
                     "adamw, adam and lion are written");
    }
  }
  write_clip(writing, "gradient_clipping");
  writing.take("parallel.data");
}

}  // namespace steelyard
