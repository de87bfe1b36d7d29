#include "diagnose/experiments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "diagnose/run_composition.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostRuns = 3;

bool in_name(const std::string& text, std::string_view word) {
  return text.find(word) != std::string::npos;
}

bool is_own(Cause cause, const Holding& holding) {
  const bool kept = holding.pile == Pile::kActivations || holding.pile == Pile::kTemporary;
  switch (cause) {
    case Cause::kActivations:
    case Cause::kLongestBatch:
    case Cause::kPipelineFirstStage:
      return kept && !is_of_logits(holding) && !is_of_scores(holding);
    case Cause::kLogits:
      return kept && is_of_logits(holding);
    case Cause::kAttentionScores:
      return kept && is_of_scores(holding);
    case Cause::kMoeImbalance:
      return kept && (in_name(holding.owner, "expert") || in_name(holding.name, "expert"));
    case Cause::kOptimizerStateFirstStep:
      return holding.pile == Pile::kOptimizerMoments;
    case Cause::kOptimizerTemporaries:
      return holding.pile == Pile::kTemporary;
    case Cause::kGradients:
      return holding.pile == Pile::kGradients;
    case Cause::kMasterWeights:
      return holding.pile == Pile::kMasterWeights;
    case Cause::kAllGatherOrBucket:
      return holding.pile == Pile::kCommunication;
    case Cause::kParametersReplicated:
    case Cause::kLoadFullModel:
      return holding.pile == Pile::kParameters;
    case Cause::kModelTooLarge:
      return !kept && holding.pile != Pile::kCommunication;
    default:
      return false;  // nothing that a prediction has: no change of the run moves it
  }
}

Phase phase_of_cause(Cause cause, Phase now) {
  switch (cause) {
    case Cause::kOptimizerStateFirstStep:
    case Cause::kOptimizerTemporaries:
      return Phase::kOptimizer;
    case Cause::kLoadFullModel:
      return Phase::kLoad;
    case Cause::kFullCheckpointOnRank0:
      return Phase::kCheckpoint;
    case Cause::kActivations:
    case Cause::kLogits:
    case Cause::kAttentionScores:
      return Phase::kBackward;
    default:
      return now;
  }
}

// What a run needs at the peak of a phase, and how much of it is the cause's own.
struct PhaseNeed {
  std::int64_t all = 0, own = 0;
};

PhaseNeed need_of(const Job& job, const Prediction& prediction, std::optional<std::int64_t> rank,
                  Cause cause, Phase phase) {
  PhaseNeed need;
  const std::size_t index = rank_index_of(prediction, rank);
  for (const PhasePrediction& one : prediction.ranks[index].phases)
    if (one.phase == phase) need.all = one.allocated.value().value();
  for (const Holding& holding : phase_moment(job, index, phase).alive)
    if (is_own(cause, holding)) need.own += holding.total.value().value();
  return need;
}

// Changes that move one thing and leave the rest, then those that move several.
std::vector<std::vector<Suggestion::Edit>> candidate_changes(const Job& job) {
  std::vector<std::vector<Suggestion::Edit>> changes;
  const auto add = [&](std::string key, std::string from, std::string to) {
    if (from != to) changes.push_back({{std::move(key), std::move(from), std::move(to)}});
  };
  const std::int64_t length = job.training.sequence_length.value();
  if (length >= 256)
    add("training.sequence_length", std::to_string(length), std::to_string(length / 2));
  add("training.loss", std::string(name_of(job.training.loss)), "chunked");
  if (job.training.attention == AttentionKernel::kEager)
    add("training.attention", std::string(name_of(job.training.attention)), "flash");
  add("recompute.mode", std::string(name_of(job.recompute.mode)), "full");
  add("training.optimizer_form", "", "fused");
  add("training.optimizer", "", "sgd");
  return changes;
}

std::string in_words(const std::vector<Suggestion::Edit>& edits) {
  std::string words;
  for (const Suggestion::Edit& edit : edits)
    words += fmt::format("{}{} = {}", words.empty() ? "" : ", ", edit.key, edit.to);
  return words;
}

class Planning {
 public:
  Planning(const DiagnosisQuestion& question, const Diagnosis& diagnosis)
      : question_(question), diagnosis_(diagnosis) {}

  ExperimentPlan run() {
    weigh_causes();
    for (const auto& change : candidate_changes(*question_.job)) try_change(change);
    return choose();
  }

