// What of a job's step does not depend on a device: the kernels of each stretch of its model, of which stretches each part of
// the pipeline is made, how many parameters every rank has, and what a stage sends on.
//
//   stretches   embedding · layer · layer, computed again · head
//   parts       embedding + 8 layers | 8 layers | 8 layers | 8 layers + head
//
// Jobs that differ only in data ranks, their states and rounds have the same kernels: they share them, and what these take on
// one device, where that has been settled (cost/step_time.h).
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "cost/step_end.h"
#include "cost/stretch_time.h"
#include "job/job.h"
#include "machine/machine.h"
#include "schedule/orders.h"

namespace steelyard {

struct StepWork {
  // `programs`: of the same job, or of one of its variants. The job outlives this.
  StepWork(const Job& job, StagePrograms<Checked>& programs);
  StepWork(const Job& job, const StepWork& alike);

  std::size_t part_on(std::int64_t rank, int chunk) const {
    return static_cast<std::size_t>(part_of(order.placement, shape, rank, chunk).index);
  }
  // Parts of the line; those behind it are every rank's.
  std::int64_t line() const { return parts_in_line(order.placement, shape); }
  std::size_t part_of_step(std::int64_t rank, const PipelineStep& step) const {
    if (!is_of_vocabulary(step.kind)) return part_on(rank, step.chunk);
    return static_cast<std::size_t>(line()) + (step.kind >= StepKind::kOutput ? 1 : 0);
  }
  std::size_t unit_of(std::size_t stretch) const {
    return static_cast<std::size_t>(kernels->stretches[stretch].unit);
  }
  const HeldParameters& held_by_stretch(std::size_t stretch) const {
    return held[unit_of(stretch)];
  }
  bool splits_backward() const { return order.splits_backward && shape.ranks > 1; }
  // Of a step's passages, those that run beside another micro-batch's (overlap.expert).
  double paired_share() const;
  double seconds_of_a_send(const ExchangeClock& exchanges) const;

  // Stretches as expected on one device and machine, backward whole and in two parts.
  struct Settled {
    const Device* device = nullptr;
    const Machine* machine = nullptr;
    std::array<std::vector<StretchPassages>, 2> stretches;  // by whether backward is split
  };

  const Job& job;
  const PipelineOrder& order;
  const PipelineShape shape;
  const std::int64_t micro_batches;  // of each chunk
  const RankGroups groups;
  const std::shared_ptr<const PipelineWork> kernels;
  std::shared_ptr<const Settled> settled;  // null: not yet
  const std::vector<HeldParameters> held;  // by each unit on its rank
  const double boundary_bytes;    // hidden states of one micro-batch from one part to the next
  const HeldParameters heaviest;  // the most that a rank has

 private:
  StepWork(const Job& job, std::shared_ptr<const PipelineWork> kernels_of_parts,
           std::vector<HeldParameters> held_by_units, double bytes_at_boundaries);
  HeldParameters heaviest_rank() const;
};

}  // namespace steelyard
