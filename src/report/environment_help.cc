#include "report/environment_help.h"

#include <nlohmann/json.hpp>

#include "report/table.h"

namespace steelyard {
namespace {

std::string sentence(const EnvironmentKey& key) {
  return std::string(key.is_read ? "" : "not weighed: ") + std::string(key.changes);
}

}  // namespace

std::string environment_text(const Style& style) {
  std::string result;
  for (const EnvironmentKey& key : environment_keys())
    result +=
        painted(style, Ink::kStrong, key.name) + "\n  " +
        wrapped(style, "takes " + std::string(key.takes) + "; absent: " + std::string(key.absent),
                2) +
        "\n  " + wrapped(style, sentence(key), 2) + "\n" +
        painted(style, Ink::kQuiet,
                "  " + wrapped(style, "source: " + std::string(key.source), 2)) +
        "\n";
  return result;
}

nlohmann::ordered_json json_of(const EnvironmentKey& key) {
  return {{"schema", "steelyard.environment_key/1"},
          {"name", key.name},
          {"takes", key.takes},
          {"absent", key.absent},
          {"changes", key.changes},
          {"weighed", key.is_read},
          {"source", key.source}};
}

nlohmann::ordered_json environment_json() {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const EnvironmentKey& key : environment_keys()) {
    nlohmann::ordered_json row = json_of(key);
    row.erase("schema");
    rows.push_back(std::move(row));
  }
  return {{"schema", "steelyard.environment/1"}, {"environment", std::move(rows)}};
}

const EnvironmentKey* environment_key_asked(std::string_view word) {
  constexpr std::string_view kSection = "environment.";
  if (word.starts_with(kSection)) word.remove_prefix(kSection.size());
  return find_environment_key(word);
}

std::string environment_key_text(const EnvironmentKey& key, const Style& style) {
  constexpr int kIndent = 11;
  const auto line = [&](std::string_view label, const std::string& text) {
    return padded_right("  " + std::string(label), kIndent) + wrapped(style, text, kIndent) + "\n";
  };
  return painted(style, Ink::kStrong, "environment." + std::string(key.name)) + "\n" +
         line("takes", std::string(key.takes)) + line("absent", std::string(key.absent)) +
         line("changes", sentence(key)) + line("source", std::string(key.source));
}

}  // namespace steelyard