 private:
  void weigh_causes() {
    const Prediction& prediction = *question_.prediction;
    Phase now = prediction.ranks[rank_index_of(prediction, diagnosis_.rank)].phase;
    if (diagnosis_.against) now = diagnosis_.against->phase;
    std::int64_t measured = 0;
    const MemoryFailure& failure = diagnosis_.failure;
    if (failure.allocated) measured += failure.allocated->value().value();
    if (failure.tried) measured += failure.tried->value().value();
    for (const Finding& finding : diagnosis_.findings) {
      Remaining one;
      one.cause = finding.cause;
      one.phase = phase_of_cause(finding.cause, now);
      one.before = need_of(*question_.job, prediction, diagnosis_.rank, one.cause, one.phase);
      one.excess = std::max<std::int64_t>(measured - one.before.all, 0);
      peak_ = std::max({peak_, one.before.all, measured});
      remaining_.push_back(one);
    }
  }

  void try_change(const std::vector<Suggestion::Edit>& edits) {
    const auto job = question_.rewritten(edits);
    if (!job) return;
    const Prediction after = estimate(*job);
    if (after.ranks.empty()) return;
    Experiment experiment;
    experiment.edits = edits;
    experiment.change = in_words(edits);
    for (const Remaining& one : remaining_) {
      const PhaseNeed then = need_of(*job, after, diagnosis_.rank, one.cause, one.phase);
      // Its own tensors fall, and with them in proportion what was measured above the prediction.
      double falls = static_cast<double>(one.before.own - then.own);
      if (one.before.own > 0)
        falls *= 1 + static_cast<double>(one.excess) / static_cast<double>(one.before.own);
      experiment.expect.emplace_back(one.cause, Bytes(static_cast<std::int64_t>(falls)));
    }
    experiments_.push_back(std::move(experiment));
  }

  // One falls and the other stays: where both fall, the sum of both is measured.
  bool decides(const Experiment& experiment, std::size_t a, std::size_t b) const {
    const std::int64_t first = std::abs(experiment.expect[a].second.value().value());
    const std::int64_t second = std::abs(experiment.expect[b].second.value().value());
    return std::max(first, second) * 30 >= peak_ && std::min(first, second) * 60 < peak_;
  }

  std::size_t pairs_decided(const std::vector<std::size_t>& chosen) const {
    std::size_t count = 0;
    for (std::size_t a = 0; a < remaining_.size(); ++a)
      for (std::size_t b = a + 1; b < remaining_.size(); ++b)
        count += std::any_of(chosen.begin(), chosen.end(),
                             [&](std::size_t i) { return decides(experiments_[i], a, b); })
                     ? 1
                     : 0;
    return count;
  }

  // All sets of one, two and three of a handful: the smallest of those that decide most.
  ExperimentPlan choose() const {
    std::vector<std::size_t> best;
    std::size_t most = 0;
    const std::size_t sets = std::size_t{1} << experiments_.size();
    for (std::size_t set = 1; set < sets; ++set) {
      std::vector<std::size_t> chosen;
      for (std::size_t i = 0; i < experiments_.size(); ++i)
        if (((set >> i) & 1U) != 0) chosen.push_back(i);
      if (chosen.size() > kMostRuns) continue;
      const std::size_t decided = pairs_decided(chosen);
      if (decided < most || decided == 0) continue;
      if (decided == most && chosen.size() >= best.size()) continue;
      most = decided;
      best = chosen;
    }
    ExperimentPlan plan;
    plan.peak = Bytes(peak_);
    // First the run that tells the two surest apart: a screen has room for one.
    std::stable_sort(best.begin(), best.end(), [&](std::size_t a, std::size_t b) {
      return decides(experiments_[a], 0, 1) > decides(experiments_[b], 0, 1);
    });
    for (const std::size_t i : best) plan.runs.push_back(experiments_[i]);
    for (std::size_t a = 0; a < remaining_.size(); ++a)
      for (std::size_t b = a + 1; b < remaining_.size(); ++b)
        if (std::none_of(plan.runs.begin(), plan.runs.end(),
                         [&](const Experiment& one) { return decides(one, a, b); }))
          plan.undecided.emplace_back(remaining_[a].cause, remaining_[b].cause);
    return plan;
  }

  struct Remaining {
    Cause cause = Cause::kHealthy;
    Phase phase = Phase::kBackward;
    PhaseNeed before;
    std::int64_t excess = 0;  // measured above the phase's prediction
  };
  const DiagnosisQuestion& question_;
  const Diagnosis& diagnosis_;
  std::int64_t peak_ = 0;
  std::vector<Remaining> remaining_;
  std::vector<Experiment> experiments_;
};

}  // namespace

ExperimentPlan plan_experiments(const DiagnosisQuestion& question, const Diagnosis& diagnosis) {
  if (question.job == nullptr || question.prediction == nullptr || !question.rewritten ||
      question.prediction->ranks.empty() || diagnosis.findings.size() < 2)
    return {};
  return Planning(question, diagnosis).run();
}

}  // namespace steelyard
