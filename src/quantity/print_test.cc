#include "quantity/print.h"

#include <gtest/gtest.h>

#include <limits>

namespace steelyard {
namespace {

constexpr Bytes kLargest = Bytes(std::numeric_limits<std::int64_t>::max());
constexpr Bytes kSmallest = Bytes(std::numeric_limits<std::int64_t>::min());

TEST(Print, MemoryHasOneDecimalAndThreeFiguresBelowTen) {
  EXPECT_EQ(print(80_GiB), "80.0 GiB");
  EXPECT_EQ(print(Bytes(110'810'164'429)), "103.2 GiB");
  EXPECT_EQ(print(Bytes(4'015'794'422)), "3.74 GiB");
  EXPECT_EQ(print(Bytes(558'345'748)), "0.52 GiB");
  EXPECT_EQ(print(0_B), "0.00 GiB");
  EXPECT_EQ(print(1234_GiB), "1,234.0 GiB");
  EXPECT_EQ(print(0_B - 24_GiB), "-24.0 GiB");
}

TEST(Print, RoundingNeverShowsAFourthFigure) {
  EXPECT_EQ(print(10_GiB - 1_B), "10.0 GiB");
  EXPECT_EQ(print(10_GiB - 6_MiB), "9.99 GiB");
  EXPECT_EQ(print(Bytes(1'073'741'824 / 8)), "0.13 GiB");
}

TEST(Print, SomethingNeverPrintsAsNothing) {
  EXPECT_EQ(print(1_B), "<0.01 GiB");
  EXPECT_EQ(print(0_B - 1_B), ">-0.01 GiB");
}

TEST(Print, OtherUnitsOfMemory) {
  EXPECT_EQ(print(Bytes(14'000'000'000), Units::kSi), "14.0 GB");
  EXPECT_EQ(print(Bytes(14'000'000'000), Units::kBytes), "14,000,000,000 B");
  EXPECT_EQ(print(Bytes(14'000'000'000)), "13.0 GiB");
  EXPECT_EQ(print_exact(Bytes(771'751'936)), "771,751,936 B");
  EXPECT_EQ(print_exact(Bytes(-1024)), "-1,024 B");
  EXPECT_EQ(print_block(384_MiB), "384 MiB");
  EXPECT_EQ(print_block(12_KiB + 512_B), "12.5 KiB");
  EXPECT_EQ(print_block(512_B), "512 B");
  EXPECT_EQ(print_signed(2_GiB), "+2.00 GiB");
  EXPECT_EQ(print_signed(0_B - 34_GiB), "-34.0 GiB");
  EXPECT_EQ(print_signed(0_B), "0.00 GiB");
}

TEST(Print, TheEndsOfTheRange) {
  EXPECT_EQ(print(kLargest), "8,589,934,592.0 GiB");
  EXPECT_EQ(print(kSmallest), "-8,589,934,592.0 GiB");
  EXPECT_EQ(print_exact(kSmallest), "-9,223,372,036,854,775,808 B");
}

TEST(Print, RatesAndTimes) {
  EXPECT_EQ(print(BytesPerSecond(450e9)), "450 GB/s");
  EXPECT_EQ(print(BytesPerSecond(3.35e12)), "3,350 GB/s");
  EXPECT_EQ(print(BytesPerSecond(56.25e9)), "56.3 GB/s");
  EXPECT_EQ(print(FlopsPerSecond(989e12)), "989 TFLOP/s");
  EXPECT_EQ(print(Flops(4.2e15)), "4.20 PFLOP");
  EXPECT_EQ(print(Seconds(1.23)), "1.23 s");
  EXPECT_EQ(print(Seconds(0.85)), "850 ms");
  EXPECT_EQ(print(Seconds(20.81)), "20.8 s");
  EXPECT_EQ(print(Seconds(0.9996)), "1.00 s");
  EXPECT_EQ(print(Seconds(0.0000042)), "4.20 us");
  EXPECT_EQ(print(Seconds(0)), "0 s");
  EXPECT_EQ(print_signed(Seconds(0.9)), "+900 ms");
  EXPECT_EQ(print_signed(Seconds(-0.9)), "-900 ms");
  EXPECT_EQ(print(Seconds(std::numeric_limits<double>::infinity())), "unbounded");
  EXPECT_EQ(print(Seconds(std::numeric_limits<double>::quiet_NaN())), "-");
}

TEST(Print, Counts) {
  EXPECT_EQ(print_count(8192), "8,192");
  EXPECT_EQ(print_count(512), "512");
  EXPECT_EQ(print_count(-1'000'000), "-1,000,000");
  EXPECT_EQ(print(Elements(8'030'261'248)), "8,030,261,248");
  EXPECT_EQ(print_parameters(8'030'261'248), "8.03 B");
  EXPECT_EQ(print_parameters(405'853'388'800), "405.9 B");
  EXPECT_EQ(print_parameters(124'439'808), "124 M");
  EXPECT_EQ(print_parameters(999'999'999), "1.00 B");
  EXPECT_EQ(print_parameters(4'194'304), "4.19 M");
  EXPECT_EQ(print_parameters(512), "512");
  EXPECT_EQ(print_percent(0.47), "47 %");
  EXPECT_EQ(print_percent(-0.051), "-5 %");
}

}  // namespace
}  // namespace steelyard
