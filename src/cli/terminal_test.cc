#include "cli/terminal.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

Surroundings terminal() {
  Surroundings around;
  around.terminal = true;
  around.columns = 100;
  around.term = "xterm";
  around.locale = "en_GB.UTF-8";
  return around;
}

TEST(Terminal, ColourFollowsTheFirstRuleThatSpeaks) {
  Surroundings around = terminal();
  EXPECT_TRUE(style_for({}, around).colour);
  around.term = "dumb";
  EXPECT_FALSE(style_for({}, around).colour);
  around.clicolor_force = "1";
  EXPECT_TRUE(style_for({}, around).colour);
  around.no_color = "1";
  EXPECT_FALSE(style_for({}, around).colour);
  around.color = "always";
  EXPECT_TRUE(style_for({}, around).colour);
  EXPECT_FALSE(style_for({"never", std::nullopt}, around).colour);
  EXPECT_FALSE(style_for({}, Surroundings{}).colour);
}

TEST(Terminal, WidthIsTheVariableThenTheTerminalThenEighty) {
  EXPECT_EQ(style_for({}, terminal()).width, 100);
  EXPECT_EQ(style_for({}, Surroundings{}).width, 80);
  Surroundings around = terminal();
  around.columns_variable = "50";
  EXPECT_EQ(style_for({}, around).width, 50);
}

TEST(Terminal, OnlyATerminalLeavesThingsOut) {
  EXPECT_TRUE(style_for({}, terminal()).elide);
  EXPECT_FALSE(style_for({}, Surroundings{}).elide);
}

TEST(Terminal, LettersBeyondAsciiNeedAUtf8Locale) {
  EXPECT_FALSE(style_for({}, terminal()).ascii);
  Surroundings around = terminal();
  around.locale = "C";
  EXPECT_TRUE(style_for({}, around).ascii);
  around.locale = "C.utf8";
  EXPECT_FALSE(style_for({}, around).ascii);
}

}  // namespace
}  // namespace steelyard
