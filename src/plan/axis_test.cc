#include "plan/axis.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

std::vector<std::int64_t> numbers(std::string_view words) {
  std::vector<std::int64_t> result;
  const auto axis = read_axis(words, Place{});
  if (!axis) return {-1};
  for (const Value& value : axis->values)
    result.push_back(value.is_integer() ? value.as_integer() : -2);
  return result;
}

using Numbers = std::vector<std::int64_t>;

TEST(SweepAxis, DoublesByDefault) {
  EXPECT_EQ(numbers("k=2048..16384"), (Numbers{2048, 4096, 8192, 16384}));
  EXPECT_EQ(numbers("k=2k..8k"), (Numbers{2048, 4096, 8192}));
  EXPECT_EQ(numbers("k=1..6"), (Numbers{1, 2, 4}));
  EXPECT_EQ(numbers("k=5..5"), (Numbers{5}));
}

TEST(SweepAxis, StepsWhenAsked) { EXPECT_EQ(numbers("k=8..32:8"), (Numbers{8, 16, 24, 32})); }

TEST(SweepAxis, ListsNumbersTextsAndTruths) {
  const auto axis = read_axis("recompute.mode=none,selective,full", Place{});
  ASSERT_TRUE(axis);
  EXPECT_EQ(axis->key, "recompute.mode");
  ASSERT_EQ(axis->values.size(), 3U);
  EXPECT_EQ(axis->values[1].as_string(), "selective");
  EXPECT_EQ(numbers("k=1,3,9"), (Numbers{1, 3, 9}));
  EXPECT_TRUE(read_axis("training.compile=true,false", Place{})->values[0].is_bool());
}

TEST(SweepAxis, RefusesWhatGoesNowhere) {
  for (const char* words : {"k", "=1", "k=", "k=8..4", "k=0..4", "k=1..4:0", "k=1,,2", "k=a..b",
                            "k=1..9223372036854775807:1"})
    EXPECT_FALSE(read_axis(words, Place{})) << words;
  EXPECT_TRUE(read_axis("k=1..9223372036854775807", Place{}));
}

}  // namespace
}  // namespace steelyard
