// The rules of the verdict for a snapshot that stands beside its run: piles that the run never has, and the setting whose
// absence explains them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "diagnose/settings_taken_back.h"
#include "diagnose/snapshot_facts.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

// Piles that a snapshot tells apart well enough to compare; weights that are gathered and buckets pass into each other.
struct PileGroups {
  std::array<std::int64_t, 4> bytes{};  // kept for backward, weights, gradients, moments

  static PileGroups of(const Piles& piles) {
    const auto sum = [&](std::initializer_list<Pile> some) {
      std::int64_t all = 0;
      for (const Pile one : some) all += piles[one].value().value();
      return all;
    };
    return {{sum({Pile::kActivations, Pile::kTemporary}),
             sum({Pile::kParameters, Pile::kMasterWeights}),
             sum({Pile::kGradients, Pile::kCommunication}), sum({Pile::kOptimizerMoments})}};
  }
  std::int64_t sum() const { return bytes[0] + bytes[1] + bytes[2] + bytes[3]; }
};

// The most of each in any phase: what the run never has is above it.
PileGroups most_of(const RankPrediction& rank) {
  PileGroups most;
  for (const auto* phases : {&rank.phases, &rank.first_step.phases})
    for (const PhasePrediction& phase : *phases) {
      const PileGroups now = PileGroups::of(phase.piles);
      for (std::size_t index = 0; index < most.bytes.size(); ++index)
        most.bytes[index] = std::max(most.bytes[index], now.bytes[index]);
    }
  return most;
}

std::int64_t excess_of(const PileGroups& measured, const PileGroups& most) {
  std::int64_t excess = 0;
  for (std::size_t index = 0; index < most.bytes.size(); ++index) {
    const std::int64_t room = most.bytes[index] + most.bytes[index] / 20 + (std::int64_t{1} << 24);
    excess += std::max<std::int64_t>(measured.bytes[index] - room, 0);
  }
  return excess;
}

class SnapshotAgainstRun {
 public:
  SnapshotAgainstRun(const SnapshotFacts& facts, std::vector<Finding>& findings)
      : facts_(facts),
        findings_(findings),
        prediction_(*facts.question.prediction),
        rank_(prediction_.ranks[rank_index_of(prediction_, facts.evidence.rank)]) {}

  void run() {
    too_large();
    missing_setting();
    first_stage();
    in_pieces_by_elimination();
  }

 private:
  bool has_found(Cause cause, double least) const {
    return std::any_of(findings_.begin(), findings_.end(), [&](const Finding& finding) {
      return finding.cause == cause && finding.certainty >= least;
    });
  }

  // States alone do not fit: it would have died of them sooner or later.
  void too_large() {
    std::int64_t states = 0;
    for (const PhasePrediction& phase : rank_.phases)
      for (const Pile one : {Pile::kParameters, Pile::kMasterWeights, Pile::kOptimizerMoments})
        if (phase.phase == Phase::kOptimizer) states += phase.piles[one].value().value();
    const std::int64_t usable = prediction_.usable.value().value();
    const RunPart part = facts_.attribution.part;
    if (states <= usable || part == RunPart::kSaving || part == RunPart::kEvaluating) return;
    findings_.push_back(facts_.found(Cause::kModelTooLarge, part == RunPart::kLoading ? 0.9 : 0.7,
                                     fmt::format("the run's states alone need {} of {}",
                                                 print(Bytes(states)), print(Bytes(usable))),
                                     states));
  }

