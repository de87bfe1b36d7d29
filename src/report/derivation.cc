#include "report/derivation.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "report/amount.h"
#include "report/json_values.h"
#include "report/table.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kScreenRows = 12;

// A label at the left and an amount at the right of one line.
std::string spread(const std::string& left, const std::string& right, int width) {
  const int blanks = width - columns_of(left) - columns_of(right);
  return left + std::string(static_cast<std::size_t>(std::max(blanks, 2)), ' ') + right + "\n";
}

// "2 B · b·s·f x 32": the formula of all of them together.
std::string formula_of(const DerivationLine& line, const Style& style) {
  if (line.formula.empty() || line.count == 1) return line.formula;
  return fmt::format("{} {} {}", line.formula, times(style), print_count(line.count));
}

std::string line_text(const DerivationLine& line, const Style& style) {
  constexpr int kNameColumns = 30;
  const std::string name = "  " + (line.owner.empty() ? "" : line.owner + ": ") + line.name;
  const std::string total = print_count(number(line.total));
  const std::string formula = formula_of(line, style);
  const bool beside =
      std::max(columns_of(name), kNameColumns) + 2 + columns_of(formula) + 2 + columns_of(total) <=
      style.width;
  std::string result =
      spread(beside ? padded_right(name, kNameColumns) + "  " + formula : name, total, style.width);
  if (!beside && !formula.empty()) result += "      " + formula + "\n";
  std::vector<std::string> because;
  if (line.count != 1) because.push_back(fmt::format("{} each", print_count(number(line.each))));
  // A reason that is the rule's own sentence stands among the rules, once.
  const Rule* rule = find_rule(line.rule);
  if (!line.reason.empty() && (rule == nullptr || rule->sentence != line.reason))
    because.push_back(line.reason);
  if (!line.rule.empty()) because.push_back("rule " + line.rule);
  if (!because.empty())
    result += painted(style, Ink::kQuiet, "      " + facts(style, because, 6)) + "\n";
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
  if (!part.in_hidden.empty())
    result += fmt::format("  {}   with {}\n", part.in_hidden, part.multiples);
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
  for (const DerivationLine& line : derivation.lines) {
    if (cut && rows >= kScreenRows) {
      hidden += line.total;
      continue;
    }
    ++rows;
    result += line_text(line, style);
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
                         {"in_hidden", part.in_hidden},
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
