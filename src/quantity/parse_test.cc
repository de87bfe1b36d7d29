#include "quantity/parse.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

template <class Value>
std::string complaint(const Parsed<Value>& parsed) {
  return parsed ? "parsed" : parsed.error().message;
}

TEST(Parse, BytesInBothUnits) {
  EXPECT_EQ(parse_bytes("80 GiB"), 80_GiB);
  EXPECT_EQ(parse_bytes("80GiB"), 80_GiB);
  EXPECT_EQ(parse_bytes("  80 GB "), Bytes(80'000'000'000));
  EXPECT_EQ(parse_bytes("33,554,432 B"), 32_MiB);
  EXPECT_EQ(parse_bytes("-1.5 KiB"), Bytes(-1536));
  EXPECT_EQ(parse_bytes("0 B"), 0_B);
}

TEST(Parse, BytesAreExactToTheNearestByte) {
  EXPECT_EQ(parse_bytes("79.10 GiB"), Bytes(84'932'978'278));  // 84,932,978,278.4
  EXPECT_EQ(parse_bytes("0.5 B"), 1_B);
  EXPECT_EQ(parse_bytes("0.51587 GiB"), Bytes(553'911'195));               // 553,911,194.7
  EXPECT_EQ(parse_bytes("0.123456789012345678 GiB"), Bytes(132'560'718));  // 132,560,717.8
}

TEST(Parse, ABareNumberIsNotAnAmountOfMemory) {
  EXPECT_EQ(complaint(parse_bytes("80")), R"("80" has no unit: write it as "80 GiB")");
  EXPECT_EQ(complaint(parse_bytes_per_second("450")),
            R"("450" has no unit: write it as "450 GB/s")");
  EXPECT_EQ(complaint(parse_seconds("3")), R"("3" has no unit: write it as "3 s")");
}

TEST(Parse, WhatIsNoNumber) {
  for (const char* text : {"", " ", "GiB", "-", ".", "--1 GiB", "1..2 GiB", "1,,0 B", "_1 B",
                           "nan GiB", "inf GiB", "0x10 B"})
    EXPECT_FALSE(parse_bytes(text)) << text;
  EXPECT_FALSE(parse_bytes("80 Gib"));
  EXPECT_FALSE(parse_bytes("80 GiB/s"));
  EXPECT_FALSE(parse_bytes_per_second("80 GB"));
}

TEST(Parse, NothingWrapsAround) {
  EXPECT_FALSE(parse_bytes("9000 PiB"));
  EXPECT_FALSE(parse_bytes("99999999999999999999 B"));
  EXPECT_FALSE(parse_bytes("1e400 B"));
  EXPECT_EQ(parse_bytes("1e-400 GiB"), 0_B);
  EXPECT_FALSE(parse_count("1e19"));
  EXPECT_EQ(parse_count("1e18"), 1'000'000'000'000'000'000);
}

TEST(Parse, RatesAndTimes) {
  EXPECT_DOUBLE_EQ(parse_bytes_per_second("3.35 TB/s")->value(), 3.35e12);
  EXPECT_DOUBLE_EQ(parse_bytes_per_second("450 GB/s")->value(), 450e9);
  EXPECT_DOUBLE_EQ(parse_flops_per_second("989 TFLOP/s")->value(), 989e12);
  EXPECT_DOUBLE_EQ(parse_flops_per_second("624 TOP/s")->value(), 624e12);
  EXPECT_EQ(parse_seconds("1.5 ms")->value(), 0.0015);
  EXPECT_EQ(parse_seconds("2 h")->value(), 7200);
}

TEST(Parse, Counts) {
  EXPECT_EQ(parse_count("8192"), 8192);
  EXPECT_EQ(parse_count("8_192"), 8192);
  EXPECT_EQ(parse_count("8,192"), 8192);
  EXPECT_EQ(parse_count("5e8"), 500'000'000);
  EXPECT_EQ(parse_count("-1"), -1);
  EXPECT_FALSE(parse_count("8k"));
  EXPECT_FALSE(parse_count("8.5"));
  EXPECT_EQ(parse_count("8.0"), 8);
  bool suffixed = false;
  EXPECT_EQ(parse_count("8k", CountSuffix::kBinary, &suffixed), 8192);
  EXPECT_TRUE(suffixed);
  EXPECT_EQ(parse_count("8192", CountSuffix::kBinary, &suffixed), 8192);
  EXPECT_FALSE(suffixed);
  EXPECT_EQ(parse_count("1.5k", CountSuffix::kBinary), 1536);
  EXPECT_EQ(parse_count("7B", CountSuffix::kDecimal), 7'000'000'000);
  EXPECT_EQ(parse_count("0.5b", CountSuffix::kDecimal), 500'000'000);
  EXPECT_EQ(parse_count("1.3 B", CountSuffix::kDecimal), 1'300'000'000);
  EXPECT_EQ(parse_count("350M", CountSuffix::kDecimal), 350'000'000);
  EXPECT_FALSE(parse_count("7X", CountSuffix::kDecimal));
  EXPECT_FALSE(parse_count("1.0000000001k", CountSuffix::kDecimal));
}

TEST(Parse, NumbersAndFractions) {
  EXPECT_EQ(parse_number("1.25").value(), 1.25);
  EXPECT_EQ(parse_number("1e-5").value(), 1e-5);
  EXPECT_EQ(parse_number("-0.1").value(), -0.1);
  EXPECT_FALSE(parse_number("1.25x"));
  EXPECT_DOUBLE_EQ(parse_fraction("47 %").value(), 0.47);
  EXPECT_DOUBLE_EQ(parse_fraction("0.47").value(), 0.47);
}

}  // namespace
}  // namespace steelyard
