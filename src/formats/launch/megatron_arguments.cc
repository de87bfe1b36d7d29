// Megatron-LM's flags: megatron/training/arguments.py; also the MODEL_ARGS of its functional tests.
#include <fmt/format.h>

#include <utility>

#include "formats/launch/formats.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/megatron_graphs.h"
#include "formats/launch/megatron_model.h"
#include "formats/launch/megatron_partition.h"
#include "formats/launch/megatron_precision.h"
#include "formats/launch/pipeline_layout.h"

namespace steelyard {
namespace {

constexpr Row kRows[] = {
    {"seq_length", "training.sequence_length", "", "encoder_seq_length"},
    {"micro_batch_size", "training.micro_batch", "", "batch_size"},
    {"global_batch_size", "training.global_batch"},
    {"tensor_model_parallel_size", "parallel.tensor", "", "model_parallel_size", "1"},
    {"pipeline_model_parallel_size", "parallel.pipeline", "", "", "1"},
    {"context_parallel_size", "parallel.context", "", "", "1"},
    {"expert_model_parallel_size", "parallel.expert"},
    {"expert_tensor_parallel_size", "parallel.expert_tensor"},
    {"num_distributed_optimizer_instances", "parallel.replicate"},
    {"init_model_with_meta_device", "parallel.meta_device"},
    {"cp_comm_type", "parallel.context_method",
     "p2p=ring|all_gather=allgather|a2a=ulysses|a2a+p2p=ring+ulysses"},
    {"num_virtual_stages_per_pipeline_rank", "parallel.virtual_pipeline"},
    {"decoder_first_pipeline_num_layers", "parallel.first_stage_layers"},
    {"decoder_last_pipeline_num_layers", "parallel.last_stage_layers"},
    {"account_for_embedding_in_pipeline_split", "parallel.count_embedding"},
    {"account_for_loss_in_pipeline_split", "parallel.count_loss"},
    {"microbatch_group_size_per_virtual_pipeline_stage", "parallel.pipeline_group"},
    {"optimizer", "training.optimizer", "adam=adamw|sgd=momentum|muon=muon|lion=lion|soap=soap", "",
     "adamw"},
    {"hidden_dropout", "training.hidden_dropout", "", "", "0.1"},
    {"attention_dropout", "training.attention_dropout", "", "", "0.1"},
    {"make_vocab_size_divisible_by", "training.vocabulary_multiple", "", "", "128"},
    {"mtp_num_layers", "training.prediction_layers"},
    {"attention_backend", "training.attention",
     "flash=flash|fused=flash|unfused=eager|local=eager|auto="},
    {"moe_token_dispatcher_type", "experts.dispatcher",
     "alltoall=all-to-all|allgather=allgather|flex=flex"},
    {"moe_expert_capacity_factor", "experts.capacity_factor"},
    {"moe_pad_expert_input_to_capacity", "experts.pad_to_capacity"},
    {"overlap_grad_reduce", "overlap.reduce"},
    {"overlap_param_gather", "overlap.gather"},
    {"tp_comm_overlap", "overlap.tensor"},
    {"overlap_moe_expert_parallel_comm", "overlap.expert"},
    {"optimizer_cpu_offload", "offload.optimizer", "true=cpu|false=none"},
    {"optimizer_offload_fraction", "offload.optimizer_fraction"},
    {"ckpt_format", "checkpoint.save",
     "torch_dist=sharded|torch=full-rank0|torch_dcp=sharded|fsdp_dtensor=sharded", "", "sharded"},
};

// Gone from Megatron-LM; older scripts and forks have them.
constexpr std::pair<std::string_view, std::string_view> kGone[] = {
    {"moe_extended_tp", "--expert-tensor-parallel-size"},
};
// Of Megatron-LM before its version 2, whose words meant the same.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"model_parallel_size", "tensor_model_parallel_size"},
    {"batch_size", "micro_batch_size"},
};

void read_recompute(ConfigReader& reading) {
  const Value* selective = reading.on("recompute_activations");
  const Value* granularity = reading.take("recompute_granularity");
  const std::string method = reading.word("recompute_method").value_or("");
  const auto layers = reading.count("recompute_num_layers");
  if (const Value* old = reading.on("checkpoint_activations"))
    return reading.say("recompute.mode", "full", *old);
  if (granularity == nullptr && selective == nullptr)
    return reading.take_default("recompute.mode", Value::string("none"),
                                "Megatron-LM recomputes nothing unless told");
  if (granularity == nullptr || word_of(*granularity) == "selective") {
    const Value& at = granularity == nullptr ? *selective : *granularity;
    reading.say("recompute.mode", "selective", at);
    Value names = Value::array();
    for (const Value& word : reading.words("recompute_modules")) {
      static constexpr std::string_view kModules =
          "core_attn=core_attention|mlp=mlp|moe=experts|moe_act=expert_activation|layernorm=norms|"
          "mla_up_proj=mla_up_projection|shared_experts=shared_experts";
      if (const auto ours = ours_of(kModules, word_of(word)))
        names.items().push_back(Value::string(*ours));
      else
        reading.refuse(
            word, fmt::format("no module {} to recompute", word_of(word)),
            "known are core_attn, mlp, moe, moe_act, layernorm, mla_up_proj and shared_experts");
    }
    if (const Value* modules = reading.take("recompute_modules"))
      reading.say("recompute.modules", std::move(names), *modules);
    else
      names.items().push_back(Value::string("core_attention")),
          reading.take_default("recompute.modules", std::move(names),
                               "Megatron-LM recomputes core attention");
    return;
  }
  if (word_of(*granularity) != "full")
    return reading.refuse(*granularity, "recompute-granularity is full or selective", "");
  if (method == "block") {
    reading.say("recompute.mode", "block", *granularity);
    reading.say("recompute.layers", Value::integer(layers.value_or(1)), *granularity);
  } else if (layers.value_or(1) == 1) {
    reading.say("recompute.mode", "full", *granularity);
  } else {
    reading.say("recompute.mode", "every", *granularity);
    reading.say("recompute.every", Value::integer(*layers), *granularity);
    reading.warn(*granularity, "checkpoints of several layers at once",
                 "every layer runs again there; here layers between are kept");
  }
}

void write_recompute(ConfigWriter& writing) {
  const std::string mode = writing.word("recompute.mode", "none");
  const Value* modules = writing.take("recompute.modules");
  if (mode == "none") return;
  if (mode == "full") {
    writing.put("recompute_granularity", "full");
    writing.put("recompute_method", "uniform");
    writing.put("recompute_num_layers", Value::integer(1));
  } else if (mode == "block") {
    writing.put("recompute_granularity", "full");
    writing.put("recompute_method", "block");
    writing.put("recompute_num_layers", Value::integer(writing.count("recompute.layers", 1)));
  } else if (mode == "selective" || mode == "modules") {
    writing.put("recompute_granularity", "selective");
    if (modules == nullptr) return;
    static constexpr std::string_view kModules =
        "core_attn=core_attention|mlp=mlp|moe=experts|moe_act=expert_activation|layernorm=norms|"
        "mla_up_proj=mla_up_projection|shared_experts=shared_experts";
    Value names = Value::array();
    for (const Value& item : words_of(modules))
      if (const auto theirs = theirs_of(kModules, word_of(item)))
        names.items().push_back(Value::string(*theirs));
    writing.put("recompute_modules", std::move(names));
  } else {
    writing.refuse("recompute.mode", fmt::format("Megatron-LM has no recompute mode {}", mode));
  }
}

// Every chunk's layers; as many chunks a rank as it has more entries than ranks.
void read_layout(ConfigReader& reading, std::int64_t pipeline) {
  const Value* layout = reading.take("pipeline_model_parallel_layout");
  if (layout == nullptr) return;
  const auto layers = layers_of_layout(word_of(*layout));
  const std::int64_t chunks = layers ? static_cast<std::int64_t>(layers->size()) : 0;
  if (chunks == 0 || pipeline < 1 || chunks % pipeline != 0)
    return reading.refuse(
        *layout,
        layers ? fmt::format("a layout of {} chunks for {} stages", chunks, pipeline)
               : fmt::format("the layout \"{}\" is not understood", word_of(*layout)),
        "| ends a chunk, E t m L are its parts, t*3 and (tt|)*3 repeat");
  Value list = Value::array();
  for (const std::int64_t count : *layers) list.items().push_back(Value::integer(count));
  if (chunks > pipeline)
    reading.say("parallel.virtual_pipeline", Value::integer(chunks / pipeline), *layout);
  reading.say("parallel.pipeline_layout", std::move(list), *layout);
}

// Of a fork, sail-sg/VocabularyParallelism (megatron/training/arguments.py): without the first of them the others say nothing.
void read_vocabulary(ConfigReader& reading) {
  const Value* divided = reading.on("enable_vocab_parallel");
  if (divided == nullptr) return;
  const Value* interlaced = reading.on("use_interlaced_schedule");
  const Value* apart = reading.on("disable_backward_fusion");
  if (interlaced != nullptr)
    reading.say("parallel.vocabulary", "interlaced", *interlaced);
  else if (apart != nullptr)
    reading.say("parallel.vocabulary", "vocabulary-1", *apart);
  else
    reading.say("parallel.vocabulary", "vocabulary-2", *divided);
}

void write_layout(ConfigWriter& writing) {
  const Value* layout = writing.take("parallel.pipeline_layout");
  if (layout == nullptr || !layout->is_array()) return;
  std::vector<std::int64_t> layers;
  for (const Value& count : layout->items()) layers.push_back(count_of(count).value_or(0));
  writing.put("pipeline_model_parallel_layout", layout_of_layers(layers),
              "layers of each chunk, from the embedding on");
  // It counts the chunks itself, and refuses to be told twice.
  std::erase_if(writing.theirs.members(), [](const Value::Member& member) {
    return member.key == "num_virtual_stages_per_pipeline_rank";
  });
}

// Without Transformer Engine, Megatron-core's own layers write attention out.
void read_implementation(ConfigReader& reading) {
  const Value* code = reading.take("transformer_impl");
  if (code == nullptr || word_of(*code) != "local") {
    if (!reading.has("training.kernels")) return;
  } else {
    reading.say("training.kernels", "local", *code);
  }
  reading.idle({"use_flash_attn", "attention_backend"});
  if (!reading.has("training.attention"))
    reading.take_default("training.attention", Value::string("eager"),
                         "Megatron-core's local layers write attention out");
}

// Models that Megatron-LM trains beside GPT: what their programs are called, and what only they are told.
struct OtherModel {
  std::string_view program;  // a part of its name
  std::string_view flags;    // "a|b"; any of them
  std::string_view what;
};
constexpr OtherModel kOtherModels[] = {
    {"bert", "bert_no_binary_head|bert_embedder_type|bert_binary_head",
     "BERT as Megatron-LM trains it: norms before the sublayers, and a head for the next sentence"},
    {"t5", "encoder_num_layers|decoder_num_layers|decoder_seq_length|vocab_extra_ids",
     "T5 as Megatron-LM trains it"},
    {"ict", "ict_head_size|biencoder_projection_dim", "two encoders that are compared"},
    {"retro", "retro_project_dir|retro_workdir|retro_tasks",
     "RETRO's retriever beside the decoder"},
    {"vision", "img_h|vision_pretraining|vision_backbone_type", "a tower of vision"},
    {"vlm", "vision_model_type|img_embedding_idx", "a tower of vision beside the decoder"},
    {"multimodal", "allow_missing_vision_projection_checkpoint|dataloader_seq_length",
     "a tower of vision beside the decoder"},
    {"mimo", "model_provider_mimo|language_model_path", "towers beside the decoder"},
    {"mamba", "hybrid_mlp_ratio|mamba_state_dim", "state-space layers"},
    {"train_rl", "perform_rl_step|grpo_group_size", "rollouts are generated during training"},
    {"diffusion", "", "a model of diffusion"},
    // MODEL_ARGS that tests hand to a script of NeMo 2's.
    {"nemo2", "trainer.num_nodes|trainer.devices", "a recipe of NeMo 2 names the model, in Python"},
};

// Whether it is another model; then the run is refused by its name, and none of its sizes is read as GPT's.
bool is_other_model(ConfigReader& reading, std::string_view program) {
  const Value& flags = reading.theirs();
  for (const OtherModel& other : kOtherModels) {
    const Value* said = nullptr;
    for (std::size_t from = 0; from < other.flags.size();) {
      const std::size_t end = std::min(other.flags.find('|', from), other.flags.size());
      if (said == nullptr) said = flags.find(other.flags.substr(from, end - from));
      from = end + 1;
    }
    if (other.what.starts_with("BERT") && said == nullptr)
      if (const Value* tokenizer = flags.find("tokenizer_type");
          tokenizer != nullptr && word_of(*tokenizer).starts_with("BertWordPiece"))
        said = tokenizer;
    const bool named = !program.empty() && program.find(other.program) != std::string_view::npos;
    if (!named && said == nullptr) continue;
    const Value& at = said == nullptr ? flags : *said;
    reading.unweighed(at, named ? program : "this model", other.what);
    reading.lacks("model", std::string(other.what));
    return true;
  }
  return false;
}

}  // namespace

