#include "cost/step_work.h"

#include <algorithm>
#include <utility>

#include "job/pipeline_shape.h"

namespace steelyard {

namespace {

ParameterCount count_of(const Unit<Checked>& unit) {
  const auto experts = static_cast<double>(plain(unit.expert_elements));
  return {static_cast<double>(plain(unit.elements)) - experts, experts};
}

// A module's bias is not another one's.
double modules_of(const Unit<Checked>& unit) {
  std::int64_t modules = 0;
  for (const TensorShare<Checked>& share : unit.tensors)
    if (!share.tensor->name.ends_with("bias")) modules += share.copies;
  return static_cast<double>(modules);
}

// A bucket is full with the tensor that passes its size (torch/csrc/distributed/c10d/reducer.cpp); what is left goes on into
// the next unit's.
double messages_of(const Unit<Checked>& unit, double bucket) {
  if (bucket <= 0) return 0;
  double messages = 0, filled = 0;
  for (const TensorShare<Checked>& share : unit.tensors)
    for (std::int64_t copy = 0; copy < share.copies; ++copy) {
      filled += static_cast<double>(plain(share.elements));
      if (filled < bucket) continue;
      ++messages;
      filled = 0;
    }
  return messages + filled / bucket;
}

// `bucket`: elements; 0: gradients go in one message.
std::vector<HeldParameters> held_by(const StagePrograms<Checked>& programs, bool divided,
                                    double bucket) {
  const ModelUnits<Checked>&whole = programs.units(), &trained = programs.trained_units();
  std::vector<HeldParameters> held;
  const auto add = [&](const Unit<Checked>& of_whole, const Unit<Checked>& of_trained,
                       double layers = 0) {
    held.push_back({count_of(of_whole), count_of(of_trained),
                    static_cast<double>(of_whole.tensor_count), modules_of(of_whole), layers,
                    messages_of(of_trained, bucket)});
  };
  add(whole.embedding, trained.embedding);
  for (std::size_t kind = 0; kind < whole.kinds.size(); ++kind)
    add(whole.kinds[kind], trained.kinds[kind], 1);
  add(whole.head, trained.head);
  if (divided) add(whole.vocabulary_rows, trained.vocabulary_rows);
  return held;
}

double elements_of_bucket(const Job& job) {
  const DataExchange exchange = data_exchange_of(job);
  return exchange.bucket_bytes > 0 ? exchange.bucket_bytes / exchange.reduce : 0;
}

// What a stage sends on of one micro-batch.
double boundary_bytes_of(const Job& job, const Sizes<Checked>& sizes) {
  return static_cast<double>(plain(sizes.shard_tokens)) * static_cast<double>(plain(sizes.hidden)) *
         bytes_each(job.training.precision.compute);
}

}  // namespace

StepWork::StepWork(const Job& asked, StagePrograms<Checked>& programs)
    : StepWork(asked, std::make_shared<const PipelineWork>(programs.work(asked.recompute)),
               held_by(programs, divides_vocabulary(asked), elements_of_bucket(asked)),
               boundary_bytes_of(asked, programs.sizes())) {}

StepWork::StepWork(const Job& asked, const StepWork& alike)
    : StepWork(asked, alike.kernels, alike.held, alike.boundary_bytes) {
  settled = alike.settled;
}

StepWork::StepWork(const Job& asked, std::shared_ptr<const PipelineWork> kernels_of_parts,
                   std::vector<HeldParameters> held_by_units, double bytes_at_boundaries)
    : job(asked),
      order(pipeline_order(job)),
      shape(pipeline_shape(job)),
      micro_batches(micro_batches_of_chunk(order.placement, shape)),
      groups(groups_of(job)),
      kernels(std::move(kernels_of_parts)),
      held(std::move(held_by_units)),
      boundary_bytes(bytes_at_boundaries),
      heaviest(heaviest_rank()) {}

HeldParameters StepWork::heaviest_rank() const {
  HeldParameters most;
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
    HeldParameters here;
    for (int chunk = 0; chunk < static_cast<int>(shape.chunks); ++chunk)
      for (const PipelineWork::Count& count : kernels->parts[part_on(rank, chunk)])
        here += held_by_stretch(count.stretch) * static_cast<double>(count.times);
    if (divides_vocabulary(job)) here += held.back();
    most.raise_to(here);
  }
  return most;
}

// Forwards before a rank's first backward have no pair, one more than without pairs, and as many backwards at its end
// (megatron/core/pipeline_parallel/schedules.py, get_pp_rank_microbatches). No more is in flight: in a pair the forward
// goes through the layers that the backward leaves.
double StepWork::paired_share() const {
  if (!job.overlap_expert) return 0;
  const auto alone = static_cast<double>(in_flight(order.rank_order(shape, 0), shape.chunks).most);
  return std::max(0.0, 1 - alone / static_cast<double>(micro_batches * shape.chunks));
}

double StepWork::seconds_of_a_send(const ExchangeClock& exchanges) const {
  // With sequence parallelism each tensor rank has a part of its own anyway.
  const bool parts = job.parallel.scattered_transfers && !job.parallel.sequence_parallel;
  const double divided = parts ? static_cast<double>(job.parallel.tensor) : 1.0;
  const double sent =
      exchanges.send(boundary_bytes / divided, groups.stages_across_machines).value();
  if (!parts) return sent;
  return sent + exchanges.time(ExchangeKind::kAllGather, boundary_bytes, groups.tensor).value();
}

}  // namespace steelyard
