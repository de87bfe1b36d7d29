#include "report/style.h"

#include <gtest/gtest.h>

#include "report/bar.h"
#include "report/table.h"

namespace steelyard {
namespace {

TEST(Style, CountsColumnsNotBytes) {
  EXPECT_EQ(columns_of("a·b"), 3);
  EXPECT_EQ(columns_of("\x1b[1;31mred\x1b[0m"), 3);
  EXPECT_EQ(shortened(Style{}, "abcdefgh", 5), "abcd…");
  Style ascii;
  ascii.ascii = true;
  EXPECT_EQ(shortened(ascii, "abcdefgh", 5), "ab...");
}

TEST(Style, PaintsOnlyWhenAsked) {
  EXPECT_EQ(painted(Style{}, Ink::kBad, "no"), "no");
  Style colour;
  colour.colour = true;
  EXPECT_EQ(painted(colour, Ink::kBad, "no"), "\x1b[1;31mno\x1b[0m");
}

TEST(Style, BreaksFactsBetweenFacts) {
  Style narrow;
  narrow.width = 20;
  EXPECT_EQ(facts(narrow, {"one fact", "another", "a third"}, 2), "one fact · another\n  a third");
  EXPECT_EQ(wrapped(narrow, "words that do not fit on a line", 2),
            "words that do not\n  fit on a line");
}

TEST(Style, SpellsPlainCharacters) { EXPECT_EQ(plain_characters("2·b·s → ─ é"), "2*b*s -> - ?"); }

TEST(Bar, DrawsEighthsAndNeverNothing) {
  EXPECT_EQ(bar(Style{}, 0.5, 4), "██");
  EXPECT_EQ(bar(Style{}, 0.53125, 4), "██▏");
  EXPECT_EQ(bar(Style{}, 0.0001, 4), "▏");
  EXPECT_EQ(bar(Style{}, 0, 4), "");
  Style ascii;
  ascii.ascii = true;
  EXPECT_EQ(bar(ascii, 0.5, 4), "##");
}

TEST(Bar, MarksTheLineOfWhatIsUsable) {
  EXPECT_EQ(line_with_limit(Style{}, 1.0, 0.75, 8), "─────|░░");
  EXPECT_EQ(line_with_limit(Style{}, 0.5, 1.0, 8), "────   |");
}

TEST(Table, AlignsNumbersRightAndTrimsLines) {
  Table table({{"GiB"}, {"before", true}, {""}});
  table.add({"activations", "67.0", "++"});
  table.add({"slack", "1.1", ""});
  EXPECT_EQ(table.text(Style{}),
            "GiB            before\n  activations    67.0  ++\n  slack           1.1\n");
}

}  // namespace
}  // namespace steelyard