void read_megatron(const Value& flags, Launch& launch, std::string_view program) {
  ConfigReader reading(flags, "megatron", launch.into);
  launch.into.formats.emplace_back("Megatron-LM arguments");
  reading.say("engine", "megatron", flags);
  for (const auto& [old, now] : kGone)
    if (const Value* value = flags.find(old))
      reading.refuse(*value, fmt::format("--{} is gone from Megatron-LM", old),
                     fmt::format("today it is {}", now));
  for (const auto& [old, now] : kRenamed)
    if (const Value* value = flags.find(old); value != nullptr && flags.find(now) == nullptr)
      reading.warn(*value, fmt::format("--{} is an old name", old),
                   fmt::format("read as {}, which it is today", now));
  if (!is_other_model(reading, program)) read_megatron_model(reading);
  reading.rows(kRows);
  const Value* by = flags.find("transformer_impl");
  const bool local = (by != nullptr && word_of(*by) == "local") || reading.has("training.kernels");
  if (const Value* flash = local ? nullptr : reading.on("use_flash_attn"))
    reading.say("training.attention", "flash", *flash);
  read_implementation(reading);
  if (const Value* fused = reading.on("cross_entropy_loss_fusion"))
    reading.warn(*fused, "a fused cross entropy",
                 "weighed as Megatron-LM's own, which holds the same logits");
  // Silently off without tensor parallelism.
  const Value* sequence = reading.on("sequence_parallel");
  if (sequence != nullptr)
    reading.say("parallel.sequence_parallel", Value::boolean(true), *sequence);
  else
    reading.take_default("parallel.sequence_parallel", Value::boolean(false),
                         "Megatron-LM does so only when told");
  const Value* divided = reading.on("use_distributed_optimizer");
  const Value* sharded = reading.on("use_megatron_fsdp");
  if (sharded == nullptr) sharded = reading.on("use_custom_fsdp");
  if (sharded != nullptr) {
    const std::string strategy =
        reading.word("data_parallel_sharding_strategy").value_or("optim_grads_params");
    const auto stage = ours_of("no_shard=0|optim=1|optim_grads=2|optim_grads_params=3", strategy);
    reading.say("parallel.zero_stage", typed_value(stage.value_or("3")), *sharded);
    // Where all is whole the buckets hold what Megatron's own buffers do.
    if (strategy != "no_shard") reading.say("parallel.strategy", "megatron-fsdp", *sharded);
    const Value* registered = reading.on("nccl_ub");
    const Value* twice = reading.on("fsdp_double_buffer");
    if (twice == nullptr) twice = registered;
    if (twice != nullptr && strategy == "optim_grads_params")
      reading.say("buckets.double_buffer", Value::boolean(true), *twice);
  } else if (const Value* torch = reading.on("use_torch_fsdp2")) {
    reading.say("parallel.strategy", "torch-fsdp2", *torch);
  } else if (divided != nullptr) {
    reading.say("parallel.zero_stage", Value::integer(1), *divided);
  } else {
    reading.take_default("parallel.zero_stage", Value::integer(0),
                         "Megatron-LM keeps whole states unless told");
  }
  const Value* stages = reading.said("parallel.pipeline");
  const std::int64_t pipeline = stages == nullptr ? 1 : count_of(*stages).value_or(1);
  if (const Value* chunk = reading.take("num_layers_per_virtual_pipeline_stage")) {
    const Value* layers = flags.find("num_layers");
    const std::int64_t each = count_of(*chunk).value_or(0);
    const std::int64_t all = layers == nullptr ? 0 : count_of(*layers).value_or(0);
    if (each > 0 && pipeline > 0 && all > 0 && each < 1'000'000 && pipeline < 1'000'000 &&
        all % (each * pipeline) == 0)
      reading.say("parallel.virtual_pipeline", Value::integer(all / pipeline / each), *chunk);
    else
      reading.refuse(*chunk, "chunks that do not divide the layers of a stage", "");
  }
  read_layout(reading, pipeline);
  read_megatron_partition(reading, pipeline);
  read_vocabulary(reading);
  if (pipeline > 1) {
    const Value* chunks = reading.said("parallel.virtual_pipeline");
    const bool many = chunks != nullptr && count_of(*chunks).value_or(1) > 1;
    reading.take_default("parallel.schedule", Value::string(many ? "interleaved" : "1f1b"),
                         "Megatron-LM's order");
  }
  for (const char* ramp : {"rampup_batch_size", "step_batch_size_schedule"})
    if (const Value* value = reading.take(ramp))
      reading.warn(*value, fmt::format("--{} changes the batch during the run", ramp),
                   "the final batch is weighed");
  read_megatron_precision(reading);
  read_recompute(reading);
  read_megatron_graphs(reading);
  read_clip(reading, "clip_grad", true);
  if (!reading.has("training.micro_batch"))
    reading.lacks("training.micro_batch", "--micro-batch-size is needed");
  if (!reading.has("training.global_batch") && reading.has("training.micro_batch"))
    reading.take_default("training.gradient_accumulation", Value::integer(1),
                         "global batch is micro_batch x data");
  reading.carry_rest();
}

