#include "report/model_list.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "model/catalogue.h"
#include "report/table.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

struct ModelRow {
  Preset preset;
  std::shared_ptr<const Architecture> architecture;
  ParameterCounts counts;
};

// Counted from the tensors, not copied from the data: what is listed is what is weighed.
std::vector<ModelRow> rows() {
  std::vector<ModelRow> result;
  for (const std::string_view name : preset_names()) {
    std::optional<Preset> preset = find_preset(name);
    Diagnostics problems;
    const std::optional<FoundModel> found = find_model(name, Place{}, problems);
    if (!preset || !found) continue;
    result.push_back(
        {std::move(*preset), found->architecture, count_parameters(*found->architecture)});
  }
  return result;
}

}  // namespace

std::string models_text(const Style& style) {
  Table table(
      {{"model"}, {"family"}, {"parameters", true}, {"active", true}, {"published", true}, {""}});
  std::vector<std::string> disputes;
  const std::vector<ModelRow> all = rows();
  for (const ModelRow& row : all) {
    const bool mixture = row.counts.active != row.counts.total;
    table.add({row.preset.name, row.architecture->family, print_count(row.counts.total),
               mixture ? print_parameters(row.counts.active) : "", row.preset.published,
               row.preset.disputed ? "disputed" : ""});
    if (row.preset.disputed)
      disputes.push_back(fmt::format("{}: {}", row.preset.name, row.preset.dispute));
  }
  std::string result = table.text(style) + fmt::format("  {} models\n", all.size());
  if (!disputes.empty()) result += "\ndisputed counts\n";
  for (const std::string& dispute : disputes) result += "  " + wrapped(style, dispute, 4) + "\n";
  return result;
}

nlohmann::ordered_json models_json() {
  Json listed = Json::array();
  for (const ModelRow& row : rows()) {
    Json beside = Json::object();
    for (const Architecture::Beside& part : row.architecture->beside_total)
      beside[part.name] = part.parameters;
    listed.push_back({{"name", row.preset.name},
                      {"family", row.architecture->family},
                      {"hub_id", row.preset.hub_id},
                      {"parameters", {{"total", row.counts.total}, {"active", row.counts.active}}},
                      {"beside_total", std::move(beside)},
                      {"published", row.preset.published},
                      {"disputed", row.preset.disputed},
                      {"dispute", row.preset.dispute},
                      {"verified", row.preset.verified},
                      {"source", row.preset.source}});
  }
  return {{"schema", "steelyard.models/1"}, {"models", std::move(listed)}};
}

}  // namespace steelyard
