#include "model/guess.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace steelyard {
namespace {

TEST(ParametersWritten, ReadsSizesAndNothingElse) {
  EXPECT_EQ(parameters_written("7B"), 7'000'000'000);
  EXPECT_EQ(parameters_written("7b"), 7'000'000'000);
  EXPECT_EQ(parameters_written("1.5B"), 1'500'000'000);
  EXPECT_EQ(parameters_written("125M"), 125'000'000);
  EXPECT_EQ(parameters_written("10T"), 10'000'000'000'000);
  EXPECT_EQ(parameters_written("0.1T"), 100'000'000'000);
  for (const char* text :
       {"", "B", "7", "7.B", ".5B", "7BB", "-7B", "7 B", "1.2.3B", "8x7b", "seven", "99999999999T"})
    EXPECT_EQ(parameters_written(text), std::nullopt) << text;
}

Architecture guessed(const std::string& size) {
  Diagnostics problems;
  auto model = guess_architecture(size, Place{}, problems);
  EXPECT_TRUE(model) << size;
  EXPECT_TRUE(problems.empty()) << size;
  return model.value_or(Architecture{});
}

TEST(Guess, CountsWhatWasAskedForWithinOneInTenThousand) {
  for (const char* size :
       {"50M",  "70M",  "125M", "160M", "350M", "500M", "760M", "999M", "1B",  "1.3B", "1.5B",
        "2B",   "2.7B", "3B",   "4B",   "6.7B", "7B",   "8B",   "9B",   "10B", "13B",  "14B",
        "19B",  "20B",  "27B",  "30B",  "33B",  "40B",  "65B",  "70B",  "72B", "100B", "120B",
        "175B", "180B", "300B", "405B", "530B", "671B", "1T",   "2T",   "5T",  "10T",  "100T"}) {
    const Architecture model = guessed(size);
    const auto asked = static_cast<double>(*parameters_written(size));
    const auto counted = static_cast<double>(count_parameters(model).total);
    EXPECT_LT(std::abs(counted - asked) / asked, 1e-4) << size << " " << counted;
    const auto& attention = std::get<GroupedAttention>(model.kinds[0].attention);
    const auto& mlp = std::get<DenseMlp>(model.kinds[0].mlp);
    EXPECT_EQ(attention.head_width, asked < 1e9 ? 64 : 128) << size;
    EXPECT_EQ(attention.heads * attention.head_width, model.hidden) << size;
    EXPECT_EQ(attention.heads % attention.key_value_heads, 0) << size;
    EXPECT_EQ(model.layers % 4, 0) << size;
    EXPECT_EQ(model.vocabulary % 8, 0) << size;
    EXPECT_EQ(mlp.width % 64, 0) << size;
    // A shape that a person would believe.
    EXPECT_GT(model.vocabulary, 10'000) << size;
    EXPECT_LT(model.vocabulary, 260'000) << size;
    EXPECT_GT(mlp.width, model.hidden) << size;
    EXPECT_LT(mlp.width, 6 * model.hidden) << size;
    const double aspect = static_cast<double>(model.hidden) / static_cast<double>(model.layers);
    EXPECT_GT(aspect, 40) << size;
    EXPECT_LT(aspect, 190) << size;
  }
}

TEST(Guess, SevenBillionHas112GigabytesOfStates) {
  const Architecture model = guessed("7B");
  EXPECT_EQ(model.hidden, 4096);
  EXPECT_EQ(model.layers, 32);
  EXPECT_TRUE(model.guessed);
  EXPECT_NE(model.guess_rule.find("4,096"), std::string::npos);
  EXPECT_NEAR(16.0 * static_cast<double>(count_parameters(model).total) / 1e9, 112.0, 0.01);
}

TEST(Guess, RefusesWhatIsNoModel) {
  for (const char* size : {"1M", "900T", "x"}) {
    Diagnostics problems;
    EXPECT_FALSE(guess_architecture(size, Place{}, problems)) << size;
    EXPECT_EQ(problems.size(), 1U) << size;
  }
}

}  // namespace
}  // namespace steelyard
