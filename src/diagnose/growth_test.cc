#include "diagnose/growth.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;

// One reading every ten steps.
Evidence log_of(const std::vector<std::int64_t>& gibibytes) {
  Evidence evidence;
  evidence.file = "train.log";
  std::int64_t step = 0;
  for (const std::int64_t amount : gibibytes) {
    MemoryReading reading;
    reading.source = "megatron";
    reading.step = step += 10;
    reading.allocated = Bytes(amount * kGibibyte);
    evidence.readings.push_back(reading);
  }
  return evidence;
}

GrowthVerdict growth_of_log(const std::vector<std::int64_t>& gibibytes) {
  const std::vector<Evidence> evidence = {log_of(gibibytes)};
  const auto series = series_of(evidence);
  return series.empty() ? GrowthVerdict{} : growth_of(series[0]);
}

TEST(Growth, SteadyRiseIsALeak) {
  const GrowthVerdict growth = growth_of_log({20, 40, 41, 42, 43, 44, 45, 46});
  EXPECT_EQ(growth.kind, GrowthVerdict::Kind::kSteady);
  EXPECT_EQ(growth.per_step, kGibibyte / 10);
  EXPECT_EQ(growth.first_step, 20);
}

TEST(Growth, OneHighStepIsASpike) {
  const GrowthVerdict growth = growth_of_log({40, 40, 40, 40, 40, 58, 40, 40});
  EXPECT_EQ(growth.kind, GrowthVerdict::Kind::kSpike);
  EXPECT_EQ(growth.highest_step, 60);
  EXPECT_EQ(growth.highest - growth.median, 18 * kGibibyte);
}

TEST(Growth, OneRiseOfAPeakSinceTheStartIsASpike) {
  const GrowthVerdict growth = growth_of_log({40, 40, 40, 40, 40, 58, 58, 58});
  EXPECT_EQ(growth.kind, GrowthVerdict::Kind::kSpike);
  EXPECT_EQ(growth.highest_step, 60);
}

TEST(Growth, FirstStepsAndBatchesOfAllLengthsAreNoLeak) {
  EXPECT_EQ(growth_of_log({20, 40, 40, 40, 40, 40, 40}).kind, GrowthVerdict::Kind::kFlat);
  EXPECT_EQ(growth_of_log({40, 50, 30, 60, 35, 55, 44}).kind, GrowthVerdict::Kind::kVarying);
  EXPECT_EQ(growth_of_log({40, 41, 42}).kind, GrowthVerdict::Kind::kTooFew);
}

TEST(Growth, ALaunchThatBeginsAgainForgets) {
  Evidence evidence = log_of({40, 41, 42, 43, 44, 45, 46});
  const Evidence again = log_of({40, 40});
  evidence.readings.insert(evidence.readings.end(), again.readings.begin(), again.readings.end());
  const std::vector<Evidence> all = {evidence};
  EXPECT_EQ(growth_of(series_of(all)[0]).kind, GrowthVerdict::Kind::kTooFew);
}

}  // namespace
}  // namespace steelyard
