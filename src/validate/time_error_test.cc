#include "validate/time_error.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

TEST(TimeErrors, MeanMedianAndSign) {
  TimeErrors errors;
  errors.add(1.0, 1.1);
  errors.add(2.0, 1.9);
  errors.add(4.0, 4.0);
  const TimeFigures figures = errors.figures();
  EXPECT_EQ(figures.rows, 3);
  EXPECT_NEAR(figures.mean, 5, 1e-9);
  EXPECT_NEAR(figures.median, 5, 1e-9);
  EXPECT_NEAR(figures.largest, 10, 1e-9);
  EXPECT_NEAR(figures.bias, 0, 1e-9);
  EXPECT_NEAR(figures.rank_correlation, 1, 1e-9);
  EXPECT_NEAR(figures.of_median, (100 + 0 + 50) / 3.0, 1e-9);
}

TEST(TimeErrors, RanksFallWhereTheOrderIsReversed) {
  TimeErrors errors;
  for (int i = 1; i <= 5; ++i) errors.add(i, 6 - i);
  EXPECT_NEAR(errors.figures().rank_correlation, -1, 1e-9);
  TimeErrors tied;
  tied.add(1, 3);
  tied.add(1, 4);
  tied.add(2, 5);
  EXPECT_NEAR(tied.figures().rank_correlation, 0.866, 1e-3);
}

TEST(TimeErrors, NothingMeasuredIsNoError) { EXPECT_EQ(TimeErrors().figures().rows, 0); }

}  // namespace
}  // namespace steelyard
