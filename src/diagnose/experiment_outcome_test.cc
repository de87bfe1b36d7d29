#include "diagnose/experiment_outcome.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

using Kind = ExperimentOutcome::Kind;

Bytes gibi(std::int64_t count) { return Bytes(count << 30); }

PlannedExperiments plan() {
  PlannedExperiments plan;
  plan.peak = gibi(100);
  plan.causes = {proven(Cause::kActivations, 0.6, "a", {}, {}),
                 proven(Cause::kLogits, 0.5, "b", {}, {})};
  Experiment chunked;
  chunked.change = "training.loss = chunked";
  chunked.expect = {{Cause::kActivations, Bytes()}, {Cause::kLogits, gibi(40)}};
  plan.runs = {chunked};
  return plan;
}

Diagnosis after(Kind kind, std::int64_t peak) {
  return decided_by(plan(), {{kind, gibi(peak), {"log", "line 3"}}});
}

TEST(ExperimentOutcome, ThePeakDecides) {
  EXPECT_EQ(after(Kind::kPeak, 61).verdict, Cause::kLogits);
  EXPECT_GT(after(Kind::kPeak, 61).findings[0].certainty, 0.85);
  EXPECT_EQ(after(Kind::kPeak, 61).findings.size(), 1U);
  EXPECT_EQ(after(Kind::kPeak, 99).verdict, Cause::kActivations);
}

TEST(ExperimentOutcome, ARunThatFailedAgainFellByThatAtMost) {
  // With 95 allocated and requested the logits' 40 did not go.
  EXPECT_EQ(after(Kind::kFailed, 95).verdict, Cause::kActivations);
  // With 50 on a smaller device both are possible, and no more is known.
  const Diagnosis open = after(Kind::kFailed, 50);
  ASSERT_EQ(open.findings.size(), 2U);
  EXPECT_LT(open.findings[0].certainty, 0.6);
}

TEST(ExperimentOutcome, APeakThatNoCauseExplainsLeavesNoneSure) {
  const Diagnosis odd = after(Kind::kPeak, 80);
  EXPECT_LT(odd.findings[0].certainty, 0.5);
  ASSERT_FALSE(odd.notes.empty());
  EXPECT_NE(odd.notes.back().find("none of these causes"), std::string::npos);
}

TEST(ExperimentOutcome, WithoutEvidenceTheCausesRemain) {
  const Diagnosis same = decided_by(plan(), {});
  EXPECT_EQ(same.verdict, Cause::kActivations);
  EXPECT_EQ(same.findings[0].certainty, 0.6);
  ASSERT_EQ(same.experiments.size(), 1U);
}

TEST(ExperimentOutcome, IsTheHighestPeakOrTheFailure) {
  Evidence log;
  log.readings.resize(2);
  log.readings[0].max_allocated = gibi(7);
  log.readings[1].max_allocated = gibi(5);
  EXPECT_EQ(outcome_of({&log, 1}).peak, gibi(7));
  EXPECT_EQ(outcome_of({&log, 1}).kind, Kind::kPeak);
  log.failures.resize(1);
  log.failures[0].kind = MemoryFailure::Kind::kDeviceAllocator;
  log.failures[0].allocated = gibi(8);
  log.failures[0].tried = gibi(1);
  EXPECT_EQ(outcome_of({&log, 1}).kind, Kind::kFailed);
  EXPECT_EQ(outcome_of({&log, 1}).peak, gibi(9));
  EXPECT_EQ(outcome_of({}).kind, Kind::kMissing);
}

}  // namespace
}  // namespace steelyard
