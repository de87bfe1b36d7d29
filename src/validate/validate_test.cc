#include "validate/validate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "document/read.h"
#include "job/read.h"
#include "predict/prediction.h"
#include "validate/own_runs.h"

namespace steelyard {
namespace {

tl::expected<JudgedRow, Diagnostic> judge_row(const Value& document, std::string_view name) {
  auto judged = judge(document, name, own_runs());
  if (!judged) return tl::unexpected(judged.error());
  return judged->front();
}

Value read(std::string_view json) { return read_json(json, "test").value(); }

// A run of a small model, and what we say of it.
constexpr const char* kRun =
    R"({"model": "gpt2", "engine": "ddp", "cluster": {"device": "a100-sxm-80gb", "devices": 1},
        "training": {"sequence_length": 1024, "micro_batch": 1}})";
Prediction prediction() { return predict(read_job(read(kRun)).value()); }

// By its name: a run has not every phase.
PhasePrediction predicted(Phase phase) {
  const Prediction whole = prediction();
  for (const PhasePrediction& one : whole.ranks.front().phases)
    if (one.phase == phase) return one;
  ADD_FAILURE() << "no phase " << name_of(phase);
  return {};
}
Bytes allocated(Phase phase) { return predicted(phase).allocated; }

Value record(Bytes forward, std::string_view piles = "{}") {
  return read(fmt::format(
      R"({{"schema": "steelyard.record/1", "run": {}, "phases": [
          {{"step": "steady", "phase": "forward", "allocated_bytes": {}, "resident_bytes": 0, "piles": {}}},
          {{"step": "owners", "phase": "forward", "allocated_bytes": 7, "resident_bytes": 0}}]}})",
      kRun, forward.value().value(), piles));
}

TEST(JudgeRow, ARecordCanBeEqualToTheByte) {
  const auto judged = judge_row(record(allocated(Phase::kForward)), "small");
  ASSERT_TRUE(judged);
  EXPECT_EQ(judged->id, "small");
  EXPECT_EQ(judged->source, kRecords);
  ASSERT_EQ(judged->readings.size(), 1U);  // other passes are not counted twice
  EXPECT_EQ(judged->readings[0].predicted, allocated(Phase::kForward));
  EXPECT_EQ(label_of(judged->readings[0].reading), "later forward");
  EXPECT_EQ(judged->readings[0].suspect, "");
}

TEST(JudgeRow, ARecordKnowsWhichPileDiffers) {
  const PhasePrediction phase = predicted(Phase::kForward);
  const auto bytes = [&phase](Pile pile) { return phase.piles[pile].value().value(); };
  const auto judged = judge_row(
      record(
          phase.allocated + 5_MiB,
          fmt::format(
              R"({{"parameters": {}, "gradients": {}, "optimizer_state": {}, "activations": {}, "temporary": {}}})",
              bytes(Pile::kParameters), bytes(Pile::kGradients),
              bytes(Pile::kMasterWeights) + bytes(Pile::kOptimizerMoments),
              bytes(Pile::kActivations) + 5 * 1024 * 1024, bytes(Pile::kTemporary))),
      "small");
  ASSERT_TRUE(judged);
  EXPECT_EQ(judged->readings[0].suspect, "activations");
}

TEST(JudgeRow, WhatIsMissingPointsAtTheSmallestPileThatCouldHoldIt) {
  const PhasePrediction phase = predicted(Phase::kForward);
  Bytes largest{};
  std::string name;
  for (std::size_t pile = 0; pile < kPileCount; ++pile)
    if (phase.piles.bytes[pile] > largest) {
      largest = phase.piles.bytes[pile];
      name = std::string(name_of(static_cast<Pile>(pile)));
    }
  std::replace(name.begin(), name.end(), '_', ' ');
  // Without piles of its own, only the size of the error speaks.
  const auto suspect = [](Bytes measured) {
    const Value plain = read(fmt::format(R"({{"schema": "steelyard.record/1", "run": {}, "phases": [
        {{"step": "steady", "phase": "forward", "allocated_bytes": {}}}]}})",
                                         kRun, measured.value().value()));
    return judge_row(plain, "small")->readings[0].suspect;
  };
  EXPECT_EQ(suspect(phase.allocated + largest), name);
  EXPECT_EQ(suspect(phase.allocated + largest + 1_B), "");
  EXPECT_EQ(suspect(phase.allocated - 1_B), name);
}

