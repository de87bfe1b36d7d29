// Reads data/rules: every sentence that a byte rests on.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/embedded.h"
#include "predict/explain.h"

namespace steelyard {

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = [] {
    std::vector<Rule> read;
    for (const EmbeddedFile& file : embedded_files()) {
      if (file.path.rfind("rules/", 0) != 0) continue;
      const nlohmann::json document = nlohmann::json::parse(file.text);
      for (const nlohmann::json& rule : document.at("rules"))
        read.push_back({rule.at("id").get<std::string>(), rule.at("sentence").get<std::string>(),
                        rule.at("source").get<std::string>()});
    }
    std::sort(read.begin(), read.end(), [](const Rule& a, const Rule& b) { return a.id < b.id; });
    return read;
  }();
  return all;
}

const Rule* find_rule(std::string_view id) {
  const std::vector<Rule>& all = rules();
  const auto at =
      std::lower_bound(all.begin(), all.end(), id,
                       [](const Rule& rule, std::string_view wanted) { return rule.id < wanted; });
  return at != all.end() && at->id == id ? &*at : nullptr;
}

}  // namespace steelyard
