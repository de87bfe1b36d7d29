#include "model/sequence.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace steelyard {
namespace {

std::string shown(const std::vector<LayerGroup>& groups) {
  std::string text;
  for (const LayerGroup& group : groups) {
    text += "{";
    for (const LayerRun& run : group.runs)
      text += std::to_string(run.count) + "x" + std::to_string(run.kind) + " ";
    text.back() = '}';
    text += "x" + std::to_string(group.times) + " ";
  }
  return text;
}

TEST(Sequence, IsWrittenShort) {
  EXPECT_EQ(shown(grouped_sequence({0, 0, 0})), "{3x0}x1 ");
  EXPECT_EQ(shown(grouped_sequence({0, 1, 0, 1, 0, 1})), "{1x0 1x1}x3 ");
  EXPECT_EQ(shown(grouped_sequence({0, 0, 1, 0, 0, 1, 0})), "{2x0 1x1}x2 {1x0}x1 ");
  EXPECT_EQ(shown(grouped_sequence({1, 0, 0, 0, 0})), "{1x1}x1 {4x0}x1 ");
  EXPECT_EQ(shown(grouped_sequence({})), "");
}

TEST(Sequence, UnrollsToWhatItWasMadeOf) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<int> kinds(random() % 40);
    for (int& kind : kinds) kind = static_cast<int>(random() % 3);
    Architecture model;
    model.sequence = grouped_sequence(kinds);
    EXPECT_EQ(kind_of_each_layer(model), kinds);
  }
}

}  // namespace
}  // namespace steelyard
