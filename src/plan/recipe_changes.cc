#include "plan/recipe_changes.h"

namespace steelyard {
namespace {

using Keys = std::vector<std::pair<KeyId, Value>>;

AllowedChange changed(std::string word, std::string name, const Keys& keys, std::string cost,
                      bool is_way_out = true) {
  AllowedChange allowed{std::move(word), {std::move(name), {}}, std::move(cost), is_way_out};
  for (const auto& [id, value] : keys) allowed.change.keys.emplace_back(key_of(id).path, value);
  return allowed;
}

}  // namespace

const std::vector<AllowedChange>& recipe_changes() {
  const auto word = [](const char* text) { return Value::string(text); };
  static const std::vector<AllowedChange> all = {
      changed("offload", "offload.optimizer = cpu", {{KeyId::kOffloadOptimizer, word("cpu")}},
              "the step waits for the host"),
      changed("offload", "offload.activations = cpu", {{KeyId::kOffloadActivations, word("cpu")}},
              "activations wait on the host"),
      changed("offload", "offload.optimizer + activations = cpu",
              {{KeyId::kOffloadOptimizer, word("cpu")}, {KeyId::kOffloadActivations, word("cpu")}},
              "the step waits for the host, and so do activations"),
      changed("offload", "offload.parameters = cpu", {{KeyId::kOffloadParameters, word("cpu")}},
              "every layer comes from the host", false),
      changed("offload", "offload.optimizer + parameters = cpu",
              {{KeyId::kOffloadOptimizer, word("cpu")}, {KeyId::kOffloadParameters, word("cpu")}},
              "the step waits for the host, and every layer comes from there"),
      changed("offload", "offload.parameters + activations = cpu",
              {{KeyId::kOffloadParameters, word("cpu")}, {KeyId::kOffloadActivations, word("cpu")}},
              "every layer comes from the host, activations wait there", false),
      changed("offload", "offload.optimizer + parameters + activations = cpu",
              {{KeyId::kOffloadOptimizer, word("cpu")},
               {KeyId::kOffloadParameters, word("cpu")},
               {KeyId::kOffloadActivations, word("cpu")}},
              "the device holds what is computed with, and nothing else"),
      changed("cuda-graphs", "cuda_graphs = module", {{KeyId::kCudaGraphs, word("module")}},
              "what graphs of modules hold stays: a few GB", false),
      changed("cuda-graphs", "cuda_graphs = iteration", {{KeyId::kCudaGraphs, word("iteration")}},
              "what a graph holds stays while the optimizer runs, and may be twice as much", false),
      changed("fp8", "precision = fp8-tensorwise", {{KeyId::kPrecision, word("fp8-tensorwise")}},
              "products in 8 bits: accuracy"),
      changed("8-bit-optimizer", "optimizer = adamw-8bit",
              {{KeyId::kOptimizer, word("adamw-8bit")}}, "moments in 8 bits: accuracy"),
      changed("bf16-pure", "precision = bf16-pure", {{KeyId::kPrecision, word("bf16-pure")}},
              "no fp32 master weights: accuracy"),
      changed("", "bf16-pure + adamw-8bit",
              {{KeyId::kPrecision, word("bf16-pure")}, {KeyId::kOptimizer, word("adamw-8bit")}},
              "both: accuracy"),
      changed("", "adapter lora, rank 16",
              {{KeyId::kAdapterMethod, word("lora")}, {KeyId::kAdapterRank, Value::integer(16)}},
              "fine-tunes adapters only"),
      changed("", "adapter lora on a 4-bit base",
              {{KeyId::kAdapterMethod, word("lora")},
               {KeyId::kAdapterRank, Value::integer(16)},
               {KeyId::kAdapterBase, word("nf4")}},
              "QLoRA: adapters only, the base in 4 bits")};
  return all;
}

}  // namespace steelyard
