#include "document/printable.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

TEST(Printable, ShowsWhatSteersATerminalByItsNumber) {
  EXPECT_EQ(printable("a\x1b[2J\x07"), "a\\u001b[2J\\u0007");
  EXPECT_EQ(printable("a\n\tb\r"), "a\\n\\tb\\r");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\u009b31m");
  EXPECT_EQ(printable("\xE2\x80\xAE"
                      "abc"),
            "\\u202e"
            "abc");
  EXPECT_EQ(printable("größe 日本 🙂"), "größe 日本 🙂");
}

TEST(Printable, BytesThatAreNoCharacterAreReplaced) {
  EXPECT_EQ(printable("a\x9b"
                      "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(printable("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // a slash in too many bytes
  EXPECT_EQ(printable("\xE2\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Printable, InPlaceKeepsTheColumns) {
  EXPECT_EQ(printable_in_place("a\tb\x1b"
                               "c\xE2\x80\xAE"
                               "d"),
            "a b.c.d");
}

TEST(Printable, ColoursPassWithTheSealAlone) {
  const std::string seal = "4711;";
  const std::string ours = colour_sequence(seal, "1;31") + "no" + colour_sequence(seal, "0");
  EXPECT_EQ(harmless(ours, &seal), "\x1b[1;31mno\x1b[0m");
  EXPECT_EQ(harmless("\x1b[1;31mno", &seal), "\\u001b[1;31mno");
  EXPECT_EQ(harmless("a\n\tb", nullptr), "a\n\tb");
  EXPECT_EQ(harmless(ours, nullptr).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace steelyard
