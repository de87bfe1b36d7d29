#include "report/amount.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace steelyard {
namespace {

TEST(Scale, KeepsThreeFiguresAndOneDecimalAboveTen) {
  EXPECT_EQ(number_of(80_GiB, scale_for(80_GiB, Units::kBinary)), "80.0");
  EXPECT_EQ(number_of(8_GiB, scale_for(8_GiB, Units::kBinary)), "8.00");
  EXPECT_EQ(number_of(512_MiB, scale_for(512_MiB, Units::kBinary)), "0.500");
  EXPECT_EQ(amount_of(80_GiB, scale_for(80_GiB, Units::kSi)), "85.9 GB");
  EXPECT_EQ(number_of(80_GiB, scale_for(80_GiB, Units::kBytes)), "85,899,345,920");
}

TEST(Scale, ShowsDeficitsWithTheirSign) {
  const Scale scale = scale_for(80_GiB, Units::kBinary);
  EXPECT_EQ(signed_number_of_ticks(120, scale), "+12.0");
  EXPECT_EQ(signed_number_of_ticks(-2, scale), "-0.2");
  EXPECT_EQ(signed_number_of_ticks(0, scale), "0.0");
  EXPECT_EQ(number_of_ticks(12'345'6, scale), "12,345.6");
}

// A reader adds the printed rows: they must give the printed total.
TEST(Apportioned, PartsAddUpAsPrinted) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Bytes> parts;
    Bytes total{};
    const auto count = 1 + random() % 9;
    for (std::uint64_t i = 0; i < count; ++i) {
      parts.emplace_back(Checked(
          static_cast<std::int64_t>(random() % (std::uint64_t{1} << (20 + random() % 20)))));
      total += parts.back();
    }
    const Scale scale = scale_for(total, Units::kBinary);
    const std::vector<std::int64_t> ticks = apportioned(parts, scale);
    EXPECT_EQ(std::accumulate(ticks.begin(), ticks.end(), std::int64_t{0}), ticks_of(total, scale));
    for (std::size_t i = 0; i < parts.size(); ++i)
      EXPECT_LE(std::abs(ticks[i] - ticks_of(parts[i], scale)), 1);
  }
}

}  // namespace
}  // namespace steelyard
