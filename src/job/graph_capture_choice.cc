#include "job/graph_capture_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/architecture.h"

namespace steelyard {
namespace {

enum class GraphModule : std::uint8_t { kAttention, kMlp, kRouter };

void choose_captured_modules(Draft& draft) {
  GraphCapture& graphs = draft.job().graphs;
  const Setting* given = draft.settings().find(KeyId::kCudaGraphModules);
  if (given == nullptr || given->several.empty()) return;
  const auto has = [&](GraphModule module) {
    return std::find(given->several.begin(), given->several.end(), static_cast<int>(module)) !=
           given->several.end();
  };
  graphs.attention = has(GraphModule::kAttention);
  graphs.mlp = has(GraphModule::kMlp);
  graphs.router = has(GraphModule::kRouter);
  const Architecture* model = draft.job().model.get();
  if (model == nullptr) return;
  const auto refuse = [&](const char* name, const char* why) {
    draft.refuse(KeyId::kCudaGraphModules, "E228", fmt::format("graphs of {}: there is none", name),
                 why);
  };
  if (graphs.mlp && !some_layer_has<DenseMlp>(*model))
    refuse("mlp", "every layer of the model has experts");
  if (graphs.router && !some_layer_has<ExpertMlp>(*model))
    refuse("router", "the model has no experts");
}

}  // namespace

// What transformer_config.py of Megatron-LM asserts (__post_init__, checks of cuda_graph_scope).
void choose_graphs(Draft& draft) {
  Job& job = draft.job();
  job.graphs.of = static_cast<CudaGraphs>(draft.settings().name(KeyId::kCudaGraphs).value_or(0));
  const bool of_modules = job.graphs.of == CudaGraphs::kModule;
  if (!of_modules && draft.has(KeyId::kCudaGraphModules))
    draft.warn(KeyId::kCudaGraphModules, "E228",
               "cuda_graph_modules is read with cuda_graphs = \"module\" alone", "changes nothing");
  if (job.graphs.of == CudaGraphs::kNone) return;
  if (of_modules) choose_captured_modules(draft);
  if (of_modules && recomputes_layers(job.recompute))
    draft.refuse(KeyId::kCudaGraphs, "E228", "graphs of modules that whole layers run again",
                 "a checkpoint around a captured module cannot replay it",
                 "cuda_graphs = \"iteration\" captures recomputation as well, and selective "
                 "recomputation goes with both");
  if (job.offload.activations != OffloadTarget::kNone)
    draft.refuse(KeyId::kCudaGraphs, "E228", "CUDA graphs with activations on the host",
                 "copies to the host are not captured", "offload.activations = \"none\"");
  draft.assume(
      KeyId::kCudaGraphs,
      std::string(key_of(KeyId::kCudaGraphs).names[static_cast<std::size_t>(job.graphs.of)]),
      "pools of graphs are weighed as the allocator's code has them: no recording holds one");
  if (job.graphs.of == CudaGraphs::kIteration && job.model != nullptr &&
      some_layer_has<ExpertMlp>(*job.model) && !job.experts.capacity_factor)
    draft.assume(KeyId::kCudaGraphs, "iteration",
                 "experts are captured with buffers for evenly spread tokens, by a dispatcher "
                 "that asks the host for no counts (HybridEP)");
}

}  // namespace steelyard
