#include <gtest/gtest.h>

#include "document/read.h"

namespace steelyard {
namespace {

std::string said(std::string_view text, std::string_view path) {
  const ReadValue read = read_yaml(text, "test.yaml");
  if (!read) return "refused: " + read.error().front().message;
  const Value* value = read->at(path);
  return value == nullptr ? "absent" : shown(*value);
}

TEST(Yaml, PlainWordsAreTypedAsPyYamlTypesThem) {
  EXPECT_EQ(said("a: 8_192", "a"), "8192");
  EXPECT_EQ(said("a: no", "a"), "false");
  EXPECT_EQ(said("a: 'no'", "a"), "\"no\"");
  EXPECT_EQ(said("a: 1e-5", "a"), "\"1e-5\"");
  EXPECT_EQ(said("a: 1.0e-5", "a"), "1e-05");
  EXPECT_EQ(said("a: ~", "a"), "null");
  EXPECT_EQ(said("a: 0x10", "a"), "16");
}

TEST(Yaml, BlockAndFlowNest) {
  const std::string_view text = "a:\n- b: 1\n  c: [x, {y: z}]\n-\n  - d\nf: {g: 1, h: [2]}\n";
  const ReadValue read = read_yaml(text, "test.yaml");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->at("a")->items()[0].at("c")->items()[1].at("y")->as_string(), "z");
  EXPECT_EQ(read->at("a")->items()[1].items()[0].as_string(), "d");
  EXPECT_EQ(read->at("f.h")->items()[0].as_integer(), 2);
}

TEST(Yaml, AnchorsAliasesAndMergedKeys) {
  EXPECT_EQ(said("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n", "d.b"), "1");
  EXPECT_EQ(said("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n", "d.c"), "3");
  EXPECT_EQ(said("a: *x\n", "a"), "refused: no anchor is called \"x\"");
}

TEST(Yaml, ValuesStandWhereTheyWereWritten) {
  const ReadValue read = read_yaml("\xEF\xBB\xBF# first\r\na:\r\n  b: 12\r\n", "test.yaml");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->at("a.b")->place().line, 3);
  EXPECT_EQ(read->at("a.b")->place().column, 6);
  EXPECT_EQ(read->at("a.b")->place().length, 2);
}

TEST(Yaml, TextOverSeveralLines) {
  EXPECT_EQ(read_yaml("a: |\n  one\n   two\n", "")->at("a")->as_string(), "one\n two\n");
  EXPECT_EQ(read_yaml("a: >-\n  one\n  two\n\n  three\n", "")->at("a")->as_string(),
            "one two\nthree");
  EXPECT_EQ(read_yaml("a: one\n  two\nb: 1\n", "")->at("a")->as_string(), "one two");
  EXPECT_EQ(read_yaml("a: \"x\\ty\"", "")->at("a")->as_string(), "x\ty");
}

TEST(Yaml, WhatIsWrongIsSaidWithItsLine) {
  const auto fault = [](std::string_view text) {
    const ReadValue read = read_yaml(text, "test.yaml");
    return read ? std::string("read")
                : read.error().front().code + " " + std::to_string(read.error().front().place.line);
  };
  EXPECT_EQ(fault("a:\n\tb: 1\n"), "E101 2");
  EXPECT_EQ(fault("a: 1\nb: 2\na: 3\n"), "E102 3");
  EXPECT_EQ(fault("a: [1, 2\n"), "E101 1");
  EXPECT_EQ(fault("a: \"b\n"), "E101 1");
  EXPECT_EQ(fault("a: b: c\n"), "E101 1");
  EXPECT_EQ(fault("a: !include other.yaml\n"), "E101 1");
  EXPECT_EQ(fault("a: 1\n---\nb: 2\n"), "E101 2");
  EXPECT_EQ(fault(std::string(200, '[')), "E103 1");
}

TEST(Yaml, AliasesDoNotMultiply) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int k = 0; k < 9; ++k) text += ", " + before;
    text += "]\n";
  }
  const ReadValue read = read_yaml(text, "laughs.yaml");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().front().code, "E103");
}

}  // namespace
}  // namespace steelyard
