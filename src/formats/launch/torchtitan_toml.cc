// torchtitan's TOML up to 0.2.2: torchtitan/config/job_config.py.
#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/formats.h"
#include "formats/launch/hugging_face.h"

namespace steelyard {
namespace {

// Flavors whose sizes are a preset's: torchtitan/models/*/__init__.py.
constexpr std::string_view kFlavors =
    "llama3/8B=llama-3.1-8b|llama3/8B=llama-3-8b|llama3/70B=llama-3.1-70b|llama3/70B=llama-3-70b|"
    "llama3/405B=llama-3.1-405b|llama4/17bx16e=llama-4-scout-17b-16e|"
    "llama4/17bx128e=llama-4-maverick-17b-128e|deepseek_v3/671B=deepseek-v3|"
    "deepseek_v3/16B=deepseek-v2-lite|"
    "qwen3/0.6B=qwen3-0.6b|qwen3/1.7B=qwen3-1.7b|qwen3/4B=qwen3-4b|qwen3/8B=qwen3-8b|"
    "qwen3/14B=qwen3-14b|qwen3/32B=qwen3-32b|gpt_oss/20b=gpt-oss-20b|gpt_oss/120b=gpt-oss-120b";

constexpr Row kRows[] = {
    {"training.seq_len", "training.sequence_length", "", "", "2048"},
    {"training.compile", "training.compile", "", "", "", true},
    {"parallelism.data_parallel_replicate_degree", "parallel.replicate"},
    {"parallelism.tensor_parallel_degree", "parallel.tensor", "", "", "1"},
    {"parallelism.pipeline_parallel_degree", "parallel.pipeline", "", "", "1"},
    {"parallelism.pipeline_parallel_schedule", "parallel.schedule",
     "1F1B=1f1b|GPipe=gpipe|Interleaved1F1B=interleaved|LoopedBFS=looped-bfs|"
     "InterleavedZeroBubble=zb-h1|ZBVZeroBubble=zb-v|DualPipeV=dualpipe-v"},
    {"parallelism.context_parallel_degree", "parallel.context", "", "", "1"},
    {"parallelism.context_parallel_rotate_method", "parallel.context_method",
     "allgather=allgather|alltoall=ring"},
    {"parallelism.expert_parallel_degree", "parallel.expert"},
    {"parallelism.expert_tensor_parallel_degree", "parallel.expert_tensor"},
    {"optimizer.name", "training.optimizer", "AdamW=adamw|Adam=adam", "", "adamw"},
    {"optimizer.implementation", "training.optimizer_form",
     "fused=fused|foreach=foreach|for-loop=loop", "", "fused"},
    {"optimizer.early_step_in_backward", "training.optimizer_in_backward"},
    {"training.enable_cpu_offload", "offload.parameters", "true=cpu|false=none"},
};

// The flavor of every family's first run: torchtitan/models/llama3/__init__.py, debugmodel. Its feed-forward is
// 4 x 256 x 2 / 3, up to a multiple of 256.
Value debug_model() {
  Value model = Value::table();
  const auto put = [&](const char* key, Value value) {
    model.members().push_back({key, Mark{}, std::move(value)});
  };
  put("model_type", Value::string("llama"));
  for (const auto& [key, count] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {"hidden_size", 256},
           {"num_hidden_layers", 6},
           {"num_attention_heads", 16},
           {"num_key_value_heads", 16},
           {"intermediate_size", 768},
           {"vocab_size", 2048},
           {"max_position_embeddings", 131072}})
    put(key, Value::integer(count));
  put("rope_theta", Value::number(500000.0));
  put("tie_word_embeddings", Value::boolean(false));
  return model;
}

bool is_debug_model(const Value& model) {
  const Value ours = debug_model();
  return model.is_table() && model.members().size() == ours.members().size() &&
         std::all_of(ours.members().begin(), ours.members().end(),
                     [&](const Value::Member& member) {
                       const Value* said = model.find(member.key);
                       return said != nullptr && word_of(*said) == word_of(member.value);
                     });
}

// torchtitan has no switch: train.py clips in every step, and to 0 it would stop every weight.
constexpr double kNormNeverReached = 1e30;

void read_recompute(ConfigReader& reading) {
  const Value* mode = reading.take("activation_checkpoint.mode");
  const Value* option = reading.take("activation_checkpoint.selective_ac_option");
  const std::string word = mode == nullptr ? "selective" : word_of(*mode);
  if (word == "none" || word == "full") {
    reading.say("recompute.mode", word, *mode);
  } else if (word == "memory_budget") {
    reading.say("recompute.mode", "budget", *mode);
    if (const Value* budget = reading.take("activation_checkpoint.memory_budget"))
      reading.say("recompute.budget", *budget, *budget);
  } else if (word == "selective") {
    if (option != nullptr && word_of(*option) == "op") {
      reading.say("recompute.mode", "operators", *option);
    } else if (option == nullptr) {
      reading.take_default("recompute.mode", Value::string("every"),
                           "torchtitan's default is selective");
      reading.take_default("recompute.every", Value::integer(2),
                           "torchtitan recomputes every 2nd layer");
    } else if (const auto every = count_of(*option)) {
      reading.say("recompute.mode", "every", mode == nullptr ? *option : *mode);
      reading.say("recompute.every", Value::integer(*every), *option);
    } else {
      reading.refuse(*option, "selective_ac_option is not understood", "\"op\" or a number");
    }
  } else {
    reading.refuse(*mode, fmt::format("activation_checkpoint.mode \"{}\" is not known", word),
                   "none, selective, full or memory_budget");
  }
}

void write_recompute(ConfigWriter& writing) {
  const std::string mode = writing.word("recompute.mode", "none");
  if (mode == "none" || mode == "full") {
    writing.put("activation_checkpoint.mode", mode, "what backward computes again");
  } else if (mode == "every") {
    writing.put("activation_checkpoint.mode", "selective", "what backward computes again");
    writing.put("activation_checkpoint.selective_ac_option",
                std::to_string(writing.count("recompute.every", 1)), "every n-th layer");
  } else if (mode == "operators") {
    writing.put("activation_checkpoint.mode", "selective");
    writing.put("activation_checkpoint.selective_ac_option", "op");
  } else {
    writing.refuse("recompute.mode", fmt::format("torchtitan has no recompute mode {}", mode),
                   "none, full and every are what it has");
  }
}

// SDPA takes the flash kernel wherever it runs, and it does not compute in fp32.
const char* attention_of(std::string_view precision) {
  return precision == "fp32" ? "efficient" : "flash";
}

// Micro-steps of one optimizer step, where the data ranks are known.
void say_accumulation(ConfigReader& reading, std::int64_t whole, std::int64_t micro,
                      const Value& at) {
  const Value* data = reading.said("parallel.data");
  if (data == nullptr || whole < 1 || micro < 1) return;
  const std::int64_t ranks = count_of(*data).value_or(0);
  if (ranks < 1 || ranks > 10'000'000 || micro > 1'000'000 || whole % (ranks * micro) != 0) return;
  reading.say("training.gradient_accumulation", Value::integer(whole / ranks / micro), at);
}

void read_batch(ConfigReader& reading) {
  const Value* local = reading.take("training.local_batch_size");
  if (local == nullptr) local = reading.take("training.batch_size");
  const Value* global = reading.take("training.global_batch_size");
  const Value* piece = reading.take("parallelism.pipeline_parallel_microbatch_size");
  const Value* stages = reading.said("parallel.pipeline");
  const std::int64_t sequences = local == nullptr ? 8 : count_of(*local).value_or(8);
  const std::int64_t whole = global == nullptr ? -1 : count_of(*global).value_or(-1);
  const bool pipelined = stages != nullptr && count_of(*stages).value_or(1) > 1;
  if (whole > 0) reading.say("training.global_batch", Value::integer(whole), *global);
  if (!pipelined) {
    if (local != nullptr)
      reading.say("training.micro_batch", Value::integer(sequences), *local);
    else
      reading.take_default("training.micro_batch", Value::integer(sequences),
                           "torchtitan's default");
    if (whole > 0) say_accumulation(reading, whole, sequences, *global);
    if (whole <= 0)
      reading.take_default("training.gradient_accumulation", Value::integer(1),
                           "torchtitan accumulates only for a global_batch_size");
    return;
  }
  // What one run of the pipeline feeds is cut into micro-batches.
  const std::int64_t micro = piece == nullptr ? 1 : count_of(*piece).value_or(1);
  if (micro < 1 || sequences < 1) return;
  if (piece != nullptr)
    reading.say("training.micro_batch", Value::integer(micro), *piece);
  else
    reading.take_default("training.micro_batch", Value::integer(1),
                         "torchtitan's pipeline_parallel_microbatch_size");
  if (whole > 0) say_accumulation(reading, whole, micro, *global);
  if (whole <= 0) {
    if (local != nullptr)
      reading.say("training.gradient_accumulation", Value::integer(sequences / micro), *local);
    else
      reading.take_default("training.gradient_accumulation", Value::integer(sequences / micro),
                           "torchtitan's local_batch_size");
  }
}

}  // namespace

