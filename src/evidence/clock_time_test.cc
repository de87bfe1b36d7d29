#include "evidence/clock_time.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

TEST(ClockTime, OfEveryForm) {
  const double second = find_clock_time("2026-06-16 23:42:02", 0)->seconds;
  EXPECT_EQ(second, 1781653322.0);  // date -u -d "2026-06-16 23:42:02" +%s
  for (const char* const text :
       {"[2026-06-16 23:42:02] x", "2026-06-16T23:42:02Z", "time : 2026-06-16_23:42:02",
        "2026/06/16 23:42:02", "E0616 23:42:02 71 a.py", "[W616 23:42:02 a.cpp:1]",
        "Jun 16 23:42:02 node7 kernel:", "[Tue Jun 16 23:42:02 2026]",
        "[\xE4\xBA\x8C 6\xE6\x9C\x88 16 23:42:02 2026]"}) {
    const auto time = find_clock_time(text, 2026);
    ASSERT_TRUE(time) << text;
    EXPECT_EQ(time->seconds, second) << text;
  }
  EXPECT_NEAR(find_clock_time("2026-06-16 23:42:02,990", 0)->seconds, second + 0.99, 1e-6);
  EXPECT_EQ(find_clock_time("E0616 23:42:02 x", 2027)->seconds, second + 365 * 86400.0);
}

TEST(ClockTime, ADurationIsNone) {
  EXPECT_FALSE(find_clock_time("elapsed 23:42:02", 2026));
  EXPECT_FALSE(find_clock_time("2026-13-16 23:42:02", 2026));
  EXPECT_FALSE(find_clock_time("23:42:0", 2026));
}

}  // namespace
}  // namespace steelyard
