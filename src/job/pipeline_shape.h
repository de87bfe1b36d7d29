// A job's pipeline, as src/schedule asks for it.
//
//   order_of(job.parallel.schedule).rank_order(pipeline_shape(job), rank)
#pragma once

#include <algorithm>

#include "job/job.h"
#include "schedule/orders.h"

namespace steelyard {

// Pipelines of DDP, FSDP1 and FSDP2 run on torch.distributed.pipelining; the other engines bring their own.
inline bool runs_on_torch_pipelining(const Job& job) {
  return job.parallel.pipeline > 1 && (job.engine == Engine::kDdp || job.engine == Engine::kFsdp1 ||
                                       job.engine == Engine::kFsdp2);
}

// Without a pipeline one rank runs forward and backward in turn.
inline const PipelineOrder& pipeline_order(const Job& job) {
  return order_of(job.parallel.pipeline == 1 ? PipelineSchedule::kOneForwardOneBackward
                                             : job.parallel.schedule);
}

// torch's runtime of steps (_PipelineScheduleRuntime), not one of its two written-out loops.
inline bool runs_torch_steps(const Job& job) {
  const PipelineSchedule schedule = pipeline_order(job).schedule;
  return runs_on_torch_pipelining(job) && schedule != PipelineSchedule::kGPipe &&
         schedule != PipelineSchedule::kOneForwardOneBackward;
}

// Whether every rank of the pipeline has a part of the lookup and of the output layer.
inline bool divides_vocabulary(const Job& job) {
  return job.parallel.vocabulary != VocabularyLayers::kAtTheEnds;
}

// Each stage of a pipeline is one chunk, and its backward runs whole.
inline bool runs_whole_stages(const Job& job) {
  return job.parallel.pipeline > 1 && job.parallel.virtual_pipeline == 1 &&
         !pipeline_order(job).splits_backward;
}

inline PipelineShape pipeline_shape(const Job& job) {
  const Parallel& parallel = job.parallel;
  PipelineShape shape;
  shape.ranks = parallel.pipeline;
  shape.chunks = parallel.pipeline == 1 ? 1 : parallel.virtual_pipeline;
  shape.micro_batches = job.training.gradient_accumulation;
  shape.vocabulary = parallel.vocabulary;
  shape.group = parallel.pipeline_group;
  // Megatron-LM arguments.py: as many as stages. torch (ScheduleInterleaved1F1B) cuts what there is into rounds.
  if (shape.group == 0)
    shape.group =
        runs_on_torch_pipelining(job)
            ? shape.micro_batches / std::max<std::int64_t>(1, shape.micro_batches / shape.ranks)
            : shape.ranks;
  return shape;
}

}  // namespace steelyard
