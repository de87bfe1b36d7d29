#include "document/value.h"

#include <gtest/gtest.h>

#include "document/read.h"

namespace steelyard {
namespace {

TEST(Value, SetPathOverlaysAndSaysWhere) {
  Value document = *read_toml("[training]\nsequence_length = 8192\n", "run.toml");
  set_path(document, "training.sequence_length", Value::string("16k"),
           Place{"--sequence-length", 0, 0, {}, 0});
  set_path(document, "parallel.tensor", Value::integer(8), Place{"--tensor", 0, 0, {}, 0});
  EXPECT_EQ(document.at("training.sequence_length")->as_string(), "16k");
  EXPECT_EQ(document.at("training.sequence_length")->place().source, "--sequence-length");
  EXPECT_EQ(document.at("training.sequence_length")->place().line, 0);
  EXPECT_EQ(document.at("parallel.tensor")->as_integer(), 8);
  EXPECT_EQ(document.find("training")->members().size(), 1U);
}

TEST(Value, SetPathReplacesWhatIsNoTable) {
  Value document = *read_toml("parallel = 3\n", "run.toml");
  set_path(document, "parallel.tensor", Value::integer(8), Place{});
  EXPECT_EQ(document.at("parallel.tensor")->as_integer(), 8);
  Value nothing;
  set_path(nothing, "model", Value::string("7B"), Place{});
  EXPECT_EQ(nothing.at("model")->as_string(), "7B");
}

TEST(Value, RemovePath) {
  Value document = *read_toml("[a]\nb = 1\nc = 2\n", "run.toml");
  EXPECT_TRUE(remove_path(document, "a.b"));
  EXPECT_FALSE(remove_path(document, "a.b"));
  EXPECT_FALSE(remove_path(document, "x.y"));
  EXPECT_EQ(document.at("a.c")->as_integer(), 2);
}

TEST(Value, IsShownAsItIsTyped) {
  EXPECT_EQ(shown(Value::integer(8192)), "8192");
  EXPECT_EQ(shown(Value::string("fsdp2")), "\"fsdp2\"");
  EXPECT_EQ(shown(Value::boolean(true)), "true");
  EXPECT_EQ(shown(Value::array({Value::integer(1), Value::number(2.5)})), "[1, 2.5]");
  EXPECT_EQ(shown(Value::string(std::string(500, 'x'))).size(), 60U);
}

TEST(Value, AsksWithoutAsserting) {
  const Value text = Value::string("x");
  EXPECT_EQ(text.find("a"), nullptr);
  EXPECT_EQ(text.at("a.b"), nullptr);
  EXPECT_EQ(text.place().source, "");
}

}  // namespace
}  // namespace steelyard
