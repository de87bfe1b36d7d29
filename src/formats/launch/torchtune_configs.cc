#include "formats/launch/torchtune_configs.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "document/edit_distance.h"
#include "document/read.h"

namespace steelyard {
namespace {

struct TorchtuneConfig {
  std::string_view name, text;
};
#define CONFIG(name, text) {name, text},
constexpr TorchtuneConfig kTorchtuneConfigs[] = {
#include "formats/launch/torchtune_configs.def"
};
#undef CONFIG

}  // namespace

std::optional<Value> torchtune_config(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kTorchtuneConfigs), std::end(kTorchtuneConfigs),
                   [&](const TorchtuneConfig& one) { return one.name == name; });
  if (found == std::end(kTorchtuneConfigs)) return std::nullopt;
  ReadValue read = read_json(found->text, fmt::format("torchtune's {}", name));
  return read ? std::optional(std::move(*read)) : std::nullopt;
}

std::string torchtune_config_help(std::string_view name) {
  std::vector<std::string_view> names;
  for (const TorchtuneConfig& one : kTorchtuneConfigs) names.push_back(one.name);
  return did_you_mean("configuration", nearest_names(name, names));
}

}  // namespace steelyard
