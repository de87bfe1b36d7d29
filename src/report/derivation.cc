#include "report/derivation.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "report/amount.h"
#include "report/table.h"

namespace steelyard {
namespace {

constexpr std::size_t kScreenRows = 12;

std::int64_t number(Bytes bytes) { return bytes.value().value(); }

// A label at the left and an amount at the right of one line.
std::string spread(const std::string& left, const std::string& right, int width) {
  const int blanks = width - columns_of(left) - columns_of(right);
  return left + std::string(static_cast<std::size_t>(std::max(blanks, 2)), ' ') + right + "\n";
}

std::string line_text(const DerivationLine& line, const Style& style, const std::string& owner) {
  const std::string name =
      "  " +
      (line.owner == owner || line.owner.empty() ? line.name : line.owner + ": " + line.name);
  std::string formula = line.formula;
  if (line.count != 1 && !formula.empty())
    formula +=
        fmt::format(" = {}, {} times", print_count(number(line.each)), print_count(line.count));
  const std::string total = print_count(number(line.total));
  std::string result;
  constexpr int kNameColumns = 28;
  const int room = style.width - columns_of(total) - 2;
  if (formula.empty()) {
    result = spread(name, total, style.width);
  } else if (std::max(columns_of(name), kNameColumns) + 2 + columns_of(formula) <= room) {
    result = spread(padded_right(name, kNameColumns) + "  " + formula, total, style.width);
  } else {
    result = spread(name, total, style.width) + "      " + formula + "\n";
  }
  std::string because = line.reason;
  if (!line.rule.empty())
    because += (because.empty() ? "" : "; ") + fmt::format("rule {}", line.rule);
  if (!because.empty())
    result += painted(style, Ink::kQuiet, "      " + wrapped(style, because, 6)) + "\n";
  return result;
}

std::string legend_text(const Derivation& derivation, const Style& style) {
  std::vector<std::string> parts;
  for (const Symbol& symbol : derivation.legend)
    parts.push_back(
        fmt::format("{} {} {}", symbol.letter, symbol.meaning, print_count(symbol.value)));
  return parts.empty() ? "" : "\n  " + facts(style, parts, 2) + "\n";
}

std::string per_token_text(const Derivation::PerToken& part, const Style& style) {
  std::string result = "\n" + spread(fmt::format("kept by {} for each token", part.owner),
                                     print_count(part.bytes) + " B", style.width);
  result += "  " + part.formula + "\n";
  Table table({{""}, {""}});
  for (const auto& [name, share] : part.terms) table.add({name, share});
  return result + table.text(style);
}

std::string rules_text(const Derivation& derivation, const Style& style) {
  std::set<std::string> seen;
  std::string result;
  for (const DerivationLine& line : derivation.lines) {
    if (line.rule.empty() || !seen.insert(line.rule).second) continue;
    const Rule* rule = find_rule(line.rule);
    if (rule == nullptr) continue;
    result += "  " + wrapped(style, fmt::format("{}: {}", rule->id, rule->sentence), 4) + "\n";
    result +=
        painted(style, Ink::kQuiet, "    " + wrapped(style, "source: " + rule->source, 4)) + "\n";
  }
  return result.empty() ? "" : "\nrules\n" + result;
}

}  // namespace

std::string derivation_text(const Derivation& derivation, const Style& style, bool all) {
  std::string result = spread(painted(style, Ink::kStrong, derivation.subject),
                              print_count(number(derivation.total)) + " B", style.width);
  const bool cut = style.elide && !all && derivation.lines.size() > kScreenRows;
  Bytes hidden{};
  std::size_t rows = 0;
  std::string owner;
  for (const DerivationLine& line : derivation.lines) {
    if (cut && rows >= kScreenRows) {
      hidden += line.total;
      continue;
    }
    ++rows;
    result += line_text(line, style, owner);
  }
  if (cut)
    result += spread(fmt::format("  {} more (--all)", derivation.lines.size() - rows),
                     print_count(number(hidden)), style.width);
  result += legend_text(derivation, style);
  for (const Derivation::PerToken& part : derivation.per_token)
    result += per_token_text(part, style);
  if (!cut) result += rules_text(derivation, style);
  if (!derivation.notes.empty()) result += "\n";
  for (const std::string& note : derivation.notes) result += wrapped(style, note, 0) + "\n";
  return without_trailing_blanks(result);
}

nlohmann::ordered_json json_of(const Derivation& derivation) {
  using Json = nlohmann::ordered_json;
  Json legend = Json::array();
  for (const Symbol& symbol : derivation.legend)
    legend.push_back(
        {{"letter", symbol.letter}, {"meaning", symbol.meaning}, {"value", symbol.value}});
  Json lines = Json::array();
  for (const DerivationLine& line : derivation.lines) {
    const Rule* rule = find_rule(line.rule);
    lines.push_back({{"pile", name_of(line.pile)},
                     {"owner", line.owner},
                     {"name", line.name},
                     {"formula", line.formula},
                     {"reason", line.reason},
                     {"rule", line.rule},
                     {"source", rule == nullptr ? "" : rule->source},
                     {"each_bytes", number(line.each)},
                     {"count", line.count},
                     {"total_bytes", number(line.total)}});
  }
  Json per_token = Json::array();
  for (const Derivation::PerToken& part : derivation.per_token) {
    Json terms = Json::object();
    for (const auto& [name, share] : part.terms) terms[name] = share;
    per_token.push_back({{"owner", part.owner},
                         {"formula", part.formula},
                         {"bytes", part.bytes},
                         {"terms", std::move(terms)}});
  }
  return {{"schema", "steelyard.derivation/1"},
          {"subject", derivation.subject},
          {"total_bytes", number(derivation.total)},
          {"legend", std::move(legend)},
          {"lines", std::move(lines)},
          {"per_token", std::move(per_token)},
          {"notes", derivation.notes}};
}

std::string rule_text(const Rule& rule, const Style& style) {
  return rule.id + "\n  " + wrapped(style, rule.sentence, 2) + "\n  " +
         wrapped(style, "source: " + rule.source, 2) + "\n";
}

nlohmann::ordered_json json_of(const Rule& rule) {
  return {{"schema", "steelyard.rule/1"},
          {"id", rule.id},
          {"sentence", rule.sentence},
          {"source", rule.source}};
}

}  // namespace steelyard
