#include "report/techniques.h"

#include <fmt/format.h>

#include "data/embedded.h"
#include "predict/explain.h"
#include "report/table.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

std::string said(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string keys_of(const Technique& technique) {
  std::string keys;
  for (const auto& [path, value] : technique.run.items())
    keys += (keys.empty() ? "" : ", ") + path + " = " + said(value);
  return keys.empty() ? "what is weighed when nothing is said" : keys;
}

}  // namespace

const std::vector<Technique>& techniques() {
  static const std::vector<Technique> all = [] {
    std::vector<Technique> read;
    for (const EmbeddedFile& file : embedded_files_in("techniques")) {
      const Json document = Json::parse(file.text);
      for (const Json& row : document.at("techniques"))
        read.push_back({row.at("group").get<std::string>(), row.at("technique").get<std::string>(),
                        row.at("run"), row.at("rules").get<std::vector<std::string>>(),
                        row.value("note", "")});
    }
    return read;
  }();
  return all;
}

std::string techniques_text(const Style& style) {
  std::string result, group;
  for (const Technique& technique : techniques()) {
    if (technique.group != group) result += (group.empty() ? "" : "\n") + technique.group + "\n";
    group = technique.group;
    result += "  " + technique.name + "\n";
    if (!technique.run.is_null()) result += "      " + wrapped(style, keys_of(technique), 6) + "\n";
    for (const std::string& id : technique.rules) {
      const Rule* rule = find_rule(id);
      result += "      " +
                wrapped(style, fmt::format("rule {}: {}", id, rule ? rule->source : "none"), 6) +
                "\n";
    }
    if (!technique.note.empty()) result += "      " + wrapped(style, technique.note, 6) + "\n";
  }
  return result;
}

Json techniques_json() {
  Json rows = Json::array();
  for (const Technique& technique : techniques()) {
    Json named = Json::array();
    for (const std::string& id : technique.rules) {
      const Rule* rule = find_rule(id);
      named.push_back({{"id", id}, {"source", rule ? rule->source : ""}});
    }
    rows.push_back({{"group", technique.group},
                    {"technique", technique.name},
                    {"run", technique.run},
                    {"rules", std::move(named)},
                    {"note", technique.note}});
  }
  return {{"schema", "steelyard.techniques/1"}, {"techniques", std::move(rows)}};
}

}  // namespace steelyard
