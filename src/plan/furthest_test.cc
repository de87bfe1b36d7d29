#include "plan/furthest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace steelyard {
namespace {

TEST(Furthest, RungsAreMultiplesAndCloseTogether) {
  for (const std::int64_t unit : {1, 8, 128, 384}) {
    const auto rungs = rungs_of(unit, 3 * unit, 5'000'000 * unit);
    EXPECT_EQ(rungs.front(), 3 * unit);
    EXPECT_EQ(rungs.back(), 5'000'000 * unit);
    for (std::size_t i = 1; i < rungs.size(); ++i) {
      EXPECT_GT(rungs[i], rungs[i - 1]);
      EXPECT_EQ(rungs[i] % unit, 0);
      if (rungs[i] > 256 * unit) {
        EXPECT_LE(rungs[i] - rungs[i - 1], rungs[i - 1] / 128) << rungs[i];
      }
    }
  }
  EXPECT_EQ(rungs_of(8, 1, 20), (std::vector<std::int64_t>{8, 16, 20}));
  EXPECT_TRUE(rungs_of(1, 5, 4).empty());
}

TEST(Furthest, FindsTheLastThatHoldsFromWhereverItBegins) {
  std::mt19937 random(7);
  const auto rungs = rungs_of(3, 6, 4'000'000);
  for (int i = 0; i < 2'000; ++i) {
    const std::int64_t limit = std::uniform_int_distribution<std::int64_t>(0, 4'100'000)(random);
    const std::int64_t start = std::uniform_int_distribution<std::int64_t>(1, 5'000'000)(random);
    int asked = 0;
    const Furthest found = furthest(rungs, start, [&](std::int64_t value) {
      ++asked;
      return std::optional(value <= limit);
    });
    EXPECT_LE(asked, 32);
    EXPECT_TRUE(found.finished);
    const auto next = std::upper_bound(rungs.begin(), rungs.end(), limit);
    ASSERT_EQ(found.last.has_value(), next != rungs.begin()) << limit << " from " << start;
    if (found.last) {
      EXPECT_EQ(*found.last, *(next - 1));
    }
    ASSERT_EQ(found.next.has_value(), next != rungs.end());
    if (found.next) {
      EXPECT_EQ(*found.next, *next);
    }
  }
}

// What holds now and then: the answer holds all the same, and the rung above it does not.
TEST(Furthest, AnswersAnEdgeWhereThereAreSeveral) {
  std::mt19937 random(8);
  const auto rungs = rungs_of(1, 1, 100'000);
  for (int i = 0; i < 500; ++i) {
    const auto seed = random();
    const auto holds = [&](std::int64_t value) {
      return (static_cast<std::uint64_t>(value) * 2654435761U ^ seed) % 100'000 >
             static_cast<std::uint64_t>(value);
    };
    const Furthest found =
        furthest(rungs, 1'000, [&](std::int64_t value) { return std::optional(holds(value)); });
    if (found.last) {
      EXPECT_TRUE(holds(*found.last));
    }
    if (found.next) {
      EXPECT_FALSE(holds(*found.next));
    }
    if (found.last && found.next) {
      EXPECT_EQ(std::upper_bound(rungs.begin(), rungs.end(), *found.last) - rungs.begin(),
                std::lower_bound(rungs.begin(), rungs.end(), *found.next) - rungs.begin());
    }
  }
}

TEST(Furthest, SaysThatItWasStopped) {
  int left = 5;
  const auto rungs = rungs_of(1, 1, 1'000'000);
  const Furthest found = furthest(rungs, 10, [&](std::int64_t) -> std::optional<bool> {
    if (left-- == 0) return std::nullopt;
    return true;
  });
  EXPECT_FALSE(found.finished);
  EXPECT_EQ(*found.last, 160);
}

TEST(Furthest, SizesAreReadAsTheyAreWritten) {
  EXPECT_EQ(size_words(7'125), "7.125B");
  EXPECT_EQ(size_words(50), "0.050B");
}

}  // namespace
}  // namespace steelyard
