#include "job/engine_rules.h"

#include <string>
#include <vector>

#include "schedule/orders.h"

namespace steelyard {
namespace {

constexpr std::string_view kOwnKernels = "its own fused kernel";
constexpr std::string_view kTorchDefault = "PyTorch's default on a GPU";

constexpr std::array kRules = {
#define ENGINE(id, name, make, ...) EngineRules{.engine = Engine::id, __VA_ARGS__},
#include "job/engines.def"
#undef ENGINE
};

std::string listed(bool EngineRules::*able) {
  std::string text;
  std::string last;
  for (const EngineRules& rules : kRules) {
    if (!(rules.*able)) continue;
    if (!last.empty()) text += (text.empty() ? "" : ", ") + last;
    last = name_of(rules.engine);
  }
  return text + " and " + last;
}

}  // namespace

std::span<const EngineRules> engine_rules() { return kRules; }
const EngineRules& rules_of(Engine engine) { return kRules[static_cast<std::size_t>(engine)]; }
std::string orders_of(const EngineRules& rules) {
  std::vector<std::string_view> names;
  for (const PipelineOrder& order : pipeline_orders())
    if ((rules.orders & bit_of(order.schedule)) != 0) names.push_back(order.name);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += std::string(i == 0                  ? ""
                        : i + 1 == names.size() ? " and "
                                                : ", ") +
            std::string(names[i]);
  return text;
}
std::string engines_with_tensor() { return listed(&EngineRules::tensor); }
std::string engines_with_pipeline() { return listed(&EngineRules::pipeline); }

}  // namespace steelyard
