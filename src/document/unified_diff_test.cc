#include "document/unified_diff.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

TEST(UnifiedDiff, EqualTextsHaveNone) { EXPECT_EQ(unified_diff("a\n", "a\n", "x", "y"), ""); }

TEST(UnifiedDiff, ShowsThreeLinesAroundAChange) {
  EXPECT_EQ(unified_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n", "x", "y"),
            "--- x\n+++ y\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
}

TEST(UnifiedDiff, ChangesFarApartAreTwoHunks) {
  std::string before;
  std::string after;
  for (int i = 0; i < 20; ++i) {
    before += "line\n" + std::to_string(i) + "\n";
    after += "line\n" + (i == 1 || i == 18 ? "changed" : std::to_string(i)) + "\n";
  }
  const std::string diff = unified_diff(before, after, "x", "y");
  EXPECT_NE(diff.find("@@ -1,7 +1,7 @@"), std::string::npos) << diff;
  EXPECT_NE(diff.find("@@ -35,6 +35,6 @@"), std::string::npos) << diff;
}

TEST(UnifiedDiff, SaysWhereTheLastLineHasNoEnd) {
  EXPECT_EQ(unified_diff("a", "a\nb\n", "x", "y"),
            "--- x\n+++ y\n@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n");
}

TEST(UnifiedDiff, FromNothingIsAllNew) {
  EXPECT_EQ(unified_diff("", "a\n", "x", "y"), "--- x\n+++ y\n@@ -0,0 +1,1 @@\n+a\n");
}

std::string told(std::string_view before, std::string_view after) {
  std::string text;
  for (const ChangedLine& one : changed_lines(before, after))
    text += std::to_string(one.line) + " [" + one.before + "] [" + one.after + "]\n";
  return text;
}

TEST(ChangedLines, AreTheFirstTextsLines) {
  EXPECT_EQ(told("a\n", "a\n"), "");
  EXPECT_EQ(told("a\nb\nc\n", "a\nB\nc\n"), "2 [b] [B]\n");
  EXPECT_EQ(told("a\nc\n", "a\nb\nc\n"), "2 [] [b]\n");
  EXPECT_EQ(told("a\nb\nc\n", "a\nc\n"), "2 [b] []\n");
  EXPECT_EQ(told("a\r\nb", "a\r\nb\nc"), "2 [b] [b]\n3 [] [c]\n");
}

}  // namespace
}  // namespace steelyard
