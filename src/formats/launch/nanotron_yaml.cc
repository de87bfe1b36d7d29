// nanotron's YAML: nanotron/config/config.py, parallelism_config.py, models_config.py.
#include <fmt/format.h>

#include "formats/launch/formats.h"
#include "formats/launch/hugging_face.h"

namespace steelyard {
namespace {

constexpr Row kRows[] = {
    {"parallelism.dp", "parallel.data", "", "", "1"},
    {"parallelism.pp", "parallel.pipeline", "", "", "1"},
    {"parallelism.tp", "parallel.tensor", "", "", "1"},
    {"parallelism.context_parallel_size", "parallel.context"},
    {"parallelism.pp_engine", "parallel.schedule", "1f1b=1f1b|afab=gpipe", "", "gpipe"},
    {"parallelism.tp_mode", "parallel.sequence_parallel", "REDUCE_SCATTER=true|ALL_REDUCE=false",
     "", "false"},
    {"parallelism.recompute_layer", "recompute.mode", "true=full|false=none", "", "none"},
    {"optimizer.zero_stage", "parallel.zero_stage"},
    {"tokens.sequence_length", "training.sequence_length"},
    {"tokens.micro_batch_size", "training.micro_batch"},
    {"tokens.batch_accumulation_per_replica", "training.gradient_accumulation"},
    {"optimizer.optimizer_factory.name", "training.optimizer", "adamW=adamw|sgd=sgd", "", "adamw"},
    {"optimizer.optimizer_factory.torch_adam_is_fused", "training.optimizer_form",
     "true=fused|false=foreach"},
    {"model.make_vocab_size_divisible_by", "training.vocabulary_multiple", "", "", "1"},
    {"model.model_config._attn_implementation", "training.attention",
     "flash_attention_2=flash|sdpa=efficient|eager=eager|ring=|llama3_ring_attention=", "",
     "flash"},
};

constexpr std::string_view kSizes[] = {"hidden_size",
                                       "intermediate_size",
                                       "num_attention_heads",
                                       "num_hidden_layers",
                                       "num_key_value_heads",
                                       "vocab_size",
                                       "max_position_embeddings",
                                       "rope_theta",
                                       "hidden_act",
                                       "tie_word_embeddings",
                                       "head_dim",
                                       "attention_bias",
                                       "rms_norm_eps"};

void read_model(ConfigReader& reading) {
  const Value* config = reading.theirs().at("model.model_config");
  if (config == nullptr || !config->is_table())
    return reading.lacks("model", "no model.model_config");
  Value model = Value::table();
  const auto marked = [&](const char* name) {
    const Value* mark = reading.take(fmt::format("model.model_config.{}", name));
    return mark != nullptr && truth_of(*mark).value_or(false);
  };
  const bool qwen = marked("is_qwen2_config");
  const bool star = marked("is_starcoder2_config");
  marked("is_llama_config");
  if (config->find("moe_config") != nullptr && !config->find("moe_config")->is_null())
    return reading.refuse(*config->find("moe_config"), "experts of nanotron are not read",
                          "its layer is not described here");
  if (star)
    return reading.refuse(*config, "the Starcoder2 of nanotron is not read",
                          "is_llama_config and is_qwen2_config are");
  model.members().push_back(
      {"model_type", config->mark(), Value::string(qwen ? "qwen2" : "llama")});
  for (const std::string_view key : kSizes)
    if (const Value* value = reading.take(fmt::format("model.model_config.{}", key)))
      if (!(qwen && key == "attention_bias"))
        model.members().push_back({std::string(key), value->mark(), *value});
  model.set_mark(config->mark());
  reading.say("model", std::move(model), *config);
}

void write_model(ConfigWriter& writing) {
  const Value config = model_config(writing.run());
  writing.take("model");
  const Value* type = config.is_table() ? config.find("model_type") : nullptr;
  const std::string family = type == nullptr ? "" : word_of(*type);
  if (family != "llama" && family != "qwen2")
    return writing.refuse("model",
                          fmt::format("nanotron's code has no {}",
                                      family.empty() ? "model of unknown sizes" : family),
                          "llama and qwen2 are written");
  writing.put(fmt::format("model.model_config.is_{}_config", family), Value::boolean(true));
  for (const std::string_view key : kSizes)
    if (const Value* value = config.find(key); value != nullptr && !value->is_null())
      if (key != "attention_bias") writing.put(fmt::format("model.model_config.{}", key), *value);
}

}  // namespace

void read_nanotron(const Value& document, Launch& launch) {
  ConfigReader reading(document, "nanotron", launch.into);
  launch.into.formats.emplace_back("nanotron YAML");
  reading.say("engine", "nanotron", document);
  read_model(reading);
  reading.rows(kRows);
  // Before optimizers were named by a factory of their own.
  if (const Value* fused = reading.take("optimizer.torch_adam_is_fused"); fused != nullptr)
    if (!reading.has("training.optimizer_form"))
      reading.say("training.optimizer_form", truth_of(*fused).value_or(false) ? "fused" : "foreach",
                  *fused);
  const Value* accumulate = reading.take("optimizer.accumulate_grad_in_fp32");
  const Value* type = reading.take("model.dtype");
  const std::string dtype = type == nullptr ? "bfloat16" : word_of(*type);
  const bool single = accumulate != nullptr && truth_of(*accumulate).value_or(false);
  const Value& at = type != nullptr ? *type : accumulate != nullptr ? *accumulate : document;
  reading.say("training.precision",
              dtype == "float32"   ? "fp32"
              : dtype == "float16" ? "fp16-mixed"
              : single             ? "bf16-mixed-fp32-gradients"
                                   : "bf16-pure",
              at);
  // Null is no clipping; to a norm of 0 it would clip every gradient.
  const Value* clip = document.at("optimizer.clip_grad");
  if (clip != nullptr && clip->is_null()) {
    reading.take("optimizer.clip_grad");
    reading.say("training.gradient_clip", Value::boolean(false), *clip);
  } else {
    read_clip(reading, "optimizer.clip_grad", false);
  }
  if (const Value* bucket = reading.take("model.ddp_bucket_cap_mb");
      bucket != nullptr && bucket->is_integer() && bucket->as_integer() < 1'000'000)
    reading.say("buckets.ddp_bytes", Value::integer(bucket->as_integer() * 1024 * 1024), *bucket);
  // World size is the product: no launcher may say otherwise.
  std::int64_t product = 1;
  for (const char* key :
       {"parallel.data", "parallel.pipeline", "parallel.tensor", "parallel.context"})
    if (const Value* degree = reading.said(key)) {
      const std::int64_t count = count_of(*degree).value_or(1);
      if (count > 0 && count < 1'000'000 && product < 1'000'000'000) product *= count;
    }
  if (const Value* part = document.find("parallelism");
      part != nullptr && !reading.has("cluster.devices"))
    reading.say("cluster.devices", Value::integer(product), *part);
  reading.carry_rest();
}

void write_nanotron(ConfigWriter& writing) {
  const std::string engine = writing.word("engine", "nanotron");
  if (engine != "nanotron")
    writing.refuse("engine", fmt::format("the run's engine is {}", engine),
                   "--engine nanotron makes it a nanotron run");
  if (writing.look_word("implementation") == "nanotron") writing.take("implementation");
  write_model(writing);
  writing.rows(kRows);
  writing.take("training.global_batch");
  const std::string precision = writing.word("training.precision", "bf16-mixed-fp32-gradients");
  if (precision != "bf16-mixed-fp32-gradients" && precision != "bf16-pure" && precision != "fp32")
    writing.refuse("training.precision", fmt::format("nanotron is not written with {}", precision),
                   "bf16-mixed-fp32-gradients, bf16-pure and fp32 are");
  writing.put("model.dtype", precision == "fp32" ? "float32" : "bfloat16", "type of the weights");
  writing.put("optimizer.accumulate_grad_in_fp32",
              Value::boolean(precision == "bf16-mixed-fp32-gradients"),
              "gradients and master weights in fp32");
  if (const auto norm = clip_norm(writing))
    writing.put("optimizer.clip_grad", *norm > 0 ? Value::number(*norm) : Value(),
                "gradients are clipped to this norm; null: not");
  if (const Value* bucket = writing.take("buckets.ddp_bytes"))
    writing.put("model.ddp_bucket_cap_mb",
                Value::integer(count_of(*bucket).value_or(25 << 20) / (1024 * 1024)));
  writing.take("training.method");
  writing.take("training.dropout");
  if (writing.look_word("checkpoint.save") == "sharded") writing.take("checkpoint.save");
  // What its reader needs and bytes do not.
  writing.fill_in("general.project", Value::string("steelyard"));
  writing.fill_in("general.run", Value::string("run"));
  writing.fill_in("model.init_method.std", Value::number(0.02));
  writing.fill_in("tokens.train_steps", Value::integer(10));
  writing.fill_in("optimizer.learning_rate_scheduler.learning_rate", Value::number(0.0003));
  writing.fill_in("optimizer.learning_rate_scheduler.lr_warmup_steps", Value::integer(1));
  writing.fill_in("optimizer.learning_rate_scheduler.lr_warmup_style", Value::string("linear"));
  writing.fill_in("optimizer.learning_rate_scheduler.lr_decay_style", Value::string("cosine"));
  writing.fill_in("optimizer.learning_rate_scheduler.min_decay_lr", Value::number(0.00003));
  writing.fill_in("optimizer.weight_decay", Value::number(0.1));
  writing.fill_in("optimizer.optimizer_factory.adam_beta1", Value::number(0.9));
  writing.fill_in("optimizer.optimizer_factory.adam_beta2", Value::number(0.95));
  writing.fill_in("optimizer.optimizer_factory.adam_eps", Value::number(1e-8));
  writing.fill_in("tokenizer.tokenizer_name_or_path", Value::string("gpt2"));
  writing.fill_in("checkpoints.checkpoints_path", Value::string("checkpoints"));
  writing.fill_in("checkpoints.checkpoint_interval", Value::integer(1000));
  Value stage = Value::table();
  set_path(stage, "name", Value::string("training"), Place{});
  set_path(stage, "start_training_step", Value::integer(1), Place{});
  set_path(stage, "data.seed", Value::integer(42), Place{});
  set_path(stage, "data.num_loading_workers", Value::integer(1), Place{});
  set_path(stage, "data.dataset", Value(), Place{});
  writing.fill_in("data_stages", Value::array({stage}));
}

}  // namespace steelyard
