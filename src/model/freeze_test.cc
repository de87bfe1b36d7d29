#include "model/freeze.h"

#include <gtest/gtest.h>

#include "model/catalogue.h"

namespace steelyard {
namespace {

std::shared_ptr<const Architecture> llama() {
  Diagnostics problems;
  return find_model("llama-3-8b", Place{}, problems)->architecture;
}

TEST(Freeze, PatternsAreWholeNamesWithStars) {
  EXPECT_TRUE(matches_pattern("model.layers.3.mlp.up_proj.weight", "*.mlp.*"));
  EXPECT_TRUE(matches_pattern("lm_head.weight", "lm_head.weight"));
  EXPECT_TRUE(matches_pattern("lm_head.weight", "*"));
  EXPECT_FALSE(matches_pattern("lm_head.weight", "lm_head"));
  EXPECT_FALSE(matches_pattern("model.layers.13.input_layernorm.weight", "model.layers.1.*"));
}

TEST(Freeze, LeadingFrozenLayersNeedNoGradient) {
  const Frozen frozen =
      freeze(*llama(), {"model.embed_tokens.*", "model.layers.0.*", "model.layers.1.*"});
  EXPECT_TRUE(frozen.unmatched.empty());
  ASSERT_EQ(frozen.architecture->kinds.size(), 3U);
  EXPECT_FALSE(frozen.architecture->kinds[0].input_needs_gradient);
  EXPECT_FALSE(frozen.architecture->kinds[1].input_needs_gradient);  // trains, but nothing below
  EXPECT_TRUE(frozen.architecture->kinds[2].input_needs_gradient);
  const ParameterCounts counts = count_parameters(*frozen.architecture);
  EXPECT_EQ(counts.total, 8'030'261'248);
  EXPECT_EQ(counts.trainable, 8'030'261'248 - 128'256LL * 4'096 - 2 * 218'112'000LL);
}

TEST(Freeze, WhatNamesNothingIsSaid) {
  const Frozen frozen = freeze(*llama(), {"*.mlp.*", "mlp"});
  EXPECT_EQ(frozen.unmatched, std::vector<std::string>{"mlp"});
}

TEST(Freeze, OneKindStaysOne) {
  const Frozen frozen = freeze(*llama(), {"*norm*"});
  EXPECT_EQ(frozen.architecture->kinds.size(), 1U);
  EXPECT_EQ(frozen.architecture->sequence.size(), 1U);
}

}  // namespace
}  // namespace steelyard