void read_torchtitan(const Value& document, Launch& launch) {
  ConfigReader reading(document, "torchtitan", launch.into);
  launch.into.formats.emplace_back("torchtitan TOML");
  reading.say("implementation", "torchtitan", document);
  reading.take("job.config_file");
  const std::string name = reading.word("model.name").value_or("llama3");
  const std::string flavor = reading.word("model.flavor").value_or("debugmodel");
  const Value* model = document.at("model.flavor");
  if (model == nullptr) model = &document;
  if (const auto preset = ours_of(kFlavors, name + "/" + flavor))
    reading.say("model", *preset, *model);
  else if (name == "llama3" && flavor == "debugmodel")
    reading.say("model", debug_model(), *model);
  else if (name == "flux")
    reading.unweighed(*model, "flux", "a model that makes images: it is not weighed");
  else
    reading.lacks("model", fmt::format("the sizes of {} {} stand in torchtitan's code: --model "
                                       "takes a config.json of the same",
                                       name, flavor));
  const std::int64_t replicate =
      reading.theirs().at("parallelism.data_parallel_replicate_degree") == nullptr
          ? 1
          : count_of(*reading.theirs().at("parallelism.data_parallel_replicate_degree"))
                .value_or(1);
  const Value* shard = reading.take("parallelism.data_parallel_shard_degree");
  const std::int64_t shards = shard == nullptr ? -1 : count_of(*shard).value_or(-1);
  if (shards > 0) reading.say("parallel.data", Value::integer(shards * replicate), *shard);
  // One shard is DDP, and beside other divisions no wrapper at all: what FSDP2 on one data rank is here.
  const auto divides = [&](const char* path) {
    const Value* degree = document.at(path);
    return degree != nullptr && count_of(*degree).value_or(1) > 1;
  };
  const bool whole = shards == 1 && !divides("parallelism.tensor_parallel_degree") &&
                     !divides("parallelism.pipeline_parallel_degree") &&
                     !divides("parallelism.context_parallel_degree");
  if (whole) {
    reading.say("engine", "ddp", *shard);
    reading.take("parallelism.data_parallel_replicate_degree");
  } else {
    reading.say("engine", "fsdp2", document);
  }
  const Value* reshard = reading.take("parallelism.fsdp_reshard_after_forward");
  const std::string after = reshard == nullptr ? "default" : word_of(*reshard);
  reading.rows(whole ? std::span<const Row>(kRows).subspan(3) : std::span<const Row>(kRows));
  if (whole) reading.rows(std::span<const Row>(kRows).first(1));
  if (!whole) {
    const Value* stages = reading.said("parallel.pipeline");
    const bool pipelined = stages != nullptr && count_of(*stages).value_or(1) > 1;
    const std::int64_t stage = after == "never" || (after == "default" && pipelined) ? 2 : 3;
    if (after == "always")
      reading.say("parallel.reshard_after_forward", "always", *reshard);
    else if (reshard != nullptr)
      reading.say("parallel.zero_stage", Value::integer(stage), *reshard);
    else
      reading.take_default("parallel.zero_stage", Value::integer(stage),
                           pipelined ? "torchtitan keeps what it gathered in a pipeline"
                                     : "torchtitan reshards after forward");
  }
  if (const Value* offload = document.at("training.enable_cpu_offload");
      offload != nullptr && truth_of(*offload).value_or(false))
    reading.say("offload.optimizer", "cpu", *offload);
  read_batch(reading);
  read_recompute(reading);
  if (const Value* norm = document.at("training.max_norm");
      norm != nullptr && norm->is_number() && norm->as_number() >= kNormNeverReached) {
    reading.take("training.max_norm");
    reading.say("training.gradient_clip", Value::boolean(false), *norm);
  } else {
    read_clip(reading, "training.max_norm", true);
  }
  const std::string stored = reading.word("training.dtype").value_or("float32");
  const std::string computed = reading.word("training.mixed_precision_param").value_or("bfloat16");
  const Value* at = document.at("training.dtype");
  if (at == nullptr) at = document.at("training.mixed_precision_param");
  const std::string precision =
      stored == "bfloat16"    ? "bf16-pure"
      : computed == "float32" ? "fp32"
      // Mixed precision is fully_shard's: without it the step runs under autocast.
      : whole ? "bf16-autocast"
              : "bf16-mixed";
  if (at != nullptr)
    reading.say("training.precision", precision, *at);
  else
    reading.take_default("training.precision", Value::string(precision),
                         "torchtitan stores fp32 and computes in bf16");
  if (const Value* compiled = reading.take("compile.enable"))
    reading.say("training.compile", Value::boolean(truth_of(*compiled).value_or(false)), *compiled);
  if (const Value* whole_loss = reading.take("parallelism.disable_loss_parallel"))
    reading.say("training.loss_parallel", Value::boolean(!truth_of(*whole_loss).value_or(false)),
                *whole_loss);

  if (const Value* converters = reading.take("model.converters");
      converters != nullptr && converters->is_array())
    for (const Value& converter : converters->items())
      if (word_of(converter).find("float8") != std::string::npos) {
        const std::string recipe =
            reading.word("quantize.linear.float8.recipe_name").value_or("tensorwise");
        remove_path(launch.into.run, "training.precision");
        reading.say("training.precision",
                    recipe.starts_with("rowwise") ? "fp8-rowwise" : "fp8-tensorwise", converter);
      }
  const Value* type = reading.said("training.precision");
  // Beside tensor or pipeline ranks alone nothing is sharded, and nothing computes in 16 bits.
  const bool unsharded = !whole && shards == 1 && replicate == 1 && stored != "bfloat16" &&
                         !divides("parallelism.context_parallel_degree");
  const std::string kernel = attention_of(type == nullptr ? ""
                                          : unsharded     ? "fp32"
                                                          : word_of(*type));
  reading.take_default("training.attention", Value::string(kernel),
                       kernel == "flash" ? "torchtitan's attention is the flash kernel"
                                         : "torchtitan's SDPA has no flash kernel in fp32");
  reading.carry_rest();
}

