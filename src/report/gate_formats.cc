#include "report/gate_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/version.h"
#include "document/printable.h"

namespace steelyard {
namespace {

using GateJson = nlohmann::ordered_json;

std::string replaced(std::string_view text,
                     std::initializer_list<std::pair<char, std::string_view>> rows) {
  std::string result;
  for (const char c : text) {
    const auto* row = std::find_if(rows.begin(), rows.end(),
                                   [c](const auto& candidate) { return candidate.first == c; });
    if (row == rows.end())
      result += c;
    else
      result += row->second;
  }
  return result;
}

// GitHub's runner undoes these, in its actions/toolkit command.ts.
std::string github_data(std::string_view text) {
  return replaced(text, {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}});
}
std::string github_property(std::string_view text) {
  return replaced(text, {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}, {':', "%3A"}, {',', "%2C"}});
}

// XML 1.0 has no way to write most control characters: printable() has replaced them.
std::string xml_text(std::string_view text) {
  return replaced(printable(text),
                  {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\n', "&#10;"}});
}

// A relative reference of RFC 3986.
std::string uri_of(std::string_view path) {
  std::string result;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    if (plain)
      result += c;
    else
      result += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return result;
}

// FNV-1a of 64 bits.
std::string fingerprint(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return fmt::format("{:016x}", hash);
}

const char* github_level(GateLevel level) {
  switch (level) {
    case GateLevel::kPassed:
      return "notice";
    case GateLevel::kWarning:
      return "warning";
    case GateLevel::kRefused:
    case GateLevel::kNotWeighed:
      break;
  }
  return "error";
}

}  // namespace

std::string github_text(std::vector<GateFinding> findings) {
  std::stable_sort(findings.begin(), findings.end(),
                   [](const GateFinding& a, const GateFinding& b) { return a.level > b.level; });
  std::string text;
  for (const GateFinding& finding : findings) {
    text += fmt::format("::{} file={}", github_level(finding.level), github_property(finding.file));
    if (finding.line > 0) text += fmt::format(",line={}", finding.line);
    if (finding.column > 0) text += fmt::format(",col={}", finding.column);
    text += fmt::format(",title={}::{}\n", github_property("steelyard: " + finding.title),
                        github_data(printable(finding.message)));
  }
  return text;
}

std::string sarif_text(const std::vector<GateFinding>& findings) {
  GateJson rules = GateJson::array(), results = GateJson::array();
  std::vector<std::string> names;
  for (const GateFinding& finding : findings) {
    if (finding.level == GateLevel::kPassed) continue;
    const auto found = std::find(names.begin(), names.end(), finding.rule);
    const auto index = found - names.begin();
    if (found == names.end()) {
      names.push_back(finding.rule);
      rules.push_back({{"id", finding.rule}, {"shortDescription", {{"text", finding.title}}}});
    }
    GateJson place = {{"artifactLocation", {{"uri", uri_of(finding.file)}}}};
    if (finding.line > 0) {
      place["region"] = {{"startLine", finding.line}};
      if (finding.column > 0) place["region"]["startColumn"] = finding.column;
    }
    results.push_back({{"ruleId", finding.rule},
                       {"ruleIndex", index},
                       {"level", github_level(finding.level)},
                       {"message", {{"text", printable(finding.message)}}},
                       {"locations", GateJson::array({{{"physicalLocation", place}}})},
                       {"partialFingerprints",
                        {{"steelyard/v1",
                          fingerprint(finding.job + "\n" + finding.file + "\n" + finding.rule)}}}});
  }
  const GateJson driver = {
      {"name", "steelyard"}, {"version", std::string(version())}, {"rules", rules}};
  const GateJson log = {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                        {"version", "2.1.0"},
                        {"runs", GateJson::array({{{"tool", {{"driver", driver}}},
                                                   {"columnKind", "unicodeCodePoints"},
                                                   {"results", results}}})}};
  return log.dump(2, ' ', false, GateJson::error_handler_t::replace) + "\n";
}

std::string junit_text(const std::vector<GateFinding>& findings) {
  std::vector<std::string> jobs;
  for (const GateFinding& finding : findings)
    if (std::find(jobs.begin(), jobs.end(), finding.job) == jobs.end()) jobs.push_back(finding.job);
  std::size_t failures = 0, errors = 0;
  std::string cases;
  for (const std::string& job : jobs) {
    std::string failed, missed, said;
    for (const GateFinding& finding : findings) {
      if (finding.job != job) continue;
      const std::string row = fmt::format("type=\"{}\" message=\"{}\"/>\n", xml_text(finding.rule),
                                          xml_text(finding.message));
      if (finding.level == GateLevel::kRefused)
        failed += "      <failure " + row;
      else if (finding.level == GateLevel::kNotWeighed)
        missed += "      <error " + row;
      else
        said += fmt::format("      <system-out>{}</system-out>\n", xml_text(finding.message));
    }
    failures += failed.empty() ? 0 : 1;
    errors += missed.empty() ? 0 : 1;
    cases += fmt::format("    <testcase classname=\"steelyard.gate\" name=\"{}\" file=\"{}\">\n",
                         xml_text(job), xml_text(job)) +
             missed + failed + said + "    </testcase>\n";
  }
  const std::string counts =
      fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\"", jobs.size(), failures, errors);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {0}>\n  <testsuite name=\"steelyard "
      "gate\" {0}>\n{1}  </testsuite>\n</testsuites>\n",
      counts, cases);
}

}  // namespace steelyard
