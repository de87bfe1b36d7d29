#include <fmt/format.h>

#include <algorithm>

#include "diagnose/diagnosis.h"
#include "diagnose/experiments.h"
#include "diagnose/highest_readings.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostFindings = 3;
constexpr double kWorthNaming = 0.28;
constexpr std::string_view kFlightRecorder = "flight recorder";

// The first failure in time that is nobody's consequence.
const MemoryFailure* first_failure(const std::vector<Evidence>& evidence) {
  const MemoryFailure* first = nullptr;
  for (const Evidence& one : evidence)
    for (const MemoryFailure& failure : one.failures) {
      if (!failure.fatal || failure.consequence) continue;
      if (first == nullptr) {
        first = &failure;
        continue;
      }
      // Two views of one failure are no order: of one kind the snapshot's comes with a clock of its own.
      const bool other_kind = failure.kind != first->kind;
      const bool earlier =
          failure.seconds && first->seconds && *failure.seconds < *first->seconds - 1;
      const bool stronger = first->kind == MemoryFailure::Kind::kOther ||
                            first->kind == MemoryFailure::Kind::kCollectiveTimeout;
      if ((other_kind && (earlier || (stronger && failure.kind < first->kind))) ||
          (!other_kind && earlier))
        first = &failure;
    }
  return first;
}

bool named_for_failure(const std::string& file) {
  return file.find("oom") != std::string::npos || file.find("OOM") != std::string::npos ||
         file.find("_exit") != std::string::npos;
}

// What the text of the same failure adds to the event of a snapshot, or the reverse.
void take_missing(MemoryFailure& into, const MemoryFailure& from) {
  const auto fill = [](auto& mine, const auto& other) {
    if (!mine) mine = other;
  };
  fill(into.tried, from.tried);
  fill(into.allocated, from.allocated);
  fill(into.reserved, from.reserved);
  fill(into.unallocated, from.unallocated);
  fill(into.free, from.free);
  fill(into.capacity, from.capacity);
  fill(into.allowed, from.allowed);
  fill(into.own_process, from.own_process);
  fill(into.other_processes, from.other_processes);
  fill(into.rank, from.rank);
  fill(into.device, from.device);
  fill(into.step, from.step);
  if (into.frames.empty()) into.frames = from.frames;
  if (into.time.empty()) into.time = from.time;
  if (into.phase.empty()) into.phase = from.phase;
}

// Findings of two views: of one cause the surer, with the proofs of both.
void join(std::vector<Finding>& into, std::vector<Finding> more, double weight) {
  for (Finding& finding : more) {
    // What is outside the allocator a history cannot see: there the text is the better witness.
    const bool beside =
        finding.cause == Cause::kOtherProcess || finding.cause == Cause::kNcclOrContext;
    if (!beside) finding.certainty *= weight;
    const auto known = std::find_if(into.begin(), into.end(), [&](const Finding& other) {
      return other.cause == finding.cause;
    });
    if (known == into.end()) {
      into.push_back(std::move(finding));
      continue;
    }
    const double both = 1 - (1 - known->certainty) * (1 - finding.certainty * 0.5);
    known->certainty = std::min(0.99, std::max({known->certainty, finding.certainty, both}));
    for (Proof& proof : finding.proof) known->proof.push_back(std::move(proof));
    for (std::string& counter : finding.counter) known->counter.push_back(std::move(counter));
  }
}

// Causes that a text alone names by the place where the device was full.
constexpr double kSurestOfText = 0.78;
bool fills_in_passing(Cause cause) {
  switch (cause) {
    case Cause::kActivations:
    case Cause::kLogits:
    case Cause::kAttentionScores:
    case Cause::kOptimizerTemporaries:
    case Cause::kFragmentation:
    case Cause::kMoeImbalance:
    case Cause::kAllGatherOrBucket:
    case Cause::kGradients:
      return true;
    default:
      return false;
  }
}

