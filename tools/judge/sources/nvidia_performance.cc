// NVIDIA's performance pages of NeMo and Megatron-Bridge: tokens a second of Hopper and Blackwell, of dense models and of
// experts whose tokens are spread evenly. Speeds alone; what a recipe recomputes is not printed.
#include <algorithm>
#include <array>

#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

struct PrintedModel {
  std::string_view printed, preset;
  std::int64_t layers;
};
constexpr std::array kModels = {
    PrintedModel{"GPT OSS 120B", "gpt-oss-120b", 36},
    PrintedModel{"Qwen3_235B_a22B", "qwen3-235b-a22b", 94},
    PrintedModel{"Qwen3_30B_a3B", "qwen3-30b-a3b", 48},
    PrintedModel{"Kimi_K2", "kimi-k2", 61},
    PrintedModel{"DeepSeekV3", "deepseek-v3", 61},
    PrintedModel{"LLAMA2-7B", "llama-2-7b", 32},
    PrintedModel{"LLAMA2-70B", "llama-2-70b", 80},
    PrintedModel{"LLAMA3-70B", "llama-3-70b", 80},
};
// The machines of a rack share one NVLink: 72 devices, of which runs take 64.
constexpr std::int64_t kRack = 64, kMachine = 8;

// What the recipe of a row sets and its table does not print: those whose experts' exchanges run beside another micro-batch
// (moe_a2a_overlap), those that compute modules again (recompute_modules), and what CUDA graphs replay (cuda_graph_impl,
// cuda_graph_scope). NVIDIA-NeMo/Megatron-Bridge
// scripts/performance/configs, *workload_base_configs.py; its v0.2.0 is the container 25.11, v0.3 26.02, v0.4 26.04, v0.5
// 26.06, v0.6 26.08 (src/megatron/bridge/perf_recipes).
struct Recipe {
  std::string_view model, device, precision;  // precision: empty for all
  std::string_view from, until;               // releases
};
constexpr std::array kOverlapping = {
    Recipe{"qwen3-235b-a22b", "DGX-H100", "", "25.11", "26.04.01"},
    Recipe{"qwen3-235b-a22b", "DGX-B200", "", "25.11", "25.11"},
    Recipe{"qwen3-235b-a22b", "DGX-B300", "", "26.02", "26.02.01"},
    Recipe{"qwen3-235b-a22b", "DGX-GB300", "mxfp8", "26.06", "26.08"},
    Recipe{"qwen3-235b-a22b", "DGX-GB200", "mxfp8", "26.06", "26.08"},
    Recipe{"qwen3-30b-a3b", "DGX-H100", "", "25.11", "26.02"},
    Recipe{"qwen3-30b-a3b", "DGX-GB300", "mxfp8", "26.06", "26.08"},
    Recipe{"qwen3-30b-a3b", "DGX-GB200", "mxfp8", "26.06", "26.08"},
    Recipe{"qwen3-30b-a3b", "DGX-B300", "mxfp8", "26.06", "26.08"},
    Recipe{"gpt-oss-120b", "DGX-GB300", "mxfp8", "26.06", "26.08"},
    Recipe{"gpt-oss-120b", "DGX-GB200", "", "26.04", "26.08"},
    Recipe{"deepseek-v3", "DGX-H100", "", "25.11", "25.11"},
    Recipe{"deepseek-v3", "DGX-GB300", "mxfp8", "26.06", "26.08"},
    Recipe{"deepseek-v3", "DGX-GB200", "mxfp8", "26.06", "26.08"},
    Recipe{"deepseek-v3", "DGX-B200", "mxfp8", "26.04.01", "26.06"},
};
// Norms and the experts' activation; 8-bit products beside modules that run again are not weighed.
constexpr std::array kRecomputing = {
    Recipe{"gpt-oss-120b", "DGX-GB200", "bf16-mixed", "25.11", "26.08"},
    Recipe{"gpt-oss-120b", "DGX-B200", "bf16-mixed", "25.11", "26.08"},
    Recipe{"gpt-oss-120b", "DGX-H100", "bf16-mixed", "25.11", "26.08"},
};

