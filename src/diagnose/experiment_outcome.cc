#include "diagnose/experiment_outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evidence/replay.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

// How far a peak may lie from what was expected: predictions of a peak are this exact, as a share of it.
constexpr double kExpectedToWithin = 0.05;
// That it is none of the causes: as likely as a cause that was half expected, and misses by two such shares.
constexpr double kNoneBefore = 0.25, kNoneMisses = 2;
constexpr double kSurest = 0.97, kRefuted = 0.05;

double plain(Bytes bytes) { return static_cast<double>(bytes.value().value()); }

void raise(ExperimentOutcome& outcome, ExperimentOutcome::Kind kind, Bytes peak,
           const EvidencePlace& place) {
  const bool failed_before = outcome.kind == ExperimentOutcome::Kind::kFailed;
  const bool fails = kind == ExperimentOutcome::Kind::kFailed;
  if (fails || (!failed_before && outcome.kind != ExperimentOutcome::Kind::kPeak))
    outcome.kind = kind;
  if (peak <= outcome.peak) return;
  outcome.peak = peak;
  outcome.place = place;
}

// By how many of the usual errors the outcome misses what this cause demands.
double miss_of(const ExperimentOutcome& outcome, Bytes before, Bytes expected) {
  const double error = kExpectedToWithin * std::max(plain(before), 1.0);
  const double fell = plain(before) - plain(outcome.peak);
  const double off = plain(expected) - fell;
  // Of a run that failed again the fall is at most this.
  if (outcome.kind == ExperimentOutcome::Kind::kFailed) return std::max(off, 0.0) / error;
  return std::abs(off) / error;
}

double likeness(double miss) { return std::exp(-miss * miss / 2); }

Bytes expected_of(const Experiment& run, Cause cause) {
  for (const auto& [of, bytes] : run.expect)
    if (of == cause) return bytes;
  return {};
}

// "run 1, training.loss = chunked: peak 44.3 GiB, 46.8 GiB lower; the logits must lower it by 47.0 GiB"
std::string outcome_words(std::size_t number, const Experiment& run,
                          const ExperimentOutcome& outcome, Bytes before, Cause cause) {
  const Bytes expected = std::max(expected_of(run, cause), Bytes());
  const bool failed = outcome.kind == ExperimentOutcome::Kind::kFailed;
  const Bytes fell = before - outcome.peak;
  const std::string change =
      fell >= Bytes() ? print(fell) + " lower" : print(Bytes() - fell) + " higher";
  return fmt::format("run {}, {}: {} {}{}; {} must lower it by {}", number, run.change,
                     failed ? "failed again at" : "peak", print(outcome.peak),
                     failed ? fmt::format(", at most {}", change) : ", " + change,
                     facts_of(cause).title, print(expected));
}

// A cause that the runs refute is told as that, and no longer as one that it may be.
void leave_out_refuted(Diagnosis& result) {
  std::string refuted;
  for (std::size_t i = 1; i < result.findings.size();) {
    if (result.findings[i].certainty >= kRefuted) {
      ++i;
      continue;
    }
    refuted +=
        (refuted.empty() ? "" : ", ") + std::string(facts_of(result.findings[i].cause).title);
    result.findings.erase(result.findings.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (!refuted.empty()) result.notes.insert(result.notes.begin(), "the runs rule out " + refuted);
}

}  // namespace

PlannedExperiments planned_experiments(const Diagnosis& diagnosis) {
  return {diagnosis.run, {}, diagnosis.experiment_peak, diagnosis.findings, diagnosis.experiments};
}

ExperimentOutcome outcome_of(std::span<const Evidence> evidence) {
  ExperimentOutcome outcome;
  if (!evidence.empty()) outcome.kind = ExperimentOutcome::Kind::kSilent;
  using Kind = ExperimentOutcome::Kind;
  for (const Evidence& one : evidence) {
    for (const MemoryReading& reading : one.readings)
      if (reading.max_allocated) raise(outcome, Kind::kPeak, *reading.max_allocated, reading.place);
    for (const MemoryFailure& failure : one.failures)
      if (failure.kind == MemoryFailure::Kind::kDeviceAllocator && failure.fatal &&
          failure.allocated)
        raise(outcome, Kind::kFailed, *failure.allocated + failure.tried.value_or(Bytes()),
              failure.place);
    if (!one.moments) continue;
    for (const DeviceMoment& moment : *one.moments) {
      if (moment.kind == DeviceMoment::Kind::kState || !moment.consistent) continue;
      const bool failed = moment.kind == DeviceMoment::Kind::kFailure;
      raise(outcome, failed ? Kind::kFailed : Kind::kPeak,
            Bytes(moment.live + moment.rounding + (failed ? moment.tried : 0)),
            {one.file, fmt::format("event {}",
                                   print_count(Checked(static_cast<std::int64_t>(moment.event))))});
    }
  }
  return outcome;
}

Diagnosis decided_by(const PlannedExperiments& plan,
                     const std::vector<ExperimentOutcome>& outcomes) {
  Diagnosis result;
  result.run = plan.run;
  result.findings = plan.causes;
  result.experiment_peak = plan.peak;
  std::vector<double> weight;
  weight.reserve(plan.causes.size());
  for (const Finding& cause : plan.causes) weight.push_back(cause.certainty);
  double none = kNoneBefore;
  std::size_t told = 0;
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    const ExperimentOutcome outcome = i < outcomes.size() ? outcomes[i] : ExperimentOutcome();
    if (outcome.kind == ExperimentOutcome::Kind::kMissing ||
        outcome.kind == ExperimentOutcome::Kind::kSilent) {
      result.experiments.push_back(plan.runs[i]);
      result.notes.push_back(fmt::format(
          "run {}, {}: {}", i + 1, plan.runs[i].change,
          outcome.kind == ExperimentOutcome::Kind::kMissing
              ? "no evidence of it yet"
              : "its files do not say the peak: print torch.cuda.max_memory_allocated()"));
      continue;
    }
    ++told;
    for (std::size_t c = 0; c < plan.causes.size(); ++c)
      weight[c] *=
          likeness(miss_of(outcome, plan.peak, expected_of(plan.runs[i], plan.causes[c].cause)));
    none *= likeness(kNoneMisses);
    for (std::size_t c = 0; c < plan.causes.size(); ++c) {
      Finding& finding = result.findings[c];
      // Before what was known of it: the outcomes decide.
      finding.proof.insert(finding.proof.begin() + static_cast<std::ptrdiff_t>(
                                                       std::min(told - 1, finding.proof.size())),
                           {outcome_words(i + 1, plan.runs[i], outcome, plan.peak, finding.cause),
                            outcome.peak, outcome.place});
    }
  }
  if (result.findings.empty()) return result;
  if (told > 0) {
    double all = none;
    for (const double one : weight) all += one;
    for (std::size_t c = 0; c < weight.size(); ++c)
      result.findings[c].certainty = std::min(kSurest, weight[c] / all);
    if (none * 2 > all)
      result.notes.emplace_back("none of these causes explains what the runs showed");
  }
  std::stable_sort(result.findings.begin(), result.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.certainty > b.certainty; });
  result.verdict = result.findings.front().cause;
  leave_out_refuted(result);
  return result;
}

}  // namespace steelyard