void write_megatron(ConfigWriter& writing) {
  const std::string engine = writing.word("engine", "megatron");
  if (engine != "megatron")
    writing.refuse("engine", fmt::format("the run's engine is {}", engine),
                   "--engine megatron makes it a Megatron-LM run");
  if (writing.look_word("implementation") == "megatron") writing.take("implementation");
  write_megatron_model(writing);
  const std::string optimizer = writing.look_word("training.optimizer");
  writing.rows(kRows);
  if (optimizer == "adam") {
    std::erase_if(writing.problems, [](const Diagnostic& problem) {
      return problem.message.find("training.optimizer") != std::string::npos;
    });
    writing.put("optimizer", "adam");
    writing.lose("training.optimizer",
                 "Megatron-LM's adam decays weights as AdamW does; the same bytes");
  }
  write_layout(writing);
  // Megatron divides what remains: data ranks and accumulation follow from the batches.
  writing.take("parallel.data");
  writing.take("training.gradient_accumulation");
  if (writing.truth("parallel.sequence_parallel", false) &&
      writing.look_count("parallel.tensor", 1) > 1)
    writing.put("sequence_parallel", Value::boolean(true),
                "norms and dropout divided over the tensor ranks");
  const std::int64_t stage = writing.count("parallel.zero_stage", 0);
  const bool fsdp = writing.word("parallel.strategy") == "megatron-fsdp" || stage > 1;
  if (stage == 1 && !fsdp) {
    writing.put("use_distributed_optimizer", Value::boolean(true),
                "states are divided over the data ranks");
  } else if (fsdp) {
    writing.put("use_megatron_fsdp", Value::boolean(true));
    writing.put("data_parallel_sharding_strategy", stage == 1   ? "optim"
                                                   : stage == 2 ? "optim_grads"
                                                                : "optim_grads_params");
    if (writing.truth("buckets.double_buffer", false))
      writing.put("fsdp_double_buffer", Value::boolean(true));
    writing.put("ckpt_format", "fsdp_dtensor");
  }
  const std::string schedule = writing.word("parallel.schedule");
  const std::int64_t chunks = writing.look_count("parallel.virtual_pipeline", 1);
  if (!schedule.empty() && writing.look_count("parallel.pipeline", 1) > 1 &&
      schedule != (chunks > 1 ? "interleaved" : "1f1b"))
    writing.refuse("parallel.schedule", fmt::format("Megatron-LM has no order {}", schedule),
                   "1f1b, and interleaved with virtual_pipeline");
  const std::string vocabulary = writing.word("parallel.vocabulary");
  if (!vocabulary.empty() && vocabulary != "stage-ends")
    writing.refuse("parallel.vocabulary",
                   "Megatron-LM keeps the vocabulary on the first and last stage",
                   "its fork sail-sg/VocabularyParallelism divides it");
  write_megatron_precision(writing);
  write_recompute(writing);
  write_megatron_graphs(writing);
  write_clip(writing, "clip_grad");
  const Value* both = writing.take("training.dropout");
  if (both != nullptr && both->is_number()) {
    writing.put("hidden_dropout", *both);
    writing.put("attention_dropout", *both);
  } else if (writing.look("training.hidden_dropout") == nullptr) {
    // Absent is 0.1 there, and as the model's config says here.
    const Value config = model_config(writing.run());
    const auto said = [&](std::initializer_list<const char*> names, double otherwise) {
      if (config.is_table())
        for (const char* name : names)
          if (const Value* value = config.find(name); value != nullptr && value->is_number())
            return value->as_number();
      return otherwise;
    };
    const Value* type = config.is_table() ? config.find("model_type") : nullptr;
    const double usual = type != nullptr && word_of(*type) == "gpt2" ? 0.1 : 0.0;
    writing.put("hidden_dropout", Value::number(said({"resid_pdrop", "hidden_dropout"}, usual)));
    writing.put("attention_dropout",
                Value::number(said({"attn_pdrop", "attention_dropout"}, usual)));
  }
  writing.take("training.optimizer_form");
  writing.take("training.method");
  writing.fill_in("tokenizer_type", Value::string("NullTokenizer"), {"tokenizer_model"});
  // A tokenizer that another format named is one of the hub.
  writing.fill_in("tokenizer_type", Value::string("HuggingFaceTokenizer"));
  writing.fill_in("mock_data", Value::boolean(true),
                  {"data_path", "data_args_path", "train_data_path", "per_split_data_args_path"});
  writing.fill_in("train_iters", Value::integer(10), {"train_samples"});
  // Without a default since core_v0.19, and pretrain_gpt.py divides by it.
  writing.fill_in("eval_interval", Value::integer(1000));
  writing.fill_in("lr", Value::string("1.0e-4"));
}

}  // namespace steelyard
