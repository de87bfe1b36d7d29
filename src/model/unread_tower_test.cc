#include "model/unread_tower.h"

#include <gtest/gtest.h>

#include "document/read.h"
#include "model/catalogue.h"

namespace steelyard {
namespace {

std::optional<std::int64_t> tower_of(std::string_view preset) {
  const auto found = find_preset(preset);
  if (!found) return std::nullopt;
  const Value* tower = found->config.find("vision_config");
  return tower == nullptr ? std::nullopt : count_unread_tower(*tower);
}

// As transformers 5.17 counts the parameters of "model.visual".
TEST(UnreadTower, CountsWhatTransformersCounts) {
  EXPECT_EQ(tower_of("qwen2-vl-2b"), 665'271'296);
  EXPECT_EQ(tower_of("qwen2.5-vl-7b"), 676'550'144);
  EXPECT_EQ(tower_of("qwen2.5-vl-72b"), 704'573'696);
  EXPECT_EQ(tower_of("qwen3-vl-4b"), 415'347'712);
  EXPECT_EQ(tower_of("qwen3-vl-235b-a22b"), 576'388'336);
}

TEST(UnreadTower, SaysNothingOfSizesThatAreNotWritten) {
  EXPECT_FALSE(tower_of("qwen3.5-4b"));
  EXPECT_FALSE(count_unread_tower(*read_json(R"({"model_type": "pixtral"})", "config.json")));
}

}  // namespace
}  // namespace steelyard