class Diagnosing {
 public:
  explicit Diagnosing(const DiagnosisQuestion& question) : question_(question) {}

  Diagnosis run() {
    result_.run = question_.run;
    for (const Evidence& one : question_.evidence) {
      Evidence light = one;
      light.history.reset();
      light.moments.reset();
      result_.evidence.push_back(std::move(light));
      if (!one.complete && !one.why_incomplete.empty())
        result_.notes.push_back(one.file + ": " + one.why_incomplete);
    }
    const MemoryFailure* first = first_failure(question_.evidence);
    if (first != nullptr) {
      result_.failure = *first;
      result_.has_failure = true;
      for (const Evidence& one : question_.evidence)
        for (const MemoryFailure& failure : one.failures)
          if (failure.kind == first->kind && failure.fatal && same_process(failure, *first))
            take_missing(result_.failure, failure);
    }
    look_at_snapshot();
    std::vector<Finding> of_text;
    // An event of a snapshot is not proven a second time by its own numbers.
    const bool said_in_words =
        std::any_of(question_.evidence.begin(), question_.evidence.end(),
                    [](const Evidence& one) { return !one.moments && !one.failures.empty(); });
    if (result_.has_failure && (said_in_words || !has_snapshot_))
      of_text = findings_of_failure(result_.failure, question_);
    const bool device =
        !result_.has_failure || result_.failure.kind == MemoryFailure::Kind::kDeviceAllocator;
    add_other_culprits(of_text);
    if (device) join(result_.findings, std::move(snapshot_findings_), 1);
    join(result_.findings, std::move(of_text), device && has_snapshot_ ? 0.6 : 1);
    join(result_.findings, readings_beside(result_.findings), 1);
    decide();
    say_when();
    result_.highest = highest_reading(question_.evidence);
    compare();
    add_fixes(question_, result_);
    if (result_.verdict != Cause::kHealthy && result_.verdict != Cause::kNotMemory) {
      ExperimentPlan plan = plan_experiments(question_, result_);
      result_.experiments = std::move(plan.runs);
      result_.undecided = std::move(plan.undecided);
      result_.experiment_peak = plan.peak;
    }
    return std::move(result_);
  }

 private:
  static bool same_process(const MemoryFailure& a, const MemoryFailure& b) {
    return !a.rank || !b.rank || *a.rank == *b.rank;
  }

  // A step that saves or evaluates is high for that reason, and not for its batch.
  std::vector<Finding> readings_beside(const std::vector<Finding>& found) const {
    std::vector<Finding> readings = findings_of_readings(question_);
    const bool beside_training = std::any_of(found.begin(), found.end(), [](const Finding& one) {
      return one.certainty >= 0.7 && (one.cause == Cause::kFullCheckpointOnRank0 ||
                                      one.cause == Cause::kEvaluationOrGenerationCache);
    });
    // A run that ended of something else did not end where it is highest.
    if (result_.has_failure && result_.failure.kind != MemoryFailure::Kind::kDeviceAllocator)
      std::erase_if(readings,
                    [](const Finding& one) { return one.cause == Cause::kPipelineFirstStage; });
    for (Finding& finding : readings)
      if (beside_training && finding.cause == Cause::kLongestBatch) finding.certainty *= 0.6;
    return readings;
  }

  // Dumps of all ranks may show several that hold the others up: each is as much the cause as the first.
  void add_other_culprits(std::vector<Finding>& of_text) const {
    if (of_text.empty() || result_.failure.backend != kFlightRecorder) return;
    for (const Evidence& one : question_.evidence)
      for (const MemoryFailure& failure : one.failures)
        if (failure.backend == kFlightRecorder && failure.message != result_.failure.message)
          of_text.front().proof.push_back({failure.message, std::nullopt, failure.place});
  }