  // Piles above all that the run has: the run without one of its settings has them.
  void missing_setting() {
    const RunPart part = facts_.attribution.part;
    if (part == RunPart::kLoading || part == RunPart::kSaving || part == RunPart::kEvaluating ||
        has_found(Cause::kLongestBatch, 0.8) || has_found(Cause::kMoeImbalance, 0.9) ||
        has_found(Cause::kQuantizationDequant, 0.7) ||
        facts_.attribution.failing.role == StackRole::kOther)
      return;
    PileGroups measured = PileGroups::of(facts_.attribution.piles);
    measured.bytes[0] = std::max<std::int64_t>(measured.bytes[0] - facts_.earlier, 0);
    if (facts_.in_pass() || part == RunPart::kOptimizerStep) measured.bytes[0] += facts_.wanted;
    const PileGroups most = most_of(rank_);
    const std::int64_t excess = excess_of(measured, most);
    if (excess * 12 < facts_.whole || excess < (std::int64_t{1} << 26)) return;
    const RunWithout* best = nullptr;
    PileGroups best_most;
    const std::vector<RunWithout> runs = runs_without_settings(facts_.question);
    for (const RunWithout& run : runs) {
      const std::size_t index = rank_index_of(run.prediction, facts_.evidence.rank);
      const PileGroups then = most_of(run.prediction.ranks[index]);
      // It explains two thirds at least. Of several that do, the one that is above it by least.
      if (excess_of(measured, then) * 3 > excess) continue;
      if (best != nullptr && then.sum() >= best_most.sum()) continue;
      best = &run;
      best_most = then;
    }
    if (best == nullptr) return replicated_without_a_layout(measured, most);
    std::size_t pile = 0;
    for (std::size_t index = 1; index < measured.bytes.size(); ++index)
      if (measured.bytes[index] - most.bytes[index] > measured.bytes[pile] - most.bytes[pile])
        pile = index;
    constexpr std::array<std::string_view, 4> kNames = {"activations and temporaries", "parameters",
                                                        "gradients and buckets", "optimizer state"};
    findings_.push_back(facts_.found(
        cause_of_missing(*best), best->setting == SavingSetting::kSharding ? 0.97 : 0.945,
        fmt::format("{} of {}: {} allows {}, without it {} are expected",
                    print(Bytes(measured.bytes[pile])), kNames[pile], best->words,
                    print(Bytes(most.bytes[pile])), print(Bytes(best_most.bytes[pile]))),
        measured.bytes[pile]));
  }

  // The run fits, no pile is larger than it should be, and what is reserved and free would have served the request: what
  // remains is that it lies in pieces.
  void in_pieces_by_elimination() {
    const DeviceMoment& moment = facts_.moment;
    const std::int64_t cached = moment.reserved - moment.live - moment.rounding;
    if (!facts_.failed || !facts_.in_pass() || cached * 2 < facts_.wanted ||
        cached + moment.device_free < facts_.wanted || !fits_without_pieces(prediction_, rank_))
      return;
    PileGroups measured = PileGroups::of(facts_.attribution.piles);
    measured.bytes[0] += facts_.wanted;
    if (excess_of(measured, most_of(rank_)) > 0) return;
    findings_.push_back(facts_.found(
        Cause::kFragmentation, 0.86,
        fmt::format("the run fits, no pile is larger than it should be, and {} are reserved and "
                    "free beside {} free on the device: in pieces",
                    print(Bytes(cached)), print(Bytes(moment.device_free))),
        cached));
  }

  // The engine has no key that would undo its sharding: whole parameters are still whole parameters.
  void replicated_without_a_layout(const PileGroups& measured, const PileGroups& most) {
    const Job& job = *facts_.question.job;
    if (job.cluster.devices < 2 || job.adapter || measured.bytes[1] < 2 * most.bytes[1] ||
        measured.bytes[1] * 8 < facts_.whole || most.bytes[1] == 0)
      return;
    findings_.push_back(
        facts_.found(Cause::kParametersReplicated, 0.96,
                     fmt::format("{} of parameters where the layout has {} on a rank",
                                 print(Bytes(measured.bytes[1])), print(Bytes(most.bytes[1]))),
                     measured.bytes[1]));
  }

  // Of a pipeline the first stage holds the most micro-batches in flight.
  void first_stage() {
    const auto& ranks = prediction_.ranks;
    const SnapshotTopics& topics = facts_.topics;
    if (rank_.pipeline != 0 || ranks.size() < 2 || ranks[0].allocated <= ranks[1].allocated ||
        topics.activations * 4 < facts_.whole || topics.logits * 3 > topics.activations)
      return;
    findings_.push_back(
        facts_.found(Cause::kPipelineFirstStage, 0.88,
                     fmt::format("stage 1 of {} holds {} of activations; the next needs {} less "
                                 "at its peak",
                                 facts_.question.job->parallel.pipeline.value(),
                                 print(Bytes(topics.activations)),
                                 print(ranks[0].allocated - ranks[1].allocated)),
                     topics.activations));
  }

  const SnapshotFacts& facts_;
  std::vector<Finding>& findings_;
  const Prediction& prediction_;
  const RankPrediction& rank_;
};

}  // namespace

void hold_snapshot_against_run(const SnapshotFacts& facts, std::vector<Finding>& findings) {
  const Prediction* prediction = facts.question.prediction;
  if (facts.question.job == nullptr || prediction == nullptr || prediction->ranks.empty()) return;
  SnapshotAgainstRun(facts, findings).run();
}

}  // namespace steelyard
