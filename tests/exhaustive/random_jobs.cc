// A run file from dice. Choices follow the rules of the engines, so that nearly every candidate is a job; what
// read_job refuses all the same (a width that tensor ranks cannot share with odd experts ...) is thrown again.
#include "random_jobs.h"

#include <algorithm>
#include <map>
#include <variant>

#include "document/read.h"
#include "job/engine_rules.h"
#include "job/read.h"
#include "job/validate.h"
#include "model/adapt.h"
#include "model/prediction.h"
#include "model/read.h"
#include "schedule/orders.h"

namespace steelyard {
namespace {

struct EngineChoice {
  Engine engine;
  const char* name;
  std::vector<int> stages;
  std::vector<const char*> implementations;
  bool divides;  // tensor and pipeline
};

const EngineChoice& throw_engine(Dice& dice) {
  static const std::vector<EngineChoice> engines = {
      {Engine::kDdp, "ddp", {0, 1}, {"transformers", "torchtitan", "litgpt", "torchtune"}, false},
      {Engine::kFsdp1, "fsdp1", {2, 3}, {"transformers", "torchtitan", "litgpt"}, false},
      {Engine::kFsdp2, "fsdp2", {2, 3}, {"transformers", "torchtitan", "torchtune"}, true},
      {Engine::kDeepSpeed, "deepspeed", {0, 1, 2, 3}, {"transformers", "megatron"}, true},
      {Engine::kMegatron, "megatron", {0, 1, 1, 2, 3}, {"megatron"}, true},
      {Engine::kNanotron, "nanotron", {0, 1}, {"nanotron"}, true},
      {Engine::kScaling, "scaling", {0, 1}, {"scaling"}, true}};
  return engines[static_cast<std::size_t>(
      dice.from(0, static_cast<std::int64_t>(engines.size()) - 1))];
}

class JobWriter {
 public:
  JobWriter(Dice& dice, const Architecture& model)
      : dice_(dice), model_(model), engine_(throw_engine(dice)) {}

