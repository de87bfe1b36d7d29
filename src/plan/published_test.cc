#include "plan/published.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace steelyard {
namespace {

const PublishedRecipe& recipe_named(const std::string& name) {
  const auto& all = published_recipes();
  return *std::find_if(all.begin(), all.end(),
                       [&](const PublishedRecipe& recipe) { return recipe.name == name; });
}

TEST(Published, EveryRecipeIsReadAndNamesItsSource) {
  EXPECT_GE(published_recipes().size(), 5U);
  for (const PublishedRecipe& recipe : published_recipes()) {
    EXPECT_TRUE(read_job(recipe.run)) << recipe.name;
    EXPECT_TRUE(recipe.url.starts_with("https://")) << recipe.name;
  }
}

TEST(Published, ThePlanIsAtLeastAsFastByItsOwnClock) {
  const auto answer = against_published(recipe_named("megatron-175b"), serial_help());
  ASSERT_TRUE(answer);
  ASSERT_TRUE(answer->best);
  EXPECT_LE(answer->best->time.step, answer->published.time.step);
  EXPECT_FALSE(answer->suspicious);
}

TEST(Published, ASpeedThatNobodyReachedIsSuspicious) {
  PublishedRecipe recipe = recipe_named("megatron-175b");
  recipe.step_seconds *= 2;
  const auto answer = against_published(recipe, serial_help());
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->suspicious);
  EXPECT_EQ(answer->responsible, TimeTerm::kBubble);
}

}  // namespace
}  // namespace steelyard
