// The micro-batches of one stage in their order, and what torch.distributed.pipelining keeps around them.
//
//   for ever         a buffer for each micro-batch and direction in which the stage receives
//   for a step       token ids and labels of all micro-batches, their losses
//   until backward   what the stage has given, and the last of it to the end of the step (a local of the schedule)
//   until the next   the gradient that the stage sends
//
// Sources: torch/distributed/pipelining/{stage,schedules}.py.
#include <algorithm>

#include "engine/stage_program.h"

namespace steelyard {

std::int64_t micro_batches_in_flight(const Job& job, std::int64_t stage) {
  const std::int64_t micro_batches = job.training.gradient_accumulation;
  if (job.parallel.pipeline == 1) return 1;
  if (job.parallel.schedule == PipelineSchedule::kGPipe) return micro_batches;
  return std::min(micro_batches, job.parallel.pipeline - stage);
}

template <class N>
void StagePrograms<N>::hold_received(const Stage<N>& stage, std::vector<Event>& events) const {
  if (!torch_pipeline_) return;
  const auto micro_batches = static_cast<std::int32_t>(job_.training.gradient_accumulation);
  if (!stage.embedding) events.push_back({received_, micro_batches});
  if (!stage.head) events.push_back({received_gradient_, micro_batches});
}

template <class N>
typename StagePrograms<N>::Edge StagePrograms<N>::edge_of(const Stage<N>& stage,
                                                          const std::vector<Group>& groups) const {
  if (!torch_pipeline_ || groups.empty()) return {};
  return {!stage.embedding, !stage.head};
}

template <class N>
SlotId StagePrograms<N>::output_of(const Stage<N>& stage) const {
  if (!stage.head) return hidden_;
  return head_.outliving.empty() ? -1 : head_.outliving.front();
}

template <class N>
bool StagePrograms<N>::lets_output_go_in_forward(const Stage<N>& stage) const {
  return torch_pipeline_ && micro_batches_in_flight(job_, stage.index) == 1;
}

template <class N>
void StagePrograms<N>::end_of_torch_step(const Stage<N>& stage, std::vector<Event>& events) const {
  const auto micro_batches = static_cast<std::int32_t>(job_.training.gradient_accumulation);
  if (!stage.embedding && stage.input_gradient) events.push_back({hidden_gradient_, -1});
  if (const SlotId output = output_of(stage); output >= 0) events.push_back({output, -1});
  events.push_back({ids_, -micro_batches});
  events.push_back({labels_, -micro_batches});
  if (stage.head && loss_ >= 0) events.push_back({loss_, -micro_batches});
}

template <class N>
NodeId StagePrograms<N>::torch_micro_batches_node(const Parts& parts, NodeId first_backward,
                                                  std::int64_t in_flight) {
  Program& program = book_.program;
  const std::int64_t micro_batches = job_.training.gradient_accumulation;
  const std::int64_t warm_up = in_flight - 1;
  const auto all = static_cast<std::int32_t>(micro_batches);
  const std::vector<Event> inputs = {{ids_, all}, {labels_, all}};
  const NodeId batch = program.tape(Phase::kForward, "inputs", inputs);
  // One in flight: what it has given goes in the forward of the next.
  if (warm_up == 0)
    return program.sequence(
        "micro-batches",
        {batch, program.sequence("", {parts.first_forward, first_backward}),
         program.repeat("micro-batch", program.sequence("", {parts.forward, parts.backward}),
                        micro_batches - 1)});
  std::vector<Event> given;
  if (parts.output >= 0) given.push_back({parts.output, -1});
  const NodeId release = program.tape(Phase::kBackward, "", given);
  return program.sequence(
      "micro-batches",
      {batch, parts.first_forward, program.repeat("warm-up", parts.forward, warm_up - 1),
       program.sequence("", {parts.forward, first_backward, release}),
       program.repeat("micro-batch", program.sequence("", {parts.forward, parts.backward, release}),
                      micro_batches - warm_up - 1),
       program.repeat("drain", program.sequence("", {parts.backward, release}), warm_up - 1),
       parts.backward});
}

template <class N>
NodeId StagePrograms<N>::micro_batches_node(const Parts& parts, NodeId first_backward,
                                            std::int64_t in_flight) {
  if (torch_pipeline_) return torch_micro_batches_node(parts, first_backward, in_flight);
  Program& program = book_.program;
  const std::int64_t micro_batches = job_.training.gradient_accumulation;
  const std::int64_t warm_up = in_flight - 1;
  if (warm_up == 0)
    return program.sequence(
        "micro-batches",
        {program.sequence("", {parts.first_forward, first_backward}),
         program.repeat("micro-batch", program.sequence("", {parts.forward, parts.backward}),
                        micro_batches - 1)});
  return program.sequence(
      "micro-batches",
      {parts.first_forward, program.repeat("warm-up", parts.forward, warm_up - 1),
       program.sequence("", {parts.forward, first_backward}),
       program.repeat("micro-batch", program.sequence("", {parts.forward, parts.backward}),
                      micro_batches - warm_up - 1),
       program.repeat("drain", parts.backward, warm_up)});
}

template class StagePrograms<Checked>;
template class StagePrograms<Traced>;

}  // namespace steelyard
