#include "document/amount.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

TEST(Amount, Counts) {
  const struct {
    const char* text;
    std::int64_t kilo, count;
  } cases[] = {{"8192", 1000, 8192},
               {"8_192", 1000, 8192},
               {"8,192", 1000, 8192},
               {"8k", 1024, 8192},
               {"8k", 1000, 8000},
               {"7B", 1000, 7'000'000'000},
               {"1.5M", 1000, 1'500'000},
               {" 4 ", 1000, 4},
               {"128K", 1024, 131072},
               {"4Ki", 1000, 4096},
               {"-3", 1000, -3},
               {"0.5k", 1000, 500},
               {"2T", 1000, 2'000'000'000'000}};
  for (const auto& expected : cases)
    EXPECT_EQ(count_written(expected.text, expected.kilo), expected.count) << expected.text;
  for (const char* text : {"", "k", "8x", "8kk", "1.2345k", "0.5", "--3", "99999999999999999999",
                           "9999999999T", "8 k b", "1__2", "_1"})
    EXPECT_EQ(count_written(text, 1000), std::nullopt) << text;
}

TEST(Amount, Bandwidths) {
  const struct {
    const char* text;
    double bytes_per_second;
  } cases[] = {{"400 Gb/s", 50e9},     {"400Gbps", 50e9},   {"3.2 Tb/s", 400e9},
               {"50 GB/s", 50e9},      {"50GBps", 50e9},    {"100gbit/s", 12.5e9},
               {"1600 Gbits/s", 2e11}, {"12.5 GB", 12.5e9}, {"800 Mb/s", 1e8}};
  for (const auto& expected : cases)
    EXPECT_DOUBLE_EQ(bandwidth_written(expected.text).value_or(-1), expected.bytes_per_second)
        << expected.text;
  for (const char* text : {"", "400", "Gb/s", "400 G", "400 GiB/s", "400 b/s", "400 Xb/s", "fast"})
    EXPECT_EQ(bandwidth_written(text), std::nullopt) << text;
}

TEST(Amount, Bytes) {
  EXPECT_EQ(bytes_written("25MiB"), 26'214'400);
  EXPECT_EQ(bytes_written("25 MB"), 25'000'000);
  EXPECT_EQ(bytes_written("24gb"), 24'000'000'000);
  EXPECT_EQ(bytes_written("1.5 GiB"), 1'610'612'736);
  EXPECT_EQ(bytes_written("512B"), 512);
  for (const char* text : {"25", "", "b", "GiB", "7XB", "99999999TB"})
    EXPECT_EQ(bytes_written(text), std::nullopt) << text;
}

TEST(Amount, Numbers) {
  EXPECT_DOUBLE_EQ(number_written("0.1").value(), 0.1);
  EXPECT_DOUBLE_EQ(number_written("1e-3").value(), 0.001);
  EXPECT_DOUBLE_EQ(number_written("-2").value(), -2);
  for (const char* text : {"", "x", "1e", "1e999", "0.1.2", "nan"})
    EXPECT_EQ(number_written(text), std::nullopt) << text;
}

}  // namespace
}  // namespace steelyard