TEST(JudgeRow, WhatWeCannotWeighIsRefusedNotAnError) {
  const auto judged = judge_row(
      read(
          R"({"schema": "steelyard.record/1", "run": {"model": "gpt2", "cluster": {"device": "a100-sxm-80gb"},
               "cuda_graphs": "module"}, "phases": []})"),
      "compiled");
  ASSERT_TRUE(judged);
  EXPECT_FALSE(judged->weighed());
  EXPECT_NE(judged->refused, "");
}

TEST(JudgeRow, NeitherRecordNorRow) {
  EXPECT_FALSE(judge_row(read("{}"), "x"));
  EXPECT_FALSE(judge_row(read("[1, 2]"), "x"));
  EXPECT_FALSE(judge_row(read(R"({"id": "a"})"), "x"));
  EXPECT_FALSE(judge_row(read(R"({"schema": "steelyard.record/1"})"), "x"));
  EXPECT_FALSE(judge_row(
      read(
          R"({"schema": "steelyard.record/1", "run": {}, "phases": [{"step": "first", "phase": "dinner"}]})"),
      "x"));
}

TEST(JudgeRow, ASourceThatNobodyReadsIsCounted) {
  const auto judged = judge_row(read(R"({"id": "a-1", "source": {"repo": "someone/else"}})"), "x");
  ASSERT_TRUE(judged);
  EXPECT_EQ(judged->source, kUnknownSource);
  EXPECT_EQ(judged->left_out, "no mapper reads someone/else");
}

TEST(Validation, CountsAndWorst) {
  Validation validation(own_runs());
  const Bytes right = allocated(Phase::kForward);
  for (const Bytes measured : {right, right + right, right + 1_B})
    validation.add(*judge_row(record(measured), fmt::format("run-{}", measured.value().value())));
  validation.add(*judge_row(read(R"({"id": "a-1", "source": {"repo": "someone/else"}})"), "x"));
  const std::vector<SourceResult> results = validation.results(1);
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].name, kRecords);
  EXPECT_EQ(results[0].rows, 3);
  EXPECT_EQ(results[0].weighed, 3);
  ASSERT_EQ(results[0].errors.size(), 1U);
  EXPECT_EQ(results[0].errors[0].second.equal, 1);
  ASSERT_EQ(results[0].worst.size(), 1U);
  EXPECT_NEAR(percent_error(results[0].worst[0].second->reading.bytes,
                            results[0].worst[0].second->predicted),
              -50, 1e-9);
  EXPECT_EQ(results[1].name, kUnknownSource);
  EXPECT_EQ(results[1].left_out, 1);
}

TEST(OwnRuns, AreHeldToEachMeterThatTheyPrint) {
  const Prediction said = prediction();
  const std::int64_t reserved = said.ranks.front().reserved.value().value();
  const auto judged = judge_row(
      read(fmt::format(
          R"({{"run": {}, "peak_reserved_bytes": {}, "step_seconds": 0.5, "out_of_memory": false}})",
          kRun, reserved)),
      "runs.jsonl:3");
  ASSERT_TRUE(judged);
  EXPECT_EQ(judged->source, kOwnRuns);
  EXPECT_EQ(judged->id, "runs.jsonl:3");
  ASSERT_EQ(judged->readings.size(), 1U);
  EXPECT_EQ(judged->readings[0].predicted, Bytes(reserved));
  ASSERT_TRUE(judged->step);
  EXPECT_EQ(judged->step->seconds.measured, 0.5);
  EXPECT_EQ(judged->out_of_memory, false);
}

TEST(OwnRuns, AMisspeltMeasurementIsNotPassedOver) {
  const auto why = [](std::string_view members) {
    return judge_row(read(fmt::format(R"({{"run": {}{}}})", kRun, members)), "x")->left_out;
  };
  EXPECT_EQ(why(R"(, "peak_reserved_byte": 5)"),
            R"(unknown key "peak_reserved_byte"; the key is "peak_reserved_bytes")");
  EXPECT_EQ(why(R"(, "step_seconds": -1)"), "step_seconds is no number of seconds");
  EXPECT_EQ(why(R"(, "device_bytes": "80 GiB")"), "device_bytes is no number of bytes");
  EXPECT_EQ(why(""), "nothing was measured of it");
}

}  // namespace
}  // namespace steelyard
