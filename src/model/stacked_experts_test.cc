#include "model/stacked_experts.h"

#include <gtest/gtest.h>

#include "model/catalogue.h"
#include "model/freeze.h"

namespace steelyard {
namespace {

using Shape = std::vector<std::int64_t>;

std::shared_ptr<const Architecture> released(const char* name) {
  Diagnostics problems;
  return find_model(name, Place{}, problems)->architecture;
}
const Layer& with_experts(const Architecture& model) {
  for (const Layer& layer : model.kinds)
    if (std::holds_alternative<ExpertMlp>(layer.mlp)) return layer;
  return model.kinds.front();
}

// The same parameters, and every index still names the tensor that it did.
TEST(StackedExperts, AreTwoTensors) {
  for (const char* name : {"mixtral-8x7b", "qwen3-30b-a3b", "qwen1.5-moe-a2.7b", "deepseek-v3"}) {
    const auto before = released(name), after = with_stacked_experts(before);
    EXPECT_EQ(count_parameters(*before).total, count_parameters(*after).total) << name;
    EXPECT_EQ(count_parameters(*before).active, count_parameters(*after).active) << name;
    const Layer &layer = with_experts(*after), &separate = with_experts(*before);
    const auto& mlp = std::get<ExpertMlp>(layer.mlp);
    const auto tensor = [](const Layer& of, int index) {
      return of.parameters.at(static_cast<std::size_t>(index));
    };
    EXPECT_EQ(layer.parameters.size() + 1, separate.parameters.size());
    const std::int64_t hidden = after->hidden, width = mlp.width;
    EXPECT_EQ(tensor(layer, mlp.gate_up_index).shape, (Shape{mlp.experts, 2 * width, hidden}));
    EXPECT_EQ(tensor(layer, mlp.down_index).shape, (Shape{mlp.experts, hidden, width}));
    EXPECT_EQ(tensor(layer, mlp.router.weight_index).name, mlp.router.name + ".weight");
    for (const Norm& norm : layer.norms)
      EXPECT_EQ(tensor(layer, norm.weight_index).name, norm.name + ".weight");
    if (mlp.shared) {
      const Linear& down = mlp.shared->down;
      EXPECT_EQ(tensor(layer, down.weight_index).name, down.name + ".weight");
    }
  }
}

// qwen3_moe and deepseek make the router behind the experts, mixtral before them.
TEST(StackedExperts, StandInTheOrderOfTheModules) {
  const auto router_first = [](const char* name) {
    const auto model = with_stacked_experts(released(name));
    const auto& mlp = std::get<ExpertMlp>(with_experts(*model).mlp);
    return mlp.router.weight_index < mlp.gate_up_index;
  };
  EXPECT_TRUE(router_first("mixtral-8x7b"));
  EXPECT_FALSE(router_first("qwen3-30b-a3b"));
  EXPECT_FALSE(router_first("deepseek-v3"));
}

TEST(StackedExperts, LeaveWhatIsNotTheirs) {
  const auto dense = released("llama-3.1-8b"), fused = released("gpt-oss-20b");
  EXPECT_EQ(with_stacked_experts(dense), dense);
  EXPECT_EQ(with_stacked_experts(fused), fused);
  const auto partly = freeze(*released("mixtral-8x7b"), {"*.experts.*.w1.weight"}).architecture;
  EXPECT_GE(std::get<ExpertMlp>(with_experts(*with_stacked_experts(partly)).mlp).gate_index, 0);
}

}  // namespace
}  // namespace steelyard