  void look_at_snapshot() {
    const Evidence* chosen = nullptr;
    for (const Evidence& one : question_.evidence) {
      if (!one.moments || one.moments->empty()) continue;
      const auto better = [&](const DeviceMoment& a, const DeviceMoment& b) {
        const bool failed = a.kind == DeviceMoment::Kind::kFailure;
        if (failed != (b.kind == DeviceMoment::Kind::kFailure)) return failed;
        return a.live > b.live;
      };
      if (chosen == nullptr || better(one.moments->front(), chosen->moments->front()))
        chosen = &one;
    }
    if (chosen == nullptr) return;
    has_snapshot_ = true;
    const DeviceMoment& moment = chosen->moments->front();
    fails_by_name_ = moment.kind != DeviceMoment::Kind::kFailure && named_for_failure(chosen->file);
    std::vector<ExpectedTensor> expected;
    if (question_.job != nullptr && question_.prediction != nullptr &&
        !question_.prediction->ranks.empty())
      expected =
          expected_tensors(*question_.job, rank_index_of(*question_.prediction, chosen->rank));
    const Attribution attribution = attribute(*chosen->history, moment, expected);
    const SnapshotView view{chosen, &moment, &attribution};
    std::optional<Bytes> capacity = result_.failure.capacity;
    if (capacity && result_.failure.other_processes)
      capacity = *capacity - *result_.failure.other_processes;
    if (!capacity && question_.prediction != nullptr) capacity = question_.prediction->capacity;
    snapshot_findings_ = findings_of_snapshot(view, question_, capacity);
    if (!moment.consistent) return;
    result_.has_piles = true;
    result_.piles = attribution.piles;
    result_.unaccounted = attribution.unaccounted;
    result_.by_rule = attribution.by_rule;
    result_.slack = Bytes(std::max<std::int64_t>(moment.reserved - moment.live, 0));
    if (capacity && moment.kind == DeviceMoment::Kind::kFailure)
      result_.runtime = Bytes(std::max<std::int64_t>(
          capacity->value().value() - moment.reserved - moment.device_free, 0));
    result_.groups = attribution.groups;
    if (result_.groups.size() > 40) result_.groups.resize(40);
    result_.device = moment.device;
    result_.rank = chosen->rank;
    result_.phase = std::string(name_of(attribution.part));
    if (moment.kind != DeviceMoment::Kind::kState) {
      result_.event = static_cast<std::int64_t>(moment.event);
      result_.step = attribution.steps_before + 1;
    }
    if (!result_.has_failure) {
      result_.failure.allocated = Bytes(moment.live + moment.rounding);
      result_.failure.reserved = Bytes(moment.reserved);
    }
  }

