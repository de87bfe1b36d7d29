#include "job/frozen_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "model/freeze.h"
#include "model/sequence.h"

namespace steelyard {
namespace {

bool any_trained(const std::vector<ParameterTensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const ParameterTensor& tensor) {
    return !tensor.buffer && !tensor.frozen;
  });
}

// Whether each stage of the pipeline has a tensor that is trained.
std::vector<bool> stages_that_train(const Job& job) {
  const Architecture& model = *job.model;
  const std::vector<int> kinds = kind_of_each_layer(model);
  const bool embedding = any_trained(model.embedding_parameters);
  std::vector<bool> train;
  std::size_t layer = 0;
  for (const std::int64_t count : job.parallel.stage_layers) {
    bool any = train.empty() && embedding;
    for (std::int64_t i = 0; i < count && layer < kinds.size(); ++i)
      any |= any_trained(model.kinds[static_cast<std::size_t>(kinds[layer++])].parameters);
    train.push_back(any);
  }
  if (!train.empty() && (any_trained(model.head_parameters) || (model.tied_head && embedding)))
    train.back() = true;
  return train;
}

FreezeTerms terms_of(const Job& job) {
  FreezeTerms terms;
  // Adapters are flat parameters of their own (peft/utils/other.py, fsdp_auto_wrap_policy).
  terms.flat_units = job.engine == Engine::kFsdp1 && !job.adapter;
  // Tensors that Megatron (p2p_communication.py) and DeepSpeed (pipe/engine.py, _exec_recv_activations) receive always
  // require a gradient. torch (pipelining/stage.py, _retrieve_recv_activations) and nanotron (pipeline_parallel/p2p.py)
  // pass on what the sender says.
  if ((job.engine == Engine::kMegatron || job.engine == Engine::kDeepSpeed) &&
      job.parallel.pipeline > 1 && !job.parallel.stage_layers.empty())
    terms.gradient_asked_from = job.parallel.stage_layers.front();
  // gradient_checkpointing_enable(), for all layers or some, makes the embedding's output ask for a gradient, with
  // adapters or without (transformers modeling_utils.py, 5.x). DeepSpeed's pipelines recompute on their own.
  const bool own_pipeline = job.engine == Engine::kDeepSpeed && job.parallel.pipeline > 1;
  terms.gradient_asked_of_embedding = job.implementation == Implementation::kTransformers &&
                                      recomputes_layers(job.recompute) && !own_pipeline;
  return terms;
}

}  // namespace

void choose_frozen(Draft& draft) {
  const Setting* setting = draft.settings().find(KeyId::kFrozen);
  Job& job = draft.job();
  static const std::vector<std::string> kNone;
  const std::vector<std::string>& patterns = setting != nullptr ? setting->texts : kNone;
  if ((patterns.empty() && !job.adapter) || job.model == nullptr) return;
  Frozen frozen = freeze(*job.model, patterns, terms_of(job));
  // A pattern that names nothing is a slip.
  for (const std::string& pattern : frozen.unmatched)
    draft.refuse(KeyId::kFrozen, "E222", fmt::format("no tensor is called \"{}\"", pattern),
                 "needs patterns of whole tensor names",
                 "\"model.embed_tokens.*\" or \"*.mlp.*\"; `*` stands for any letters");
  job.model = frozen.architecture;
  job.training.frozen = patterns;

  const std::vector<bool> train = stages_that_train(job);
  if (std::find(train.begin(), train.end(), true) == train.end()) {
    if (!train.empty())
      draft.refuse(KeyId::kFrozen, "E223", "nothing is left to train",
                   "a loss without a gradient has no backward", "freeze less than everything");
    return;
  }
  if (job.engine != Engine::kDeepSpeed || train.size() == 1) return;
  const bool wraps =
      job.parallel.zero_stage > 0 || bits_of(job.training.precision.parameters) == 16;
  for (std::size_t stage = 0; stage < train.size(); ++stage)
    if (!train[stage] && (stage == 0 || wraps)) {
      draft.refuse(KeyId::kFrozen, "E223",
                   fmt::format("nothing is left to train on pipeline stage {}", stage),
                   stage == 0 ? "deepspeed runs backward on every stage, and this one has none"
                              : "deepspeed's optimizer joins the trained tensors of a stage",
                   "megatron, fsdp2 and nanotron have such stages; pipeline_layout moves layers");
      return;
    }
}

}  // namespace steelyard
