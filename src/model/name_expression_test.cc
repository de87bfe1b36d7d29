#include "model/name_expression.h"

#include <gtest/gtest.h>

#include <string>

namespace steelyard {
namespace {

constexpr const char* kAxolotl =
    "model.language_model.layers.[\\d]+.(_checkpoint_wrapped_module.)?(mlp|self_attn).(up|down|q|v)"
    "_proj";

TEST(NameExpression, MatchesWholeNamesAsPythonDoes) {
  EXPECT_TRUE(matches_name_expression("model.language_model.layers.12.mlp.up_proj", kAxolotl));
  EXPECT_TRUE(matches_name_expression("model.language_model.layers.0.self_attn.q_proj", kAxolotl));
  EXPECT_FALSE(matches_name_expression("model.language_model.layers.0.self_attn.o_proj", kAxolotl));
  EXPECT_FALSE(matches_name_expression("model.vision_tower.layers.0.mlp.up_proj", kAxolotl));
  EXPECT_FALSE(matches_name_expression("model.language_model.layers.0.mlp.up_proj.x", kAxolotl));
}

TEST(NameExpression, ReadsStarsClassesAndAlternatives) {
  const char* numbers = ".*\\.layers\\.(3|7|11)\\.self_attn\\.(q|k)_proj|.*\\.mlp\\.(gate|up)_proj";
  EXPECT_TRUE(matches_name_expression("model.layers.11.self_attn.k_proj", numbers));
  EXPECT_FALSE(matches_name_expression("model.layers.4.self_attn.k_proj", numbers));
  EXPECT_TRUE(matches_name_expression("model.layers.4.mlp.up_proj", numbers));
  EXPECT_TRUE(matches_name_expression("a_b9", "^[a-c_]+\\w$"));
  EXPECT_FALSE(matches_name_expression("a.b", "[^.]+"));
  EXPECT_TRUE(matches_name_expression("abab", "(?:ab)*"));
}

TEST(NameExpression, EndsOnHostileExpressions) {
  EXPECT_FALSE(matches_name_expression(std::string(299, 'a'), "((((a*)*)*)*)*b"));
  for (const char* broken : {"(", "a)", "[a", "\\", "*a", "a|*", "(a", "[]", "a**"})
    matches_name_expression("a", broken);
  EXPECT_FALSE(matches_name_expression("a", "(a"));
  EXPECT_FALSE(matches_name_expression("a", std::string(2000, 'a')));
}

TEST(NameExpression, LeavesEndsAndPatternsToTheirRule) {
  EXPECT_FALSE(is_name_expression("self_attn.q_proj"));
  EXPECT_FALSE(is_name_expression("*language_model*q_proj"));
  EXPECT_TRUE(is_name_expression(".*q_proj"));
  EXPECT_TRUE(is_name_expression(kAxolotl));
}

}  // namespace
}  // namespace steelyard
