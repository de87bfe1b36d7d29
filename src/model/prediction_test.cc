// Multi-token prediction: how many parameters its modules bring, and where they stand.
#include "model/prediction.h"

#include <gtest/gtest.h>

#include "model/catalogue.h"
#include "model/read.h"

namespace steelyard {
namespace {

Architecture preset_model(std::string_view name) {
  Diagnostics problems;
  return *read_architecture(find_preset(name)->config, std::string(name), problems);
}

// The weights README of DeepSeek-V3: 671B and a module of 11.6B, stored with copies of embedding and head, "685B" with the
// scales of 8-bit blocks.
TEST(Prediction, ReachesThePublishedCountOfDeepSeekV3) {
  const Architecture model = preset_model("deepseek-v3");
  const auto trained = with_prediction(model, 1);
  const std::int64_t total = count_parameters(*trained).total;
  EXPECT_EQ(total, 671'026'404'352 + 11'610'067'968);
  const std::int64_t shared = 2 * model.vocabulary * model.hidden;
  EXPECT_EQ(total + shared, 684'489'830'400);
  // One token visits 8 of 256 experts of the module, too.
  const std::int64_t active = count_parameters(*trained).active - count_parameters(model).active;
  EXPECT_LT(active, 11'610'067'968 / 10);
}

TEST(Prediction, RepeatsTheLastLayerBehindIt) {
  const auto trained = with_prediction(preset_model("llama-3.2-1b"), 2);
  ASSERT_EQ(trained->predictions.size(), 2U);
  const PredictionModule& second = trained->predictions[1];
  const auto at = [&](int index) {
    return trained->head_parameters[static_cast<std::size_t>(index)].name;
  };
  EXPECT_EQ(at(second.first_parameter + second.token_norm.weight_index),
            "model.layers.17.enorm.weight");
  EXPECT_EQ(at(second.first_of_layer), "model.layers.17.self_attn.q_proj.weight");
}

TEST(Prediction, NeedsADecoderWithoutATableOfPositions) {
  EXPECT_TRUE(can_predict(preset_model("qwen3-4b")));
  EXPECT_FALSE(can_predict(preset_model("gpt2")));
  EXPECT_FALSE(can_predict(preset_model("bert-base-uncased")));
}

}  // namespace
}  // namespace steelyard
