#include <gtest/gtest.h>

#include <string>

#include "document/read.h"

namespace steelyard {
namespace {

TEST(Toml, KeepsOrderKindsAndPlaces) {
  const auto read = read_toml(
      "model = \"llama-3.1-8b\"\n"
      "[training]\n"
      "sequence_length = 8_192\n"
      "compile = false\n"
      "[parallel]\n"
      "tensor = 8   # two nodes\n"
      "data = [1, 2]\n",
      "run.toml");
  ASSERT_TRUE(read);
  ASSERT_EQ(read->members().size(), 3U);
  EXPECT_EQ(read->members()[1].key, "training");
  EXPECT_EQ(read->at("training.sequence_length")->as_integer(), 8192);
  EXPECT_FALSE(read->at("training.compile")->as_bool());
  EXPECT_EQ(read->at("parallel.data")->items().size(), 2U);
  EXPECT_EQ(read->find("parallel")->members()[0].key, "tensor");  // as written, not sorted

  const Place whole = read->find("parallel")->members()[0].whole_place();
  EXPECT_EQ(whole.line, 6);
  EXPECT_EQ(whole.column, 1);
  EXPECT_EQ(whole.length, 10);
  EXPECT_EQ(whole.text, "tensor = 8   # two nodes");
}

struct Refused {
  const char* text;
  const char* code;
  int line;
};

TEST(Toml, SaysWhatIsWrongAndWhere) {
  const Refused cases[] = {
      {"a = \n", "E101", 1},
      {"a = 1\nb = = 2\n", "E101", 2},
      {"[t\n", "E101", 1},
      {"a = \"x\n", "E101", 1},
      {"a = 1\na = 2\n", "E102", 2},
      {"[t]\n[t]\n", "E102", 2},
      {"when = 2024-01-01\n", "E105", 1},
      {"a = 99999999999999999999\n", "E101", 1},
      {"a = 1\n[[[b\n", "E101", 2},  // an assertion of toml++ 3.3
  };
  for (const Refused& expected : cases) {
    SCOPED_TRACE(expected.text);
    const auto read = read_toml(expected.text, "x.toml");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error()[0].code, expected.code);
    EXPECT_EQ(read.error()[0].place.line, expected.line);
    EXPECT_FALSE(read.error()[0].message.empty());
  }
}

TEST(Toml, BoundsDepthOfBracketsAndOfDots) {
  EXPECT_FALSE(read_toml("a = " + std::string(100'000, '['), "x"));
  std::string dots = "a";
  for (int i = 0; i < 100'000; ++i) dots += ".a";
  for (const std::string& text : {dots + " = 1", "[" + dots + "]", "x = { " + dots + " = 1 }"}) {
    const auto read = read_toml(text, "x");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error()[0].code, "E103");
  }
}

TEST(Toml, AcceptsByteOrderMarkAndCarriageReturns) {
  const auto read = read_toml("\xEF\xBB\xBF[t]\r\na = 1\r\n", "x.toml");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->at("t.a")->place().line, 2);
  EXPECT_EQ(read->at("t.a")->place().text, "a = 1");
}

TEST(Document, IsReadByItsNameOrItsFirstCharacter) {
  EXPECT_TRUE(read_document("{\"a\": 1}", "run.toml"));
  EXPECT_TRUE(read_document("a = 1", "run.toml"));
  EXPECT_TRUE(read_document("a = 1", "<stdin>"));
  EXPECT_TRUE(read_document("\n  {\"a\": 1}", "<stdin>"));
  EXPECT_FALSE(read_document("a = 1", "config.json"));
}

}  // namespace
}  // namespace steelyard
