#include "document/diagnostic.h"

#include <gtest/gtest.h>

#include "document/read.h"
#include "document/render.h"

namespace steelyard {
namespace {

Diagnostic of(Severity severity) {
  Diagnostic problem;
  problem.severity = severity;
  problem.code = "E104";
  problem.message = "wrong";
  return problem;
}

TEST(Diagnostic, BeyondFiftyIsCountedAndNoErrorIsLostAmongWarnings) {
  Diagnostics problems;
  for (int i = 0; i < 263; ++i) add_problem(problems, of(Severity::kWarning));
  EXPECT_TRUE(is_full(problems, Severity::kWarning));
  EXPECT_FALSE(is_full(problems, Severity::kError));
  add_problem(problems, of(Severity::kError));
  EXPECT_EQ(problems.size(), kProblemsShown + 2);
  const std::string text = render(problems, "nothing read");
  EXPECT_NE(text.find("and 213 more\n"), std::string::npos);
  EXPECT_NE(text.find("error[E104]: wrong"), std::string::npos);
  EXPECT_NE(text.find("1 problem, nothing read"), std::string::npos);
}

// The place of every value of a long line and of many lines, found by reading a window.
TEST(Diagnostic, APlaceShowsWhatSurroundsItsColumn) {
  std::string text = "{\"a\":[";
  for (int i = 0; i < 5000; ++i) text += "\"é\",";
  text += "1]}";
  const auto line = read_json(text, "a.json");
  ASSERT_TRUE(line);
  const Place last = line->find("a")->items().back().place();
  EXPECT_EQ(last.line, 1);
  EXPECT_EQ(last.column, 6 + 4 * 5000 + 1);
  EXPECT_LE(last.text.size(), 1024U);
  EXPECT_EQ(last.text.substr(last.text.size() - 3), "1]}");
  EXPECT_GT(last.text_column, 1);
  const auto again = mark_of(last).place();
  EXPECT_EQ(again.text, last.text);
  EXPECT_EQ(again.column, last.column);

  std::string many = "\xEF\xBB\xBF";
  for (int i = 0; i < 3000; ++i)
    many += "k" + std::to_string(i) + " = " + std::to_string(i) + "\r\n";
  const auto lines = read_toml(many, "a.toml");
  ASSERT_TRUE(lines);
  for (const int i : {0, 1, 2, 500, 2047, 2999}) {
    const Place place = lines->find("k" + std::to_string(i))->place();
    EXPECT_EQ(place.line, i + 1);
    EXPECT_EQ(place.text, "k" + std::to_string(i) + " = " + std::to_string(i));
    EXPECT_EQ(place.text_column, 1);
  }
}

}  // namespace
}  // namespace steelyard