// Attention, router and what stands before the experts' exchange.
constexpr std::array kGraphed = {
    Recipe{"qwen3-235b-a22b", "DGX-GB200", "", "25.11", "26.04.01"},
    Recipe{"qwen3-235b-a22b", "DGX-GB200", "bf16-mixed", "26.06", "26.08"},
    Recipe{"qwen3-235b-a22b", "DGX-GB300", "", "26.02", "26.04.01"},
    Recipe{"qwen3-235b-a22b", "DGX-GB300", "bf16-mixed", "26.06", "26.08"},
    Recipe{"qwen3-30b-a3b", "DGX-GB200", "bf16-mixed", "25.11", "26.08"},
    Recipe{"qwen3-30b-a3b", "DGX-B200", "", "26.04", "26.08"},
    Recipe{"gpt-oss-120b", "DGX-GB300", "bf16-mixed", "25.11", "26.08"},
    Recipe{"gpt-oss-120b", "DGX-B300", "", "26.02", "26.08"},
    Recipe{"deepseek-v3", "DGX-GB200", "", "26.02", "26.04.01"},
    Recipe{"deepseek-v3", "DGX-GB200", "bf16-mixed", "26.06", "26.08"},
    Recipe{"deepseek-v3", "DGX-GB300", "", "25.11", "25.11"},
    Recipe{"deepseek-v3", "DGX-GB300", "bf16-mixed", "26.02", "26.08"},
};
// Without attention.
constexpr std::array kRouterGraphed = {
    Recipe{"qwen3-235b-a22b", "DGX-GB300", "", "25.11", "25.11"},
    Recipe{"qwen3-30b-a3b", "DGX-GB200", "mxfp8", "25.11", "26.04.01"},
    Recipe{"qwen3-30b-a3b", "DGX-GB300", "", "25.11", "26.04.01"},
    Recipe{"qwen3-30b-a3b", "DGX-GB300", "bf16-mixed", "26.06", "26.08"},
    Recipe{"qwen3-30b-a3b", "DGX-B300", "", "26.02", "26.04.01"},
    Recipe{"qwen3-30b-a3b", "DGX-B300", "bf16-mixed", "26.06", "26.08"},
    Recipe{"qwen3-30b-a3b", "DGX-B200", "", "25.11", "26.02.01"},
    Recipe{"qwen3-30b-a3b", "DGX-H100", "bf16-mixed", "25.11", "26.08"},
    Recipe{"deepseek-v3", "DGX-GB200", "", "25.11", "25.11"},
    Recipe{"kimi-k2", "DGX-GB200", "", "26.04", "26.08"},
};
// Forward and backward of all micro-batches.
constexpr std::array kReplayed = {
    Recipe{"qwen3-235b-a22b", "DGX-GB200", "mxfp8", "26.06", "26.08"},
    Recipe{"qwen3-235b-a22b", "DGX-GB300", "mxfp8", "26.06", "26.08"},
    Recipe{"qwen3-30b-a3b", "DGX-GB200", "mxfp8", "26.06", "26.08"},
    Recipe{"qwen3-30b-a3b", "DGX-GB300", "mxfp8", "26.06", "26.08"},
    Recipe{"qwen3-30b-a3b", "DGX-B300", "mxfp8", "26.06", "26.08"},
    Recipe{"gpt-oss-120b", "DGX-GB200", "mxfp8", "26.06", "26.08"},
    Recipe{"gpt-oss-120b", "DGX-GB300", "mxfp8", "26.06", "26.08"},
    Recipe{"deepseek-v3", "DGX-GB200", "mxfp8", "26.06", "26.08"},
    Recipe{"deepseek-v3", "DGX-GB300", "mxfp8", "26.06", "26.08"},
};

template <std::size_t N>
bool is_among(const std::array<Recipe, N>& recipes, const MeasuredRow& row, std::string_view model,
              std::string_view precision) {
  const std::string device = row.text("hardware.gpu"), version = row.text("framework.version");
  const std::string_view release = std::string_view(version).substr(0, version.find(' '));
  return std::any_of(recipes.begin(), recipes.end(), [&](const Recipe& recipe) {
    return recipe.model == model && recipe.device == device &&
           (recipe.precision.empty() || recipe.precision == precision) && recipe.from <= release &&
           release <= recipe.until;
  });
}

const PrintedModel* model_of(const MeasuredRow& row) {
  for (const PrintedModel& model : kModels)
    if (row.text("model.name").starts_with(model.printed)) return &model;
  return nullptr;
}

std::optional<std::string> precision_of(const MeasuredRow& row) {
  if (row.says("train.precision", "BF16")) return "bf16-mixed";
  if (row.says("train.precision", "MXFP8") || row.says("train.precision", "FP8-MX")) return "mxfp8";
  if (row.says("train.precision", "NVFP4")) return std::nullopt;
  return row.says("framework.name", "24.12") ? "fp8-delayed" : "fp8-tensorwise";
}