void write_torchtitan(ConfigWriter& writing) {
  const std::string engine = writing.word("engine", "fsdp2");
  if (engine != "fsdp2" && engine != "ddp")
    writing.refuse("engine", fmt::format("torchtitan divides by FSDP2, not {}", engine),
                   "--engine fsdp2");
  const std::string code = writing.word("implementation", "torchtitan");
  if (code != "torchtitan")
    writing.refuse("implementation",
                   fmt::format("torchtitan runs its own model code, not that of {}", code),
                   "--implementation torchtitan weighs it");
  const std::string model = writing.word("model");
  const Value* table = writing.look("model");
  const auto flavor = table != nullptr && is_debug_model(*table)
                          ? std::optional<std::string>("llama3/debugmodel")
                          : theirs_of(kFlavors, model);
  if (!flavor) {
    writing.refuse("model", fmt::format("torchtitan has no flavor of these sizes: {}", model),
                   "its flavors stand in torchtitan/models/*/__init__.py");
  } else {
    writing.put("model.name", flavor->substr(0, flavor->find('/')),
                "its code and sizes are torchtitan's");
    writing.put("model.flavor", flavor->substr(flavor->find('/') + 1));
  }
  if (flavor && !model.empty() && ours_of(kFlavors, *flavor) != model)
    writing.lose("model",
                 fmt::format("the flavor {} has more positions, and equal tensors", *flavor));
  const std::int64_t devices = writing.look_count("cluster.devices", 1);
  const std::int64_t stages = writing.look_count("parallel.pipeline", 1);
  const std::int64_t others =
      stages * writing.look_count("parallel.tensor", 1) * writing.look_count("parallel.context", 1);
  const std::int64_t data = writing.count("parallel.data", others > 0 ? devices / others : devices);
  const std::int64_t micro = writing.count("training.micro_batch", 1);
  const std::int64_t accumulation = writing.count("training.gradient_accumulation", 1);
  writing.take("training.global_batch");
  writing.rows(kRows);
  const std::int64_t replicate = writing.look_count("parallel.replicate", 1);
  if (engine == "ddp") {
    writing.put("parallelism.data_parallel_replicate_degree", Value::integer(data));
    writing.put("parallelism.data_parallel_shard_degree", Value::integer(1));
    writing.take("parallel.zero_stage");
  } else {
    writing.put("parallelism.data_parallel_replicate_degree", Value::integer(replicate));
    writing.put("parallelism.data_parallel_shard_degree",
                Value::integer(data / std::max<std::int64_t>(1, replicate)),
                "ranks that divide parameters");
    if (writing.word("wrap.ends", "apart") == "root")
      writing.lose("wrap.ends", "torchtitan wraps embedding and head apart since 0.2");
    const bool always =
        stages > 1 || writing.word("parallel.reshard_after_forward", "default") == "always";
    writing.put("parallelism.fsdp_reshard_after_forward",
                writing.count("parallel.zero_stage", 3) == 2 ? "never"
                : always                                     ? "always"
                                                             : "default",
                "always is ZeRO-3, default keeps norm and head, never is ZeRO-2");
    if (writing.truth("parallel.sync_each_micro_batch", stages == 1) != (stages == 1))
      writing.refuse("parallel.sync_each_micro_batch",
                     "torchtitan reduces every micro-batch, or with a pipeline the last alone");
  }
  if (stages > 1) {
    writing.put("training.local_batch_size", Value::integer(micro * accumulation),
                "sequences of one run of the pipeline");
    writing.put("parallelism.pipeline_parallel_microbatch_size", Value::integer(micro),
                "sequences of one micro-batch");
  } else {
    writing.put("training.local_batch_size", Value::integer(micro),
                "sequences of one device in one micro-step");
  }
  writing.put("training.global_batch_size", Value::integer(micro * accumulation * data),
              "sequences of one optimizer step");
  write_recompute(writing);
  if (const auto norm = clip_norm(writing); norm && *norm > 0)
    writing.put("training.max_norm", Value::number(*norm), "gradients are clipped to this norm");
  else if (norm)
    writing.put("training.max_norm", Value::number(kNormNeverReached),
                "it always clips: to a norm that no gradient reaches");
  if (writing.look_word("offload.parameters") !=
      writing.word("offload.optimizer", writing.look_word("offload.parameters")))
    writing.refuse("offload.optimizer", "torchtitan offloads parameters and states together");
  const std::string precision = writing.word("training.precision", "bf16-mixed");
  if (precision == "bf16-pure") {
    writing.put("training.dtype", "bfloat16");
  } else if (precision == "bf16-mixed" || precision == "fp32" || precision == "fp8-tensorwise" ||
             precision == "fp8-rowwise" || (precision == "bf16-autocast" && engine == "ddp")) {
    writing.put("training.dtype", "float32", "what is stored");
    writing.put("training.mixed_precision_param", precision == "fp32" ? "float32" : "bfloat16",
                "what is computed in");
    if (precision.starts_with("fp8-")) {
      writing.put("model.converters", Value::array({Value::string("quantize.linear.float8")}));
      writing.put("quantize.linear.float8.recipe_name", precision.substr(4));
      writing.put("quantize.linear.float8.filter_fqns", Value::array({Value::string("output")}),
                  "the head multiplies in 16 bits");
    }
  } else {
    writing.refuse("training.precision",
                   fmt::format("torchtitan is not written with {}", precision),
                   "bf16-mixed, bf16-pure, fp8-tensorwise, fp8-rowwise and fp32 are");
  }
  writing.put("compile.enable", Value::boolean(writing.truth("training.compile", false)));
  if (const Value* divided = writing.take("training.loss_parallel"))
    writing.put("parallelism.disable_loss_parallel",
                Value::boolean(!truth_of(*divided).value_or(true)));
  // What torchtitan does in any case.
  writing.take("parallel.sequence_parallel");
  if (writing.look_word("training.attention") == attention_of(precision))
    writing.take("training.attention");
  if (writing.look_word("checkpoint.save") == "sharded") writing.take("checkpoint.save");
  writing.take("training.method");
  writing.take("training.dropout");
}

}  // namespace steelyard
