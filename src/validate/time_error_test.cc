#include "validate/time_error.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

TEST(TimeErrors, MeanMedianAndSign) {
  TimeErrors errors;
  errors.add({1.0, 1.1, 1.0, 1.2});
  errors.add({2.0, 1.9, 1.8, 1.95});
  errors.add({4.0, 4.0, 3.9, 4.1});
  const TimeFigures figures = errors.figures();
  EXPECT_EQ(figures.rows, 3);
  EXPECT_EQ(figures.in_band, 2);
  EXPECT_NEAR(figures.mean, 5, 1e-9);
  EXPECT_NEAR(figures.median, 5, 1e-9);
  EXPECT_NEAR(figures.largest, 10, 1e-9);
  EXPECT_NEAR(figures.bias, 0, 1e-9);
  EXPECT_NEAR(figures.rank_correlation, 1, 1e-9);
  EXPECT_NEAR(figures.of_median, (100 + 0 + 50) / 3.0, 1e-9);
}

TEST(TimeErrors, RanksFallWhereTheOrderIsReversed) {
  TimeErrors errors;
  for (int i = 1; i <= 5; ++i) {
    const double ours = 6 - i;
    errors.add({static_cast<double>(i), ours, ours, ours});
  }
  EXPECT_NEAR(errors.figures().rank_correlation, -1, 1e-9);
  TimeErrors tied;
  tied.add({1, 3, 3, 3});
  tied.add({1, 4, 4, 4});
  tied.add({2, 5, 5, 5});
  EXPECT_NEAR(tied.figures().rank_correlation, 0.866, 1e-3);
}

TEST(TimeErrors, NothingMeasuredIsNoError) { EXPECT_EQ(TimeErrors().figures().rows, 0); }

}  // namespace
}  // namespace steelyard
