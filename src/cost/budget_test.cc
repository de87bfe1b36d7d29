#include "cost/budget.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

Job job_on(const char* device) {
  Job job;
  job.cluster.device =
      std::shared_ptr<const Device>(find_device(device).device, [](const Device*) {});
  job.cluster.devices = Ranks(64);
  job.training.global_batch = 512;
  job.training.sequence_length = Tokens(4096);
  return job;
}

TEST(Budget, StepsTimeMoneyAndEnergy) {
  StepTime time;
  time.step = Seconds(7.2);
  const Budget budget = budget_of(job_on("h100-sxm-80gb"), time, 512.0 * 4096 * 1000, 2.0);
  EXPECT_DOUBLE_EQ(budget.steps, 1000);
  EXPECT_DOUBLE_EQ(budget.seconds, 7200);
  EXPECT_DOUBLE_EQ(budget.device_hours, 128);
  EXPECT_DOUBLE_EQ(budget.dollars.value(), 256);
  EXPECT_DOUBLE_EQ(budget.kilowatt_hours.value(), 128 * 0.7);
}

TEST(Budget, PricesAreOfADayAndOftenUnknown) {
  StepTime time;
  time.step = Seconds(1);
  const Budget known = budget_of(job_on("h100-sxm-80gb"), time, 1e9, std::nullopt);
  EXPECT_TRUE(known.dollars);
  EXPECT_NE(known.price_source.find("20"), std::string::npos);
  EXPECT_FALSE(budget_of(job_on("mi300x"), time, 1e9, std::nullopt).dollars);
}

}  // namespace
}  // namespace steelyard
