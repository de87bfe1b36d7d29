#include "document/edit_distance.h"

#include <gtest/gtest.h>

#include <array>

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 6> kEngines = {"ddp",       "fsdp1",    "fsdp2",
                                                      "deepspeed", "megatron", "nanotron"};

std::string first_of(std::string_view word) {
  const auto near = nearest_names(word, kEngines);
  return near.empty() ? std::string() : near.front();
}

TEST(EditDistance, CountsHalfSlips) {
  EXPECT_EQ(edit_distance("length", "length"), 0);
  EXPECT_EQ(edit_distance("lenght", "length"), 2);   // neighbours swapped
  EXPECT_EQ(edit_distance("lengh", "length"), 2);    // left out
  EXPECT_EQ(edit_distance("lengthh", "length"), 2);  // put in
  EXPECT_EQ(edit_distance("langth", "length"), 2);   // changed
  EXPECT_EQ(edit_distance("Zero_Stage", "zero-stage"), 0);
  EXPECT_EQ(edit_distance("zerostage", "zero_stage"), 1);
  EXPECT_EQ(edit_distance("llama-3-8b", "llama-3-7b"), 3);
  EXPECT_EQ(edit_distance("", "abc"), 6);
}

TEST(EditDistance, NamesTheNearest) {
  EXPECT_EQ(first_of("nanotorn"), "nanotron");
  EXPECT_EQ(first_of("deepsped"), "deepspeed");
  EXPECT_EQ(first_of("megatorn"), "megatron");
  EXPECT_EQ(first_of("dpd"), "ddp");
  EXPECT_EQ(nearest_names("fsdp3", kEngines).size(), 2U);
}

TEST(EditDistance, NamesThatGoOnComeFirst) {
  constexpr std::array<std::string_view, 6> kModels = {"mistral-7b-v0.3", "mixtral-8x7b",
                                                       "phi-3-mini-4k",   "phi-3.5-moe",
                                                       "qwen3-235b-a22b", "qwen3-32b"};
  const auto near = [&](std::string_view word) { return nearest_names(word, kModels); };
  using Names = std::vector<std::string>;
  EXPECT_EQ(near("qwen3-235b"), Names{"qwen3-235b-a22b"});
  EXPECT_EQ(near("Mistral"), Names{"mistral-7b-v0.3"});
  EXPECT_EQ(near("mistral-7b"), Names{"mistral-7b-v0.3"});
  EXPECT_EQ(near("phi-3"), Names{"phi-3-mini-4k"});  // 3.5 is another number
  EXPECT_EQ(near("qwen3"), (Names{"qwen3-32b", "qwen3-235b-a22b"}));
}

TEST(EditDistance, SaysNothingOfNonsense) {
  for (const char* word : {"qwertz", "x", "", "zzzzzzzzzzzz", "banana", "1234567890"})
    EXPECT_EQ(first_of(word), "") << word;
  EXPECT_EQ(first_of(std::string(100'000, 'a')), "");
}

TEST(EditDistance, Sentences) {
  const std::array<std::string, 2> two = {"a", "b"};
  EXPECT_EQ(did_you_mean("key", std::span(two).subspan(0, 1)), "the key is \"a\"");
  EXPECT_EQ(did_you_mean("key", two), "the key may be \"a\" or \"b\"");
  EXPECT_EQ(did_you_mean("key", std::span<const std::string>()), "");
  EXPECT_EQ(any_of(std::span<const std::string_view>(kEngines).subspan(0, 3)),
            "\"ddp\", \"fsdp1\" or \"fsdp2\"");
}

}  // namespace
}  // namespace steelyard
