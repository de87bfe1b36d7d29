#include "plan/recompute_choice.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "document/read.h"
#include "plan/fewest_recomputed.h"
#include "predict/prediction.h"

namespace steelyard {
namespace {

ReadJob plain_read(const Value& run) { return read_job(run); }

const char* const kLongSequences =
    R"({"model": "llama-3.1-8b", "engine": "fsdp2", "cluster": {"device": "h100-sxm-80gb", "devices": 8},)"
    R"( "training": {"sequence_length": 16384}, "recompute": {"mode": "budget"}})";

TEST(RecomputeChoice, TakesTheFewestLayersThatFit) {
  const Value run = *read_json(kLongSequences, "run");
  ASSERT_TRUE(asks_for_recompute_choice(run));
  const ReadJob chosen = with_recompute_chosen(run, plain_read);
  ASSERT_TRUE(chosen);
  ASSERT_EQ(chosen->recompute.mode, RecomputeMode::kBlock);
  EXPECT_EQ(predict(*chosen).verdict, Verdict::kFits);
  Job fewer = *chosen;
  fewer.recompute.layers = Layers(chosen->recompute.layers.value() - 1);
  EXPECT_NE(predict(fewer).verdict, Verdict::kFits);
  EXPECT_EQ(chosen->assumptions.back().key, "recompute.mode");
}

TEST(RecomputeChoice, KeepsEverythingWhereItFits) {
  Value run = *read_json(kLongSequences, "run");
  set_path(run, "training.sequence_length", Value::integer(1024), {});
  const ReadJob chosen = with_recompute_chosen(run, plain_read);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->recompute.mode, RecomputeMode::kNone);
}

TEST(RecomputeChoice, LeavesTheBudgetOfCompiledGraphsToTheReader) {
  Value run = *read_json(kLongSequences, "run");
  set_path(run, "recompute.budget", Value::number(0.5), {});
  EXPECT_FALSE(asks_for_recompute_choice(run));
}

// Why halving is allowed: no layer more that is computed again needs more memory, up to the last but one. Where hardly any
// layer is kept whole, the highest moment is no longer at the loss but in the first layer that runs again.
TEST(RecomputeChoice, MoreLayersComputedAgainNeverNeedMore) {
  std::mt19937 random(7);
  const auto one_of = [&](auto... choices) {
    const std::common_type_t<decltype(choices)...> all[] = {choices...};
    return all[random() % sizeof...(choices)];
  };
  for (int problem = 0; problem < 60; ++problem) {
    const int pipeline = one_of(1, 2, 4);
    const std::string run = fmt::format(
        R"({{"model": "{}", "engine": "{}", "cluster": {{"device": "h100-sxm-80gb", "devices": 16}},)"
        R"( "training": {{"sequence_length": {}, "micro_batch": {}, "gradient_accumulation": 8}},)"
        R"( "parallel": {{"pipeline": {}}}, "recompute": {{"mode": "block", "layers": 1}}}})",
        one_of("llama-3.1-8b", "qwen2.5-7b", "gpt2-xl"),
        pipeline > 1 ? "megatron" : one_of("megatron", "fsdp2", "deepspeed"),
        one_of(1024, 4096, 8192), one_of(1, 2), pipeline);
    const ReadJob read = read_job(*read_json(run, "run"));
    if (!read) continue;
    Job job = *read;
    Bytes device{std::numeric_limits<std::int64_t>::max()}, high = device;
    for (std::int64_t layers = 1; layers + 2 <= job.model->layers / pipeline; ++layers) {
      job.recompute.layers = Layers(layers);
      const PeakPrediction peak = estimate(job).peak;
      EXPECT_LE(peak.device, device) << layers << " layers of " << run;
      EXPECT_LE(peak.high, high) << layers << " layers of " << run;
      device = peak.device;
      high = peak.high;
    }
  }
}

TEST(FewestRecomputed, AsksAsOftenAsHalvingDoes) {
  int asked = 0;
  EXPECT_EQ(fewest_recomputed(1, 8, [&](std::int32_t layers) { return ++asked, layers >= 5; }), 5);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(fewest_recomputed(3, 3, [](std::int32_t) { return false; }), 3);
}

}  // namespace
}  // namespace steelyard
