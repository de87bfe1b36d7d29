// What waits beside the device: which engine can send what there, and what it sends along.
#include <fmt/format.h>

#include <string>

#include "job/retention_choice.h"

namespace steelyard {
namespace {

OffloadTarget target(const Draft& draft, KeyId id) {
  return static_cast<OffloadTarget>(draft.settings().name(id).value_or(0));
}

// FSDP's policies take parameters, gradients and optimizer together.
void offload_with_fsdp(Draft& draft) {
  Job& job = draft.job();
  Offload& offload = job.offload;
  const bool optimizer = offload.optimizer != OffloadTarget::kNone;
  const bool parameters = offload.parameters != OffloadTarget::kNone;
  if (!optimizer && !parameters) return;
  if (offload.optimizer == OffloadTarget::kNvme || offload.parameters == OffloadTarget::kNvme) {
    draft.refuse(parameters ? KeyId::kOffloadParameters : KeyId::kOffloadOptimizer, "E213",
                 fmt::format("{} offloads to the host, not to NVMe", name_of(job.engine)),
                 "NVMe is for deepspeed with zero_stage 3", "cpu");
    return;
  }
  if (is_unsharded_fsdp2(job)) {
    draft.refuse(KeyId::kOffloadParameters, "E213", "offload of shards on one data rank",
                 "with one data rank nothing is sharded", "data = 2, or engine = \"deepspeed\"");
    return;
  }
  const std::string reason = "the policy takes parameters, gradients and optimizer together";
  if (!parameters && draft.has(KeyId::kOffloadParameters))
    draft.refuse(
        KeyId::kOffloadParameters, "E213",
        fmt::format("{} offloads the optimizer only with the parameters", name_of(job.engine)),
        reason, "offload.parameters = \"cpu\"");
  else if (!parameters)
    draft.assume(KeyId::kOffloadParameters, "cpu", reason);
  if (!optimizer) draft.assume(KeyId::kOffloadOptimizer, "cpu", reason);
  offload.parameters = offload.optimizer = OffloadTarget::kCpu;
}

void offload_with_deepspeed(Draft& draft) {
  Job& job = draft.job();
  const Offload& offload = job.offload;
  const int stage = job.parallel.zero_stage;
  if (offload.optimizer != OffloadTarget::kNone && stage == 0)
    draft.refuse(KeyId::kOffloadOptimizer, "E213", "deepspeed offloads what ZeRO divides",
                 "needs zero_stage 1, 2 or 3", "zero_stage = 2");
  if (offload.optimizer == OffloadTarget::kNvme && stage != 3)
    draft.refuse(KeyId::kOffloadOptimizer, "E213", "NVMe is for zero_stage 3",
                 fmt::format("zero_stage is {}", stage), "zero_stage = 3, or cpu");
  if (offload.parameters != OffloadTarget::kNone && stage != 3)
    draft.refuse(KeyId::kOffloadParameters, "E213", "parameters are offloaded with zero_stage 3",
                 fmt::format("zero_stage is {}", stage), "zero_stage = 3");
}

void offload_with_megatron(Draft& draft) {
  Job& job = draft.job();
  if (job.offload.parameters != OffloadTarget::kNone)
    draft.refuse(KeyId::kOffloadParameters, "E213", "megatron keeps parameters on the device",
                 "optimizer_cpu_offload moves master weights and moments",
                 "offload.optimizer = \"cpu\"");
  if (job.offload.optimizer == OffloadTarget::kNvme)
    draft.refuse(KeyId::kOffloadOptimizer, "E213", "megatron offloads to the host, not to NVMe",
                 "NVMe is for deepspeed with zero_stage 3", "cpu");
  if (job.offload.optimizer == OffloadTarget::kCpu && job.parallel.zero_stage != 1)
    draft.refuse(KeyId::kOffloadOptimizer, "E213",
                 "--optimizer-cpu-offload is the distributed optimizer's",
                 fmt::format("zero_stage is {}", job.parallel.zero_stage), "zero_stage = 1");
}

void check_states(Draft& draft) {
  Job& job = draft.job();
  const Offload& offload = job.offload;
  const bool optimizer = offload.optimizer != OffloadTarget::kNone;
  switch (job.engine) {
    case Engine::kFsdp1:
    case Engine::kFsdp2:
      offload_with_fsdp(draft);
      break;
    case Engine::kDeepSpeed:
      offload_with_deepspeed(draft);
      break;
    case Engine::kMegatron:
      offload_with_megatron(draft);
      break;
    default:
      if (optimizer || offload.parameters != OffloadTarget::kNone)
        draft.refuse(
            optimizer ? KeyId::kOffloadOptimizer : KeyId::kOffloadParameters, "E213",
            fmt::format("{} offloads neither optimizer nor parameters", name_of(job.engine)),
            "fsdp1, fsdp2, deepspeed and megatron do", "none");
  }
  // FSDP's policy takes the states along with the parameters, whichever of both was said.
  if (offload.optimizer != OffloadTarget::kNone &&
      (job.training.optimizer.fused_into_backward || job.training.optimizer.paged))
    draft.refuse(optimizer ? KeyId::kOffloadOptimizer : KeyId::kOffloadParameters, "E213",
                 fmt::format("{} keeps nothing on the device that could be offloaded",
                             job.training.optimizer.name),
                 "offload is for optimizers with states there", "none");
  if (draft.has(KeyId::kOffloadFraction) && offload.fraction < 1 && job.engine != Engine::kMegatron)
    draft.refuse(KeyId::kOffloadFraction, "E320",
                 fmt::format("not weighed yet: a part of the states with {}", name_of(job.engine)),
                 "known for megatron (--optimizer-offload-fraction)", "leave it out: all of them");
}

void check_activations(Draft& draft) {
  const Job& job = draft.job();
  if (job.offload.activations == OffloadTarget::kNone) return;
  const auto refuse = [&](std::string what) {
    draft.refuse(KeyId::kOffloadActivations, "E320",
                 fmt::format("not weighed yet: offload of activations {}", what),
                 "weighed as torch.autograd.graph.save_on_cpu sends them: eager code of "
                 "transformers and torchtitan, torchtune's checkpoints, no tensor, context or "
                 "pipeline ranks",
                 "recompute.mode = \"full\" keeps less, too");
  };
  if (job.offload.activations == OffloadTarget::kNvme) return refuse("to NVMe");
  const bool torchtune = job.implementation == Implementation::kTorchtune;
  if (job.implementation != Implementation::kTransformers &&
      job.implementation != Implementation::kTorchtitan && !torchtune)
    return refuse(fmt::format("with {}'s code", name_of(job.implementation)));
  const Parallel& parallel = job.parallel;
  if (parallel.tensor > 1 || parallel.context > 1 || parallel.pipeline > 1 || parallel.expert > 1)
    return refuse("with model parallelism");
  if (job.training.kernels == KernelLibrary::kLiger) return refuse("of Liger's kernels");
  if (job.training.loss != LossKernel::kPlain && job.training.loss != LossKernel::kChunked)
    return refuse("with fused losses");
  if (job.adapter && !torchtune) return refuse("beside adapters");
  // Its recipes ask for checkpoints beside it.
  if (torchtune && job.recompute.mode != RecomputeMode::kFull)
    return refuse("of torchtune's layers that are not computed again");
  if (job.recompute.reentrant) return refuse("with reentrant checkpoints");
  if (job.recompute.mode == RecomputeMode::kSelective ||
      job.recompute.mode == RecomputeMode::kModules)
    return refuse("beside recomputation of modules");
}

}  // namespace

void choose_offload(Draft& draft) {
  Offload& offload = draft.job().offload;
  offload.optimizer = target(draft, KeyId::kOffloadOptimizer);
  offload.parameters = target(draft, KeyId::kOffloadParameters);
  offload.activations = target(draft, KeyId::kOffloadActivations);
  if (const Setting* given = draft.settings().find(KeyId::kOffloadFraction))
    offload.fraction = given->number;
  offload.pinned = draft.truth_or(KeyId::kOffloadPinned, true);
  check_states(draft);
  check_activations(draft);
}

}  // namespace steelyard