  RunFile write(const RunFile& config) {
    RunFile job;
    job["model"] = config;
    job["engine"] = engine_.name;
    layout();
    recipe();
    experts();
    recompute();
    job["cluster"] = cluster_;
    job["training"] = training_;
    job["parallel"] = parallel_;
    if (!recompute_.empty()) job["recompute"] = recompute_;
    if (!experts_.empty()) job["experts"] = experts_;
    if (!implementation_.empty()) job["implementation"] = implementation_;
    if (dice_.chance(30))
      job["checkpoint"]["save"] = dice_.one_of<const char*>({"sharded", "full-rank0"});
    if (dice_.chance(15)) {
      RunFile patterns = RunFile::array();
      const std::int64_t layers = dice_.from(0, model_.layers);
      for (std::int64_t layer = 0; layer < layers; ++layer)
        patterns.push_back(model_.layer_prefix + std::to_string(layer) + ".*");
      if (dice_.chance(70) && !model_.embedding_parameters.empty())
        patterns.push_back(model_.embedding_parameters.front().name);
      if (dice_.chance(30)) patterns.push_back("*mlp*");
      if (dice_.chance(20) && !model_.head_parameters.empty())
        patterns.push_back(model_.head_parameters.front().name);
      if (dice_.chance(10)) patterns.push_back("*");
      if (!patterns.empty()) job["training"]["frozen"] = patterns;
    }
    if (dice_.chance(20)) job["adapter"] = adapter();
    if (dice_.chance(40)) job["training"]["gradient_clip"] = dice_.chance(60);
    if (dice_.chance(20)) job["overlap"]["reduce"] = dice_.chance(50);
    if (engine_.engine == Engine::kDeepSpeed && dice_.chance(50)) {
      job["buckets"]["reduce"] = dice_.one_of<std::int64_t>({1'000'000, 50'000'000, 500'000'000});
      job["buckets"]["persistence"] = dice_.one_of<std::int64_t>({0, 1'000, 100'000, 10'000'000});
      job["buckets"]["sub_group"] =
          dice_.one_of<std::int64_t>({1'000'000, 30'000'000, 1'000'000'000});
    }
    elsewhere(job);
    if (dice_.chance(15))
      job["environment"]["PYTORCH_ALLOC_CONF"] = dice_.one_of<const char*>(
          {"expandable_segments:True", "max_split_size_mb:128", "roundup_power2_divisions:8", ""});
    if (dice_.chance(10))
      job["environment"]["transformers"] =
          dice_.one_of<const char*>({"4.30", "4.36", "4.47", "4.49", "5.17"});
    if (dice_.chance(10))
      job["environment"]["bitsandbytes"] = dice_.one_of<const char*>({"0.42", "0.44", "0.50"});
    if (dice_.chance(10))
      job["environment"]["torch"] = dice_.one_of<const char*>({"2.1", "2.5.1", "2.8", "2.11"});
    if (job["training"]["loss"] == "fused-linear" && dice_.chance(40))
      job["environment"]["liger-kernel"] =
          dice_.one_of<const char*>({"0.6.1", "0.8.0", "0.8.2", "0.8.5"});
    if (engine_.engine == Engine::kMegatron && can_predict(model_) && !job.contains("adapter") &&
        dice_.chance(20))
      job["training"]["prediction_layers"] = dice_.from(0, 3);
    if (engine_.engine == Engine::kMegatron && dice_.chance(30)) {
      job["types"]["gradients"] = dice_.one_of<const char*>({"fp32", "bf16", "fp16"});
    } else if (engine_.engine == Engine::kMegatron && dice_.chance(30) &&
               (!parallel_.contains("zero_stage") || parallel_["zero_stage"] == 0)) {
      job["buckets"]["contiguous_gradients"] = false;
    }
    if (engine_.engine == Engine::kMegatron && dice_.chance(20))
      job["cuda_graphs"] = dice_.one_of<const char*>({"module", "iteration"});
    return job;
  }

 private:
  // What waits on the host, is kept twice, or is stepped at once.
  void elsewhere(RunFile& job) {
    const bool fsdp = engine_.engine == Engine::kFsdp1 || engine_.engine == Engine::kFsdp2;
    const std::int64_t stage =
        parallel_.contains("zero_stage") ? parallel_["zero_stage"].get<std::int64_t>() : 0;
    if (fsdp && dice_.chance(15)) {
      job["offload"]["parameters"] = "cpu";
    } else if (engine_.engine == Engine::kDeepSpeed && stage > 0 && dice_.chance(25)) {
      job["offload"]["optimizer"] = dice_.one_of<const char*>({"cpu", stage == 3 ? "nvme" : "cpu"});
      if (stage == 3 && dice_.chance(50))
        job["offload"]["parameters"] = dice_.one_of<const char*>({"cpu", "nvme"});
    } else if (engine_.engine == Engine::kMegatron && stage == 1 && dice_.chance(40)) {
      if (dice_.chance(50)) {
        job["offload"]["optimizer"] = "cpu";
        job["offload"]["optimizer_fraction"] = dice_.one_of<double>({0.0, 0.3, 0.5, 1.0});
      } else {
        job["training"]["optimizer"] = "adamw";
        job["training"]["precision"] = "bf16-mixed";
        job["types"]["first_moment"] = dice_.one_of<const char*>({"fp32", "bf16", "fp16", "fp8"});
        if (dice_.chance(50))
          job["types"]["second_moment"] = dice_.one_of<const char*>({"fp32", "bf16", "fp8"});
        if (dice_.chance(50)) job["types"]["master"] = "fp32";
      }
    }
    if (job.contains("offload") && dice_.chance(20)) job["offload"]["pinned"] = false;
    if (engine_.engine == Engine::kDeepSpeed && stage == 3 && dice_.chance(25))
      job["parallel"][dice_.one_of<const char*>({"secondary_shard", "shard_group"})] =
          dice_.one_of<std::int64_t>({1, 2, 4});
    if (!engine_.divides && dice_.chance(10)) job["offload"]["activations"] = "cpu";
    if (engine_.engine == Engine::kDdp && cluster_["devices"] == 1 && dice_.chance(20)) {
      job["training"]["optimizer_in_backward"] = true;
      job["training"]["gradient_accumulation"] = 1;
      job["training"]["gradient_clip"] = false;
    }
    if (can_choose_operators(job) && dice_.chance(12))
      job["recompute"] = RunFile{{"mode", "operators"}};
  }
  // Where recomputation is weighed operator by operator.
  bool can_choose_operators(const RunFile& job) const {
    const std::string code =
        implementation_.empty() ? engine_.implementations.front() : implementation_;
    const bool dense = std::none_of(
        model_.kinds.begin(), model_.kinds.end(),
        [](const Layer& layer) { return std::holds_alternative<ExpertMlp>(layer.mlp); });
    return dense && tensor_ == 1 && pipeline_ == 1 && context_ == 1 &&
           (code == "transformers" || code == "torchtitan") && !job.contains("adapter") &&
           !(job.contains("offload") && job["offload"].contains("activations"));
  }
  void layout() {
    std::int64_t tensor = 1, pipeline = 1;
    // A few throws: most numbers of ranks do not divide most models.
    for (int throws = engine_.divides ? 3 : 0; throws > 0 && tensor == 1; --throws) {
      const std::int64_t wanted = dice_.one_of<std::int64_t>({1, 2, 2, 3, 4, 4, 5, 8});
      if (tensor_fault(model_, engine_.engine, wanted).empty()) tensor = wanted;
    }
    if (engine_.divides && dice_.chance(45)) {
      pipeline = dice_.from(2, 4);
      if (pipeline > model_.layers) pipeline = 1;
      if (pipeline > 1 && dice_.chance(60)) order(pipeline);
      const bool even = model_.layers % (pipeline * chunks_) == 0;
      if (pipeline > 1 &&
          (dice_.chance(25) || chunks_ > 1 || (engine_.engine == Engine::kMegatron && !even)))
        parallel_["pipeline_layout"] = uneven_stages(two_ways_ ? pipeline : pipeline * chunks_);
    }
    std::int64_t data = dice_.one_of<std::int64_t>({1, 1, 2, 2, 3, 4, 7, 8, 16, 64});
    if (dice_.chance(50) || data == 1) parallel_["data"] = data;
    if (tensor > 1) parallel_["tensor"] = tensor;
    if (tensor > 1 && dice_.chance(50)) parallel_["sequence_parallel"] = dice_.chance(60);
    if (pipeline > 1) {
      parallel_["pipeline"] = pipeline;
    }
    int stage = dice_.one_of(engine_.stages);
    if (engine_.engine == Engine::kDeepSpeed && pipeline > 1) stage = std::min(stage, 1);
    if (dice_.chance(80) || engine_.engine == Engine::kDeepSpeed) parallel_["zero_stage"] = stage;
    const bool fsdp = engine_.engine == Engine::kFsdp1 || engine_.engine == Engine::kFsdp2;
    if (fsdp && data % 2 == 0 && dice_.chance(20)) parallel_["replicate"] = 2;
    cluster_["device"] = dice_.one_of<const char*>(
        {"h100-sxm-80gb", "a100-sxm-40gb", "b200", "mi300x", "rtx-4090", "l40s"});
    divide_sequence();
    cluster_["devices"] = data * tensor * pipeline * context_;
    tensor_ = tensor;
    pipeline_ = pipeline;
  }

  // An order that the engine runs, and the number of chunks that it has.
  void order(std::int64_t pipeline) {
    const EngineRules& rules = rules_of(engine_.engine);
    // Half of them plain, which every engine has.
    const std::int64_t row = dice_.from(0, dice_.chance(50) ? 1 : kPipelineSchedules - 1);
    const PipelineOrder& order = pipeline_orders()[static_cast<std::size_t>(row)];
    if (((rules.orders | rules.borrowed) & bit_of(order.schedule)) == 0) return;
    two_ways_ = order.placement == Placement::kTwoWays;
    if (two_ways_ && pipeline % 2 != 0) {
      two_ways_ = false;
      return;
    }
    parallel_["schedule"] = std::string(order.name);
    if (engine_.name == std::string_view("megatron") && dice_.from(0, 3) == 0)
      parallel_["scattered_transfers"] = true;
    chunks_ = order.most_chunks == 0 ? dice_.from(order.fewest_chunks, 3) : order.most_chunks;
    if (chunks_ > 1) parallel_["virtual_pipeline"] = chunks_;
    // Some orders take micro-batches in groups of the ranks, or need some rounds of them.
    if (chunks_ > 1 || order.most_chunks != 1)
      rounds_ = two_ways_ || chunks_ > 1 ? 2 * pipeline : pipeline;
  }

  // Methods that the engine has; heads may forbid one.
  void divide_sequence() {
    std::vector<const char*> methods;
    if (engine_.engine == Engine::kFsdp2) methods = {"ring", "allgather", "all-to-all"};
    if (engine_.engine == Engine::kDeepSpeed) methods = {"ulysses"};
    if (engine_.engine == Engine::kMegatron)
      methods = {"ring", "allgather", "ulysses", "all-to-all", "ring+ulysses"};
    if (methods.empty() || !dice_.chance(30)) return;
    context_ = dice_.one_of<std::int64_t>({2, 2, 3, 4, 4, 8});
    parallel_["context"] = context_;
    if (dice_.chance(70)) {
      const std::string method = dice_.one_of(methods);
      parallel_["context_method"] = method;
      if (method == "ring+ulysses") parallel_["context_inner"] = 2;
    }
  }

  // Who can divide experts, and how tokens come to them.
  void experts() {
    const bool some = std::any_of(model_.kinds.begin(), model_.kinds.end(), [](const Layer& layer) {
      return std::holds_alternative<ExpertMlp>(layer.mlp);
    });
    const bool megatron = engine_.engine == Engine::kMegatron;
    if (!some || !(megatron || engine_.engine == Engine::kFsdp2)) return;
    if (megatron) parallel_.erase("sequence_parallel");
    if (dice_.chance(60)) {
      parallel_["expert"] = dice_.one_of<std::int64_t>({2, 2, 4, 8});
      if (megatron && dice_.chance(50))
        parallel_["expert_tensor"] = dice_.one_of<std::int64_t>({1, 1, tensor_});
      if (!megatron) implementation_ = "torchtitan";
      if (dice_.chance(30)) experts_["imbalance"] = dice_.one_of<double>({1.0, 1.25, 1.9});
      if (dice_.chance(10)) experts_["imbalance"] = "worst";
    }
    if (!megatron) return;
    if (dice_.chance(60))
      experts_["dispatcher"] = dice_.one_of<const char*>({"all-to-all", "allgather"});
    if (dice_.chance(20)) {
      experts_["dispatcher"] = "all-to-all";
      experts_["capacity_factor"] = dice_.one_of<double>({0.8, 1.0, 1.25});
      if (dice_.chance(50)) experts_["pad_to_capacity"] = true;
    }
  }

  // Stages and chunks without a layer are stages too.
  RunFile uneven_stages(std::int64_t pipeline) {
    const std::int64_t least = dice_.chance(80) && model_.layers >= pipeline ? 1 : 0;
    std::vector<std::int64_t> stages(static_cast<std::size_t>(pipeline), least);
    for (std::int64_t left = model_.layers - least * pipeline; left > 0; --left)
      ++stages[static_cast<std::size_t>(dice_.from(0, pipeline - 1))];
    return stages;
  }

  void recipe() {
    std::int64_t sequence =
        dice_.one_of<std::int64_t>({1, 7, 64, 100, 128, 500, 1'000, 2'048, 4'096, 8'192, 32'768});
    if (model_.learned_positions) sequence = std::min(sequence, model_.maximum_positions);
    // Sequence parallelism divides it, and context parallelism into two chunks for each rank.
    const std::int64_t part = tensor_ * (context_ > 1 ? 2 * context_ : 1);
    sequence = std::max<std::int64_t>(1, sequence / part) * part;
    training_["sequence_length"] = sequence;
    training_["micro_batch"] = dice_.one_of<std::int64_t>({1, 1, 2, 3, 4, 8});
    training_["gradient_accumulation"] = rounds_ > 1 ? rounds_ * dice_.from(1, 2)
                                         : pipeline_ > 1
                                             ? dice_.from(1, 8)
                                             : dice_.one_of<std::int64_t>({1, 1, 2, 3, 4});
    std::string precision = dice_.one_of<const char*>(
        {"fp32", "tf32", "fp16-mixed", "bf16-mixed", "bf16-mixed", "bf16-mixed-fp32-gradients",
         "bf16-pure", "bf16-autocast", "bf16-autocast", "fp8-nanotron"});
    if (engine_.engine == Engine::kScaling && precision != "fp32" && precision != "fp16-mixed")
      precision = "bf16-mixed";
    training_["precision"] = precision;
    if (engine_.engine == Engine::kMegatron && dice_.chance(15))
      training_["precision"] =
          dice_.one_of<const char*>({"fp8-delayed", "fp8-tensorwise", "fp8-blockwise", "mxfp8"});
    if (engine_.engine == Engine::kFsdp2 && tensor_ == 1 && dice_.chance(10))
      training_["precision"] = dice_.one_of<const char*>({"fp8-tensorwise", "fp8-rowwise"});
    static const std::vector<const char*> optimizers = {
        "sgd",       "momentum",   "adam",        "adamw",
        "adamw",     "adamw-8bit", "adamw-paged", "adamw-paged-8bit",
        "adafactor", "lion",       "lion-8bit",   "muon",
        "shampoo",   "soap",       "galore",      "adam-mini",
        "sophia",    "apollo",     "lomo"};
    const std::string optimizer = dice_.one_of(optimizers);
    training_["optimizer"] = optimizer;
    const Optimizer* known = find_optimizer(optimizer);
    if (known != nullptr && known->only_form.empty() && dice_.chance(60))
      training_["optimizer_form"] = dice_.one_of<const char*>({"fused", "foreach", "loop"});
    choose_implementation();
    const bool single = precision == "fp32" || precision == "tf32";
    if (context_ > 1) {
      training_["attention"] = single ? "efficient" : "flash";
    } else if (dice_.chance(70) && !eager_only()) {
      training_["attention"] =
          single ? dice_.one_of<const char*>({"eager", "efficient"})
                 : dice_.one_of<const char*>({"eager", "efficient", "flash", "flash"});
    }
    const std::string code =
        implementation_.empty() ? engine_.implementations.front() : implementation_;
    const bool of_torch = code == "transformers" || code == "torchtitan";
    training_["loss"] = dice_.one_of<const char*>(
        {"plain", "plain", "chunked", "fused-linear", of_torch ? "fused" : "plain"});
    if (training_["loss"] == "chunked" && dice_.chance(50))
      training_["loss_chunks"] = dice_.from(1, 12);
    if (code == "transformers" && dice_.chance(20)) training_["kernels"] = "liger";
    if (code == "scaling" && dice_.chance(50))
      training_["kernels"] = dice_.one_of<const char*>({"flash-attn", "megatron"});
    if (of_torch && precision != "bf16-autocast" && dice_.chance(15)) training_["compile"] = true;
    if (code == "megatron" && dice_.chance(20)) training_["loss_parallel"] = false;
    if (dice_.chance(20)) training_["hidden_dropout"] = dice_.chance(50) ? 0.1 : 0.0;
    if (dice_.chance(20)) training_["attention_dropout"] = dice_.chance(50) ? 0.1 : 0.0;
    if (dice_.chance(20)) training_["gradient_clip"] = 1.0;
    if (dice_.chance(20)) training_["vocabulary_multiple"] = dice_.one_of<int>({1, 64, 128});
  }

  // transformers has no fused attention for some models; which code runs decides.
  bool eager_only() const {
    if (!implementation_.empty() && implementation_ != "transformers") return false;
    return std::any_of(model_.kinds.begin(), model_.kinds.end(), [](const Layer& layer) {
      const auto* grouped = std::get_if<GroupedAttention>(&layer.attention);
      return grouped != nullptr && grouped->eager_only;
    });
  }

  // Adapters on all or some linear modules, over bases of 16, 8 and 4 bits.
  RunFile adapter() {
    RunFile adapter = RunFile::object();
    if (dice_.chance(70)) adapter["rank"] = dice_.one_of<std::int64_t>({1, 8, 16, 63, 256});
    if (dice_.chance(40)) adapter["method"] = dice_.one_of<const char*>({"lora", "dora"});
    if (dice_.chance(50)) adapter["base"] = dice_.one_of<const char*>({"bf16", "int8", "nf4"});
    if (adapter.contains("base") && adapter["base"] == "nf4")
      adapter["double_quantization"] = dice_.chance(50);
    if (dice_.chance(30)) adapter["upcast"] = dice_.chance(30);
    if (dice_.chance(30)) adapter["dropout"] = 0.05;
    if (dice_.chance(30)) adapter["type"] = dice_.one_of<const char*>({"fp32", "bf16"});
    if (dice_.chance(50)) {
      RunFile targets = RunFile::array();
      for (const std::string& module : adaptable_modules(model_))
        if (dice_.chance(40)) targets.push_back(module);
      if (!targets.empty()) adapter["target_modules"] = targets;
    }
    return adapter;
  }

  void choose_implementation() {
    if (dice_.chance(50)) implementation_ = dice_.one_of(engine_.implementations);
  }

  void recompute() {
    const int choice = static_cast<int>(dice_.from(0, 7));
    if (choice >= 6) return;
    const std::vector<const char*> modes = {"none",  "selective", "full",
                                            "every", "block",     "modules"};
    recompute_["mode"] = modes[static_cast<std::size_t>(choice)];
    if (choice == 3) recompute_["every"] = dice_.from(1, model_.layers);
    if (choice == 4)
      recompute_["layers"] = dice_.from(1, (model_.layers + pipeline_ - 1) / pipeline_);
    if (choice == 4 && dice_.chance(30)) recompute_["method"] = "block";
    if (choice == 5) recompute_["modules"] = some_modules();
    if (dice_.chance(30)) recompute_["reentrant"] = dice_.chance(50);
  }

  RunFile some_modules() {
    std::vector<const char*> names = {"core_attention", "norms"};
    bool dense = false, experts = false, shared = false, latent = false;
    for (const Layer& layer : model_.kinds) {
      dense |= std::holds_alternative<DenseMlp>(layer.mlp);
      latent |= std::holds_alternative<LatentAttention>(layer.attention);
      if (const auto* mlp = std::get_if<ExpertMlp>(&layer.mlp)) {
        experts = true;
        shared |= mlp->shared.has_value();
      }
    }
    if (dense) names.push_back("mlp");
    if (experts) names.insert(names.end(), {"experts", "expert_activation"});
    if (shared) names.push_back("shared_experts");
    if (latent) names.push_back("mla_up_projection");
    RunFile chosen = RunFile::array();
    for (const char* name : names)
      if (dice_.chance(50)) chosen.push_back(name);
    if (chosen.empty()) chosen.push_back(names.front());
    return chosen;
  }

  Dice& dice_;
  const Architecture& model_;
  const EngineChoice& engine_;
  std::int64_t tensor_ = 1, pipeline_ = 1, context_ = 1;
  std::int64_t chunks_ = 1, rounds_ = 1;
  bool two_ways_ = false;
  std::string implementation_;
  RunFile cluster_ = RunFile::object(), training_ = RunFile::object(),
          parallel_ = RunFile::object(), recompute_ = RunFile::object(),
          experts_ = RunFile::object();
};

}  // namespace

RunFile random_job(std::uint64_t seed) {
  Dice dice(seed);
  for (;;) {
    const RunFile config = random_model(dice);
    Diagnostics problems;
    const auto model = read_architecture(*read_json(config.dump(), "model"), "", problems);
    if (!model) continue;
    RunFile job = JobWriter(dice, *model).write(config);
    if (read_job(*read_json(job.dump(), "job"))) return job;
  }
}

}  // namespace steelyard
