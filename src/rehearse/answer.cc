#include "rehearse/answer.h"

#include <fmt/format.h>

#include <algorithm>

namespace steelyard {
namespace {

PhasePrediction phase_row(const RehearsedPhase& seen, Bytes runtime) {
  PhasePrediction row;
  row.phase = seen.phase;
  row.allocated = seen.allocated;
  row.reserved = std::max(seen.reserved, seen.allocated);
  row.piles = seen.piles;
  row.slack = row.reserved - row.allocated;
  row.runtime = runtime;
  return row;
}

// The rows of one step, in the order of phases.
std::vector<PhasePrediction> rows_of_step(const Rehearsal& seen, std::string_view step,
                                          Bytes runtime) {
  std::vector<PhasePrediction> rows;
  for (const RehearsedPhase& phase : seen.phases)
    if (phase.step == step) rows.push_back(phase_row(phase, runtime));
  return rows;
}

const PhasePrediction* fullest_of(const std::vector<PhasePrediction>& rows) {
  const auto found = std::max_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.allocated < b.allocated;
  });
  return found == rows.end() ? nullptr : &*found;
}

Bytes most_reserved(const std::vector<PhasePrediction>& rows) {
  Bytes most{};
  for (const PhasePrediction& row : rows) most = std::max(most, row.reserved);
  return most;
}

RankPrediction rank_of(const Rehearsal& seen, Bytes runtime) {
  RankPrediction rank;
  rank.rank = seen.rank;
  std::vector<PhasePrediction> later = rows_of_step(seen, "steady", runtime);
  std::vector<PhasePrediction> first = rows_of_step(seen, "first", runtime);
  // A run that ends in its first or second step shows what it has come to.
  if (later.empty()) later = rows_of_step(seen, "step 2", runtime);
  rank.first_step.phases = first;
  if (const PhasePrediction* top = fullest_of(first)) {
    rank.first_step.phase = top->phase;
    rank.first_step.allocated = top->allocated;
    rank.first_step.reserved = most_reserved(first);
    rank.first_step.device = rank.first_step.reserved + runtime;
  }
  const PhasePrediction* top_of_first = fullest_of(first);
  const PhasePrediction* top_of_later = fullest_of(later);
  if (top_of_later == nullptr ||
      (top_of_first != nullptr && top_of_first->allocated > top_of_later->allocated))
    later = first;
  rank.phases = rows_of_step(seen, "load", runtime);
  rank.phases.insert(rank.phases.end(), later.begin(), later.end());
  if (const PhasePrediction* top = fullest_of(rank.phases)) {
    rank.phase = top->phase;
    rank.allocated = top->allocated;
  }
  rank.reserved = std::max(most_reserved(rank.phases), most_reserved(first));
  rank.device = rank.reserved + runtime;
  for (const RehearsedPhase& phase : seen.phases)
    if (phase.phase == Phase::kOptimizer) rank.resident = phase.resident;
  return rank;
}

std::string short_place(const std::string& place) {
  const std::size_t slash = place.rfind('/');
  return slash == std::string::npos ? place : place.substr(slash + 1);
}

Moment moment_of(const Rehearsal& seen, Phase phase) {
  Moment moment;
  moment.phase = phase;
  moment.where = std::string(name_of(phase));
  for (const RehearsedLine& line : seen.lines) {
    Holding holding;
    holding.pile = line.pile;
    holding.owner = short_place(line.user.empty() ? "autograd" : line.user);
    holding.name = line.line.empty() ? "no line of Python: a kernel of backward"
                                     : fmt::format("{} {}", short_place(line.line), line.function);
    holding.count = line.count;
    holding.total = line.bytes;
    moment.alive.push_back(std::move(holding));
  }
  return moment;
}

}  // namespace

RuntimeBytes rehearsed_runtime(const Cluster& cluster) {
  RuntimeBytes bytes = context_bytes(*cluster.device);
  const std::int64_t ranks = cluster.devices.value();
  if (ranks < 2) return bytes;
  const std::int64_t per_node = std::min(cluster.devices_per_node.value(), ranks);
  const RuntimeBytes world =
      communicator_bytes(*cluster.device, ranks, per_node, (ranks + per_node - 1) / per_node,
                         CommunicatorUse::kGatherScatter);
  bytes.low += world.low;
  bytes.expected += world.expected;
  bytes.high += world.high;
  return bytes;
}

Rehearsed rehearsed_answer(const std::vector<Rehearsal>& seen, const Cluster& cluster) {
  Rehearsed answer;
  answer.job.cluster = cluster;
  Prediction& prediction = answer.prediction;
  const RuntimeBytes runtime = rehearsed_runtime(cluster);
  prediction.capacity = prediction.usable = cluster.device->capacity;
  for (const Rehearsal& rank : seen) {
    prediction.ranks.push_back(rank_of(rank, runtime.expected));
    prediction.parameters.total = std::max(prediction.parameters.total, rank.parameters);
    prediction.trainable = std::max(prediction.trainable, rank.trainable);
  }
  prediction.parameters.active = prediction.parameters.total;
  prediction.parameters.trainable = prediction.trainable;
  std::size_t top = 0;
  for (std::size_t i = 1; i < seen.size(); ++i)
    if (prediction.ranks[i].device > prediction.ranks[top].device) top = i;
  const RankPrediction& fullest = prediction.ranks[top];
  PeakPrediction& peak = prediction.peak;
  peak = {fullest.rank,
          0,
          fullest.phase,
          fullest.allocated,
          fullest.reserved,
          fullest.device,
          fullest.reserved + runtime.low,
          fullest.reserved + runtime.high};
  const bool died = std::any_of(seen.begin(), seen.end(), [](const Rehearsal& rank) {
    return rank.error && rank.error->out_of_memory;
  });
  prediction.verdict = died ? Verdict::kDoesNotFit : verdict_of(peak, prediction.usable);
  if (cluster.devices > Ranks(1))
    prediction.assumptions.push_back(
        {"runtime", "one communicator of all ranks",
         "NCCL's buffers are not on paper: one communicator that gathers and reduces is counted"});
  answer.moment = moment_of(seen[top], fullest.phase);
  return answer;
}

}  // namespace steelyard