Mapped map(MeasuredRow& row) {
  const PrintedModel* model = model_of(row);
  if (model == nullptr)
    return left_out("a model that no preset of ours is: " + row.text("model.name"));
  if (row.says("model.name", "tokendrop")) return left_out("drops tokens of full experts");
  if (row.says("model.name", "LoRA") || row.id().find("LoRA") != std::string::npos)
    return left_out("adapters with tensor and pipeline parallelism");
  const auto precision = precision_of(row);
  if (!precision) return left_out("NVFP4");
  if (row.says("framework.version", "26.06.01") && model->preset == "gpt-oss-120b")
    return left_out_as_disagreeing(
        "its page says that the run suffers from a known fault of cuDNN");
  MappedRun mapped;
  mapped.set("model", std::string(model->preset));
  mapped.set("engine", "megatron");
  const bool rack = row.says("hardware.gpu", "GB");
  if (row.text("hardware.gpu").empty()) {
    const std::int64_t devices = row.need("hardware.gpus");
    mapped.set("cluster.device", "h100-sxm-80gb");
    mapped.infer("cluster.device h100-sxm-80gb", "not printed; its speeds in FP8 are Hopper's");
    mapped.set("cluster.devices", devices);
    mapped.set("cluster.devices_per_node", std::min(devices, kMachine));
  } else {
    map_cluster(row, mapped, rack ? kRack : kMachine);
  }
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.global_batch", row.need("train.global_batch"));
  mapped.set("training.precision", *precision);
  mapped.assume("training.optimizer", "adamw", "not printed");
  const bool again = is_among(kRecomputing, row, model->preset, *precision);
  mapped.assume("recompute.mode", again ? "modules" : "none",
                again ? "as in its recipe, recompute_modules" : "not printed");
  if (again)
    mapped.set("recompute.modules",
               Value::array({Value::string("norms"), Value::string("expert_activation")}));
  if (is_among(kReplayed, row, model->preset, *precision)) {
    mapped.assume("cuda_graphs", "iteration", "as in its recipe, cuda_graph_impl");
  } else if (is_among(kGraphed, row, model->preset, *precision)) {
    mapped.assume("cuda_graphs", "module", "as in its recipe, cuda_graph_scope");
  } else if (is_among(kRouterGraphed, row, model->preset, *precision)) {
    mapped.assume("cuda_graphs", "module", "as in its recipe, cuda_graph_scope");
    mapped.set("cuda_graph_modules", Value::array({Value::string("router")}));
  }
  if (row.id().substr(0, 5) == "nemo-")
    mapped.assume("types.gradients", "bf16", "its recipes unset grad_reduce_in_fp32");
  mapped.assume("parallel.zero_stage", 1, "the distributed optimizer, as in its recipes");
  mapped.set("parallel.tensor", row.count("parallel.tp").value_or(1));
  mapped.set("parallel.context", row.count("parallel.cp").value_or(1));
  const std::int64_t stages = row.count("parallel.pp").value_or(1);
  const std::int64_t chunks = stages > 1 ? row.count("parallel.vpp").value_or(1) : 1;
  mapped.assume_switch("overlap.reduce", true, "its recipes set overlap_grad_reduce");
  mapped.assume_switch("overlap.gather", true, "its recipes set overlap_param_gather");
  if (row.count("parallel.tp").value_or(1) > 1)
    mapped.assume_switch("overlap.tensor", true, "its recipes set tp_comm_overlap");
  if (const auto experts = row.count("parallel.ep")) {
    mapped.set("parallel.expert", *experts);
    mapped.assume("parallel.expert_tensor", 1, "as in its recipes");
    mapped.assume("experts.dispatcher", "all-to-all",
                  "its recipes set it, or a flexible one (DeepEP)");
    if (is_among(kOverlapping, row, model->preset, *precision) && (stages == 1 || chunks > 1))
      mapped.assume_switch("overlap.expert", true, "its recipe sets moe_a2a_overlap");
  }
  if (!map_stages(model->layers, stages, chunks, mapped))
    return left_out("its layers of each stage are not printed");
  if (!row.complete()) return left_out(row.missing());
  map_outcome(row, mapped);
  map_time(row, mapped);
  mapped.timed_apart = row.count("parallel.ep") ? "experts" : "dense";
  return mapped;
}

bool owns(const MeasuredRow& row) {
  return row.id().substr(0, 5) == "nemo-" || row.id().substr(0, 9) == "nemo2412-";
}

}  // namespace

constinit const RowSource kNvidiaPerformance = {
    "nvidia-performance", "NeMo and Megatron-Bridge on Hopper and Blackwell: speeds", owns, map};

}  // namespace steelyard
