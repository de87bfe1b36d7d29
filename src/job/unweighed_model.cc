#include "job/unweighed_model.h"

#include <algorithm>
#include <array>

namespace steelyard {
namespace {

// Parallelism, losses, kernels and compilers that know one stack of text alone.
bool asks_for_one_stack(const Job& job) {
  return job.implementation != Implementation::kTransformers || job.parallel.tensor > 1 ||
         job.parallel.context > 1 || job.parallel.pipeline > 1 ||
         job.training.loss != LossKernel::kPlain || job.training.kernels != KernelLibrary::kOwn ||
         job.training.compile;
}

bool asks_for_one_backward(const Job& job) {
  const RecomputeMode mode = job.recompute.mode;
  return job.training.optimizer_in_backward || job.recompute.reentrant ||
         job.offload.activations != OffloadTarget::kNone ||
         (mode != RecomputeMode::kNone && mode != RecomputeMode::kFull);
}

bool has_scalar(const std::vector<ParameterTensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const ParameterTensor& tensor) { return tensor.shape.empty(); });
}

bool any_gradient(const Layer& layer) {
  return std::any_of(layer.parameters.begin(), layer.parameters.end(),
                     [](const ParameterTensor& tensor) { return tensor.gradient; });
}

bool is_gated_delta(const Layer& layer) {
  return std::holds_alternative<GatedDelta>(layer.attention);
}

constexpr std::array kRows = {
    UnweighedModel{KeyId::kModel,
                   [](const Job& job) {
                     return std::any_of(job.model->kinds.begin(), job.model->kinds.end(),
                                        is_gated_delta) &&
                            (job.implementation != Implementation::kTransformers ||
                             job.parallel.tensor > 1 || job.parallel.context > 1 ||
                             job.training.kernels != KernelLibrary::kOwn || job.training.compile);
                   },
                   "layers of the gated delta rule here",
                   "transformers' code is weighed, with flash-linear-attention's kernel, without "
                   "tensor and context parallelism, other kernels and compilation"},
    UnweighedModel{
        KeyId::kModel,
        [](const Job& job) {
          return job.model->image && (asks_for_one_stack(job) || job.adapter.has_value());
        },
        "a tower of vision here",
        "transformers' code on data ranks is weighed, whole (ddp) or divided (fsdp1, fsdp2, "
        "deepspeed), without adapters, other kernels and compilation"},
    UnweighedModel{KeyId::kModel,
                   [](const Job& job) {
                     return job.model->image && job.model->image->class_norm &&
                            (job.cluster.devices > 1 || job.engine != Engine::kDdp ||
                             job.trains_in_part());
                   },
                   "a tower with a norm that has no gradient, here",
                   "one device with ddp is weighed; on several, DistributedDataParallel stops at a "
                   "parameter without gradient"},
    UnweighedModel{
        KeyId::kModel,
        [](const Job& job) {
          return follows_encoder(*job.model) &&
                 (asks_for_one_stack(job) || asks_for_one_backward(job) || job.trains_in_part());
        },
        "an encoder and a decoder here",
        "transformers' code on data ranks is weighed, whole (ddp) or divided (fsdp1, fsdp2, "
        "deepspeed), plain or with mode = \"full\", without adapters, frozen parts, other "
        "kernels, compilation and offloaded activations"},
    UnweighedModel{
        KeyId::kModel,
        [](const Job& job) {
          return contrasts(*job.model) &&
                 (asks_for_one_stack(job) || asks_for_one_backward(job) || job.trains_in_part() ||
                  (job.engine != Engine::kDdp && job.engine != Engine::kFsdp2 &&
                   (job.engine != Engine::kDeepSpeed || job.parallel.zero_stage > 2)));
        },
        "two towers that are compared here",
        "transformers' code on data ranks is weighed, whole (ddp) or divided (fsdp2; deepspeed's "
        "stages 1 and 2), plain or with mode = \"full\", without adapters, frozen parts, other "
        "kernels, compilation and "
        "offloaded activations"},
    UnweighedModel{KeyId::kModel,
                   [](const Job& job) {
                     return contrasts(*job.model) && job.engine != Engine::kDdp &&
                            has_scalar(job.model->head_parameters);
                   },
                   "CLIP's logit_scale, divided",
                   "fully_shard (torch 2.11) and DeepSpeed (0.19) stop at a parameter without "
                   "dimensions; engine = \"ddp\" is weighed"},
    UnweighedModel{
        KeyId::kModel,
        [](const Job& job) {
          return reads_patches(*job.model) &&
                 (asks_for_one_stack(job) || asks_for_one_backward(job) ||
                  (job.adapter && is_quantised(job.adapter->linear)) ||
                  (job.engine != Engine::kDdp && job.engine != Engine::kFsdp2));
        },
        "a decoder behind a tower of vision here",
        "transformers' code on data ranks is weighed, whole (ddp) or divided (fsdp2), plain or "
        "with mode = \"full\", trained in whole, with frozen parts or with adapters, without "
        "quantised bases, other kernels, compilation and offloaded activations"},
    UnweighedModel{
        KeyId::kAdapterTargets,
        [](const Job& job) {  // "all-linear" means the projector, too
          return follows_vision(*job.model) && job.adapter &&
                 std::any_of(
                     job.model->kinds.begin(), job.model->kinds.end(),
                     [](const Layer& layer) { return layer.encodes && any_gradient(layer); });
        },
        "adapters within a tower of vision, where PEFT puts them for these names",
        "target_modules = [\"*language_model*q_proj\", \"*language_model*v_proj\"] names the "
        "decoder's alone"},
    UnweighedModel{
        KeyId::kModel,
        [](const Job& job) {
          return follows_vision(*job.model) && has_unread_tensor(*job.model) &&
                 job.cluster.devices > 1 && job.engine == Engine::kDdp;
        },
        "a tower of vision that is trained here, where the decoder reads a layer before the last",
        "DistributedDataParallel stops at parameters without gradient: engine = \"fsdp2\" is "
        "weighed, and frozen = [\"*vision_tower*\"], the usual recipe"},
};

}  // namespace

const UnweighedModel* unweighed_model(const Job& job) {
  if (job.model == nullptr) return nullptr;
  for (const UnweighedModel& row : kRows)
    if (row.asked(job)) return &row;
  return nullptr;
}

}  // namespace steelyard
