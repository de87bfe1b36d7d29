// Pickles as Python writes them, byte by byte; and what is refused of them.
#include "evidence/pickle.h"

#include <gtest/gtest.h>

#include <string>

#include "evidence/pickle_writer.h"

namespace steelyard {
namespace {

using Kind = PickleValue::Kind;

// The bytes as a literal: zeros within it count.
template <std::size_t N>
std::string bytes(const char (&text)[N]) {
  return {text, N - 1};
}

Diagnostics problems_of(const std::string& text) {
  const auto read = read_pickle(text, "p");
  return read ? Diagnostics{} : read.error();
}

// pickle.dumps({"a": [1, -2, 70000, 1 << 40, True, None, 0.5], "b": (b"xy", "")}, protocol=4)
TEST(Pickle, ReadsWhatPythonWrites) {
  const std::string text = bytes(
      "\x80\x04\x95\x36\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"
      "a\x94]\x94(K\x01J\xfe\xff\xff\xffJp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01\x88NG?"
      "\xe0\x00"
      "\x00\x00\x00\x00\x00"
      "e\x8c\x01"
      "b\x94"
      "C\x02xy\x94\x8c\x00\x94\x86\x94u.");
  const auto read = read_pickle(text, "p");
  ASSERT_TRUE(read) << read.error().front().message;
  const PickleValue root = read->root();
  ASSERT_TRUE(root.is_dict());
  const auto list = root.find("a");
  ASSERT_TRUE(list && list->kind() == Kind::kList);
  ASSERT_EQ(list->size(), 7U);
  EXPECT_EQ(list->item(0).as_integer(), 1);
  EXPECT_EQ(list->item(1).as_integer(), -2);
  EXPECT_EQ(list->item(2).as_integer(), 70000);
  EXPECT_EQ(list->item(3).as_integer(), std::int64_t{1} << 40);
  EXPECT_EQ(list->item(4).as_bool(), true);
  EXPECT_EQ(list->item(5).kind(), Kind::kNone);
  EXPECT_EQ(list->item(6).as_number(), 0.5);
  EXPECT_EQ(list->item(0).offset(), 21U);
  const auto pair = root.find("b");
  ASSERT_TRUE(pair && pair->kind() == Kind::kTuple);
  EXPECT_EQ(pair->item(0).kind(), Kind::kBytes);
  EXPECT_EQ(pair->item(1).as_string(), "");
  EXPECT_FALSE(root.find("c"));
  EXPECT_FALSE(pair->find("b"));
}

TEST(Pickle, SharedValuesAreOneValue) {
  PickleWriter writer;
  writer.begin_list();
  writer.begin_list();
  const auto inner = writer.remember();
  writer.string("x");
  writer.end_list();
  writer.recall(inner);
  writer.string("x");
  writer.end_list();
  const std::string text = std::move(writer).finish();
  const auto read = read_pickle(text, "p");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->root().item(0).id(), read->root().item(1).id());
  EXPECT_EQ(read->root().item(2).as_string(), "x");
}

// os.system("true"), in the spellings of protocols 2 and 4. It is named, and not run.
TEST(Pickle, WhatWouldRunIsRefusedByName) {
  const Diagnostics old =
      problems_of(bytes("\x80\x02"
                        "cos\nsystem\nX\x04\x00\x00\x00true\x85R."));
  ASSERT_EQ(old.size(), 2U);
  EXPECT_EQ(old[0].code, "E114");
  EXPECT_EQ(old[0].message, "the pickle wants to import os.system");
  EXPECT_EQ(old[0].place.source, "p, byte 2");
  EXPECT_EQ(old[1].message, "the pickle wants to call a function");
  const Diagnostics newer =
      problems_of(bytes("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R."));
  ASSERT_EQ(newer.size(), 2U);
  EXPECT_EQ(newer[0].message, "the pickle wants to import os.system");
}

TEST(Pickle, WhatIsBrokenIsSaid) {
  EXPECT_EQ(problems_of("").front().message, "not a pickle of protocol 2 to 5");
  EXPECT_EQ(problems_of("\x1f\x8b\x08 ...").front().message,
            "compressed with gzip: unpack it first");
  EXPECT_EQ(problems_of("\x80\x09.").front().message, "protocol 9 is not one of 2 to 5");
  EXPECT_EQ(problems_of("\x80\x02]").front().message, "the file ends before its STOP");
  EXPECT_EQ(problems_of("\x80\x02X\xff").front().message, "the file ends within a value");
  EXPECT_EQ(problems_of("\x80\x02.").front().message,
            "the pickle ends with more or less than one value");
  EXPECT_EQ(problems_of("\x80\x02"
                        "a.")
                .front()
                .message,
            "an opcode takes more values than there are");
  EXPECT_EQ(problems_of("\x80\x02h\x05.").front().message,
            "a place of the memo is read that was not written");
  EXPECT_EQ(problems_of("\x80\x02}(K\x01u.").front().message, "a key stands without a value");
  EXPECT_EQ(problems_of("\x80\x02NK\x01"
                        "a.")
                .front()
                .message,
            "an opcode fills what is no container of its kind");
  EXPECT_EQ(problems_of("\x80\x02\xff.").front().message, "0xff is no opcode that is read");
}

// x = []; x.append(x): no walk over it would end.
TEST(Pickle, AValueCannotContainItself) {
  EXPECT_EQ(problems_of(bytes("\x80\x02]q\x00h\x00"
                              "a."))
                .front()
                .message,
            "a value grows after it was used, so it may contain itself");
}

TEST(Pickle, DepthIsBounded) {
  std::string deep = "\x80\x02";
  for (int i = 0; i < 100; ++i) deep += ']';
  for (int i = 0; i < 99; ++i) deep += 'a';
  EXPECT_EQ(problems_of(deep + ".").front().message, "values are nested deeper than 64");
}

}  // namespace
}  // namespace steelyard
