#include <gtest/gtest.h>

#include <string>

#include "document/read.h"

namespace steelyard {
namespace {

TEST(Json, KeepsOrderKindsAndPlaces) {
  const auto read =
      read_json("{\"b\": 1, \"a\": [true, null, 2.5e3],\n \"ü\": {\"s\": \"x\\\"y\"}}", "run.json");
  ASSERT_TRUE(read);
  ASSERT_EQ(read->members().size(), 3U);
  EXPECT_EQ(read->members()[0].key, "b");
  EXPECT_EQ(read->find("b")->as_integer(), 1);
  const auto& items = read->find("a")->items();
  EXPECT_TRUE(items[0].as_bool());
  EXPECT_TRUE(items[1].is_null());
  EXPECT_DOUBLE_EQ(items[2].as_number(), 2500);
  EXPECT_EQ(read->at("ü.s")->as_string(), "x\"y");

  const Place place = read->at("ü.s")->place();
  EXPECT_EQ(place.source, "run.json");
  EXPECT_EQ(place.line, 2);
  EXPECT_EQ(place.column, 13);
  EXPECT_EQ(place.length, 6);
  EXPECT_EQ(place.text, " \"ü\": {\"s\": \"x\\\"y\"}}");
  const Place whole = read->find("ü")->members()[0].whole_place();
  EXPECT_EQ(whole.column, 8);
  EXPECT_EQ(whole.length, 11);
}

struct Refused {
  const char* text;
  const char* code;
  int line, column;
  const char* message;
  const char* label;
};

TEST(Json, SaysWhatIsWrongAndWhere) {
  const Refused cases[] = {
      {"", "E101", 0, 0, "the JSON is empty", ""},
      {"  \n", "E101", 0, 0, "the JSON is empty", ""},
      {"{\"a\": 1", "E101", 1, 8, "the JSON ends before it is complete", "expected '}'"},
      {"{\"a\": \"x", "E101", 1, 9, "the JSON ends before it is complete", ""},
      {"{\"a\":\n [1, ", "E101", 2, 6, "the JSON ends before it is complete", "expected a value"},
      {"{\"a\" 1}", "E101", 1, 6, "not JSON here", "expected ':'"},
      {"{\"a\": 1,}", "E101", 1, 9, "not JSON here", "expected a key in double quotes"},
      {"{'a': 1}", "E101", 1, 2, "not JSON here", "expected a key in double quotes"},
      {"{\"a\": tru}", "E101", 1, 10, "not JSON here", "expected a value"},
      {"{\"a\": 1} 2", "E101", 1, 10, "not JSON here", "expected the end of the document"},
      {"{\"a\": 1e999}", "E101", 1, 7, "a number that no 64-bit float can hold", "too large"},
      {"{\"a\": 1, \"b\": 2, \"a\": 3}", "E102", 1, 18, "the key \"a\" is given twice in one table",
       "given again here"},
  };
  for (const Refused& expected : cases) {
    SCOPED_TRACE(expected.text);
    const auto read = read_json(expected.text, "x.json");
    ASSERT_FALSE(read);
    const Diagnostic& problem = read.error().front();
    EXPECT_EQ(problem.code, expected.code);
    EXPECT_EQ(problem.place.line, expected.line);
    EXPECT_EQ(problem.place.column, expected.column);
    EXPECT_EQ(problem.message, expected.message);
    EXPECT_EQ(problem.label, expected.label);
    EXPECT_EQ(problem.place.source, "x.json");
  }
}

TEST(Json, NamesTheBracketThatIsNotClosed) {
  const auto read = read_json("{\n  \"a\": [1,\n", "x.json");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error()[0].help,
            "\"[\" opened at line 2, column 8 is not closed; is the file cut off?");
}

TEST(Json, FindsEveryRepeatedKey) {
  const auto read = read_json("{\"a\":1,\"a\":2,\"b\":{\"c\":1,\"c\":2}}", "x.json");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().size(), 2U);

  std::string large = "{";
  for (int i = 0; i < 100; ++i) large += "\"k" + std::to_string(i) + "\": 1, ";
  EXPECT_TRUE(read_json(large + "\"z\": 1}", "x.json"));
  EXPECT_FALSE(read_json(large + "\"k3\": 1}", "x.json"));
  EXPECT_FALSE(read_json(large + "\"k99\": 1}", "x.json"));
}

TEST(Json, BoundsDepth) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_TRUE(read_json(nested(kMaximumDepth), "x"));
  const auto read = read_json(nested(100'000), "x");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error()[0].code, "E103");
  EXPECT_EQ(read.error()[0].place.column, kMaximumDepth + 1);
}

TEST(Json, AcceptsByteOrderMarkAndCarriageReturns) {
  const auto read = read_json("\xEF\xBB\xBF{\r\n  \"a\": 1\r\n}\r\n", "x.json");
  ASSERT_TRUE(read);
  const Place place = read->find("a")->place();
  EXPECT_EQ(place.line, 2);
  EXPECT_EQ(place.column, 8);
  EXPECT_EQ(place.text, "  \"a\": 1");
  const auto marked = read_json("\xEF\xBB\xBF{\"a\": 1}", "x.json");
  ASSERT_TRUE(marked);
  EXPECT_EQ(marked->member("a")->key_place().column, 2);
  EXPECT_EQ(marked->member("a")->key_place().text, "{\"a\": 1}");
}

TEST(Json, LargeIntegersBecomeNumbers) {
  const auto read =
      read_json("[9223372036854775807, 9223372036854775808, -9223372036854775808, 1e18]", "x");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->items()[0].as_integer(), 9223372036854775807);
  EXPECT_EQ(read->items()[1].kind(), Value::Kind::kNumber);
  EXPECT_TRUE(read->items()[2].is_integer());
  EXPECT_DOUBLE_EQ(read->items()[3].as_number(), 1e18);
}

// Each token is found again in the text by its own small reading; both must agree on every text.
TEST(Json, PlacesPointAtTheirText) {
  const auto read = read_json("{ \"a\":-1.5e+3,\"b\" : [ 12 ,\"\\\\\" ,{ } ] , \"c\":false }", "x");
  ASSERT_TRUE(read);
  const auto text_at = [&](const Value& value) {
    const Place place = value.place();
    return place.text.substr(static_cast<std::size_t>(place.column - 1),
                             static_cast<std::size_t>(place.length));
  };
  EXPECT_EQ(text_at(*read->find("a")), "-1.5e+3");
  EXPECT_EQ(text_at(read->find("b")->items()[0]), "12");
  EXPECT_EQ(text_at(read->find("b")->items()[1]), "\"\\\\\"");
  EXPECT_EQ(text_at(*read->find("c")), "false");
}

}  // namespace
}  // namespace steelyard