  void decide() {
    // The line at which a device is full is often not the line that filled it: a text alone never makes that sure.
    if (question_.job == nullptr && !has_snapshot_)
      for (Finding& finding : result_.findings)
        if (fills_in_passing(finding.cause))
          finding.certainty = std::min(finding.certainty, kSurestOfText);
    std::stable_sort(result_.findings.begin(), result_.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.certainty > b.certainty; });
    result_.findings.erase(
        std::remove_if(result_.findings.begin(), result_.findings.end(),
                       [](const Finding& finding) { return finding.certainty < kWorthNaming; }),
        result_.findings.end());
    if (result_.findings.size() > kMostFindings) result_.findings.resize(kMostFindings);
    // Without a failure growth alone is one to come; where a run that lives is highest is no fault of it.
    const bool will_die =
        !has_snapshot_ &&
        std::any_of(result_.findings.begin(), result_.findings.end(),
                    [](const Finding& one) { return one.cause != Cause::kPipelineFirstStage; });
    const bool died = result_.has_failure || fails_by_name_ || will_die;
    result_.verdict = died && !result_.findings.empty() ? result_.findings[0].cause
                      : died                            ? Cause::kActivations
                                                        : Cause::kHealthy;
    // Where nothing failed nothing is too large for its device.
    if (!died)
      result_.findings.erase(std::remove_if(result_.findings.begin(), result_.findings.end(),
                                            [](const Finding& finding) {
                                              return finding.cause == Cause::kModelTooLarge;
                                            }),
                             result_.findings.end());
    if (died && result_.findings.empty())
      result_.notes.emplace_back("nothing in the evidence says what filled the device");
  }

  void say_when() {
    if (!result_.has_failure) return;
    const MemoryFailure& failure = result_.failure;
    if (failure.rank) result_.rank = failure.rank;
    if (!result_.device && failure.device) result_.device = failure.device;
    if (failure.step) result_.step = failure.step;
    if (result_.phase.empty()) result_.phase = failure.phase;
    result_.time = failure.time;
    if (failure.own_process && failure.allocated) {
      const std::int64_t cached = failure.unallocated ? failure.unallocated->value().value() : 0;
      const std::int64_t outside =
          failure.own_process->value().value() - failure.allocated->value().value() - cached;
      if (outside >= 0) result_.outside = Bytes(outside);
    }
  }

  void compare() {
    if (question_.prediction == nullptr || question_.prediction->ranks.empty()) return;
    if (result_.highest) {
      const RankPrediction& highest =
          question_.prediction->ranks[rank_index_of(*question_.prediction, result_.highest->rank)];
      result_.highest->predicted_allocated = highest.allocated;
      result_.highest->predicted_reserved = highest.reserved;
    }
    const RankPrediction& rank =
        question_.prediction->ranks[rank_index_of(*question_.prediction, result_.rank)];
    Phase phase = rank.phase;
    if (result_.phase == "loss" || result_.phase == "forward") phase = Phase::kForward;
    if (result_.phase == "backward") phase = Phase::kBackward;
    if (result_.phase == "optimizer") phase = Phase::kOptimizer;
    if (result_.phase == "load") phase = Phase::kLoad;
    if (result_.phase == "checkpoint") phase = Phase::kCheckpoint;
    const bool first = result_.step && *result_.step <= 1;
    for (const PhasePrediction& one : first && !rank.first_step.phases.empty() &&
                                              phase != Phase::kLoad && phase != Phase::kCheckpoint
                                          ? rank.first_step.phases
                                          : rank.phases)
      if (one.phase == phase) result_.against = one;
    if (!result_.against || !result_.has_piles) return;
    for (int index = 0; index < kPileCount; ++index) {
      const auto pile = static_cast<Pile>(index);
      result_.growth.push_back(
          {std::string(name_of(pile)), result_.piles[pile], result_.against->piles[pile]});
    }
  }

  const DiagnosisQuestion& question_;
  Diagnosis result_;
  std::vector<Finding> snapshot_findings_;
  bool has_snapshot_ = false, fails_by_name_ = false;
};

}  // namespace

Finding proven(Cause cause, double certainty, std::string text, std::optional<std::int64_t> bytes,
               EvidencePlace place) {
  Finding finding;
  finding.cause = cause;
  finding.certainty = certainty;
  finding.proof.push_back(
      {std::move(text), bytes ? std::optional(Bytes(*bytes)) : std::nullopt, std::move(place)});
  return finding;
}

std::size_t rank_index_of(const Prediction& prediction, std::optional<std::int64_t> rank) {
  for (std::size_t index = 0; index < prediction.ranks.size(); ++index)
    if (rank && *rank >= prediction.ranks[index].rank &&
        *rank < prediction.ranks[index].rank + prediction.ranks[index].replicas)
      return index;
  std::size_t fullest = 0;
  for (std::size_t index = 1; index < prediction.ranks.size(); ++index)
    if (prediction.ranks[index].device > prediction.ranks[fullest].device) fullest = index;
  return fullest;
}

Diagnosis diagnose(const DiagnosisQuestion& question) { return Diagnosing(question).run(); }

}  // namespace steelyard
