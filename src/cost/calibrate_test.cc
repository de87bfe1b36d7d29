#include "cost/calibrate.h"

#include <gtest/gtest.h>

#include "document/read.h"
#include "job/read.h"

namespace steelyard {
namespace {

std::shared_ptr<const Job> job_with(int micro_batch, int sequence,
                                    const char* device = "h100-sxm-80gb") {
  const std::string text =
      std::string("model = \"llama-3.2-1b\"\n[cluster]\ndevices = 1\ndevice = \"") + device +
      "\"\n[training]\nmicro_batch = " + std::to_string(micro_batch) +
      "\nsequence_length = " + std::to_string(sequence) + "\n";
  const auto job = read_job(*read_toml(text, "run.toml"));
  EXPECT_TRUE(job);
  return std::make_shared<const Job>(*job);
}

TEST(Calibrate, FindsWhatAnotherMachineReaches) {
  // Steps of a machine whose products reach 0.45 of the peak.
  AchievedRates other = achieved_rates(*find_device("h100-sxm-80gb").device);
  other.product.expected = 0.45;
  std::vector<MeasuredStep> steps;
  for (const auto& [micro_batch, sequence] :
       {std::pair{8, 2048}, {4, 4096}, {16, 1024}, {2, 8192}}) {
    const auto job = job_with(micro_batch, sequence);
    const RatesInForce scope(other);
    steps.push_back({job, step_time(*job, *usual_machine(*job->cluster.device)).step.value()});
  }
  const auto found = calibrate(steps);
  ASSERT_TRUE(found);
  EXPECT_GT(found->error_before, 5);
  EXPECT_LT(found->error_after, 1);
  EXPECT_LT(found->error_held_out, 2);
  EXPECT_NEAR(found->rates.product.expected, 0.45, 0.02);
  EXPECT_LT(found->rates.product.low, found->rates.product.expected);
  EXPECT_GT(found->rates.product.high, found->rates.product.expected);
  const RatesInForce scope(found->rates);
  for (const MeasuredStep& step : steps) {
    const Cluster& cluster = step.job->cluster;
    const StepTime time = StepClock(*step.job).read(*cluster.device, *cluster.machine);
    EXPECT_LT(time.low, time.step);
    EXPECT_GT(time.high, time.step);
  }
  const auto again =
      read_rates(rates_text(found->rates, [](std::string_view) { return "test"; }), "x");
  ASSERT_TRUE(again) << again.error();
  EXPECT_NEAR(again->product.expected, found->rates.product.expected, 1e-9);
}

TEST(Calibrate, LeavesAloneWhatIsRight) {
  std::vector<MeasuredStep> steps;
  for (const int micro_batch : {1, 4, 16}) {
    const auto job = job_with(micro_batch, 2048);
    steps.push_back({job, step_time(*job, *usual_machine(*job->cluster.device)).step.value()});
  }
  const auto found = calibrate(steps);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->moved.empty());
}

TEST(Calibrate, SaysWhyItCannot) {
  EXPECT_FALSE(calibrate({}));
  EXPECT_FALSE(calibrate({{job_with(1, 1024), 1.0}, {job_with(1, 1024, "a100-sxm-80gb"), 1.0}}));
}

}  // namespace
}  // namespace steelyard
