#include "report/diagnosis_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "document/printable.h"
#include "quantity/print.h"
#include "report/amount.h"
#include "report/fix_line.h"
#include "report/table.h"
#include "report/trace_shares.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostScreenLines = 20;

// "1.96 GiB requested; 1.02 free of 79.11; 1.67 outside PyTorch's allocator"
std::string failure_line(const Diagnosis& diagnosis) {
  const MemoryFailure& failure = diagnosis.failure;
  std::vector<std::string> parts;
  if (failure.tried) parts.push_back(print(*failure.tried) + " requested");
  if (failure.allocated) parts.push_back(print(*failure.allocated) + " allocated");
  if (failure.free && failure.capacity)
    parts.push_back(fmt::format("{} free of {}", print(*failure.free), print(*failure.capacity)));
  else if (failure.free)
    parts.push_back(print(*failure.free) + " free");
  if (diagnosis.outside) parts.push_back(print(*diagnosis.outside) + " outside the allocator");
  std::string line;
  for (const std::string& part : parts) line += (line.empty() ? "" : ", ") + part;
  return line;
}

std::string when_line(const Diagnosis& diagnosis) {
  std::string line;
  const auto say = [&](std::string_view what, const std::string& value) {
    if (!value.empty()) line += fmt::format("{}{}{}", line.empty() ? "" : ", ", what, value);
  };
  if (diagnosis.rank) say("rank ", std::to_string(*diagnosis.rank));
  if (diagnosis.device) say("device ", std::to_string(*diagnosis.device));
  if (diagnosis.step) say("step ", std::to_string(*diagnosis.step));
  say("", diagnosis.phase);
  if (diagnosis.event) say("event ", print_count(Checked(*diagnosis.event)));
  say("", printable(diagnosis.time));
  return line;
}

void add_piles(const Diagnosis& diagnosis, const Style& style, std::string& text) {
  if (!diagnosis.has_piles) return;
  struct Row {
    std::string name;
    Bytes measured, predicted;
  };
  std::vector<Row> rows;
  Bytes total = diagnosis.unaccounted;
  for (int index = 0; index < kPileCount; ++index) {
    const auto pile = static_cast<Pile>(index);
    const Bytes predicted = diagnosis.against ? diagnosis.against->piles[pile] : Bytes();
    total += diagnosis.piles[pile];
    if (diagnosis.piles[pile] > Bytes() || predicted > Bytes())
      rows.push_back({std::string(words_of(pile)), diagnosis.piles[pile], predicted});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.measured > b.measured; });
  if (rows.size() > 6) rows.resize(6);
  rows.push_back({"unaccounted", diagnosis.unaccounted, Bytes()});
  std::vector<Column> columns = {{"alive, GiB", false}, {"measured", true}};
  if (diagnosis.against) {
    columns.push_back({"predicted", true});
    columns.push_back({"more", true});
  }
  Table table(columns);
  for (const Row& row : rows) {
    std::vector<std::string> cells = {"  " + row.name, print_memory(row.measured)};
    if (diagnosis.against) {
      cells.push_back(row.name == "unaccounted" ? "-" : print_memory(row.predicted));
      cells.push_back(print_signed(row.measured - row.predicted)
                          .substr(0, print_signed(row.measured - row.predicted).find(' ')));
    }
    table.add(cells);
  }
  text += "\n" + table.text(style);
}

std::string largest_line(const Diagnosis& diagnosis) {
  for (const BlockGroup& group : diagnosis.groups)
    if (!group.site.empty())
      return fmt::format("largest: {} x {}, {}", print_count(Checked(group.count)),
                         print_block(Bytes(group.size)), printable(group.site));
  return "";
}

constexpr std::size_t kMostLinesOfFix = 2;  // all are in --json, and in `export --diff`

constexpr int kFixIndent = 5;  // under "fix: "

void add_lines_of(const Fix& fix, const Style& style, std::string& text) {
  std::size_t shown = 0;
  Style narrow = style;
  narrow.width = style.width - kFixIndent;
  for (const FixLine& line : fix.lines) {
    if (shown++ == kMostLinesOfFix) break;
    std::string words = printable(fix_line_text(line));
    if (shown == kMostLinesOfFix && fix.lines.size() > shown)
      words += fmt::format(" (and {} more)", fix.lines.size() - shown);
    text += std::string(kFixIndent, ' ') + wrapped(narrow, words, kFixIndent + 4) + "\n";
  }
}

// "training.loss = chunked must lower the peak by 7.10 GiB if it is the logits, by 0.00 GiB if it is ..."
std::string experiment_words(const Experiment& experiment) {
  std::string line = experiment.change + " must lower the peak by ";
  bool first = true;
  for (const auto& [cause, bytes] : experiment.expect) {
    line += fmt::format("{}{} if it is {}", first ? "" : ", by ", print(std::max(bytes, Bytes())),
                        facts_of(cause).title);
    first = false;
  }
  return line;
}

}  // namespace

std::string diagnosis_text(const Diagnosis& diagnosis, const Style& style) {
  const CauseFacts& facts = facts_of(diagnosis.verdict);
  std::string text =
      painted(style, diagnosis.verdict == Cause::kHealthy ? Ink::kGood : Ink::kBad, facts.title);
  const bool has_main =
      !diagnosis.findings.empty() && diagnosis.findings.front().cause == diagnosis.verdict;
  if (has_main)
    text += fmt::format("   {} sure", print_percent(diagnosis.findings.front().certainty));
  // Its name in the JSON, where the title has other words.
  text += facts.name == facts.title ? "\n" : fmt::format("   ({})\n", facts.name);
  if (const std::string line = failure_line(diagnosis); !line.empty())
    text += wrapped(style, "  " + line, 2) + "\n";
  if (const std::string line = when_line(diagnosis); !line.empty())
    text += wrapped(style, "  when: " + line, 8) + "\n";
  std::size_t number = 0;
  for (const Finding& finding : diagnosis.findings) {
    const bool main = finding.cause == diagnosis.verdict;
    std::size_t shown = 0;
    for (const Proof& proof : finding.proof) {
      if (shown++ >= (main ? 2U : 1U)) break;
      const std::string lead =
          main ? "  because "
               : fmt::format("  {} {} ({}): ",
                             diagnosis.verdict == Cause::kHealthy ? "highest point:" : "also",
                             facts_of(finding.cause).title, print_percent(finding.certainty));
      text += wrapped(style, lead + printable(proof.text), 4) + "\n";
    }
    ++number;
  }
  add_piles(diagnosis, style, text);
  if (const std::string line = largest_line(diagnosis); !line.empty())
    text += wrapped(style, "  " + line, 4) + "\n";
  for (const Evidence& one : diagnosis.evidence)
    if (one.trace != nullptr)
      if (const std::string line = trace_shares_line(printable(one.file), *one.trace);
          !line.empty())
        text += wrapped(style, "  " + line, 4) + "\n";
  for (const Fix& fix : diagnosis.fixes) {
    std::string line = "fix: " + fix.change;
    if (fix.saves) line += fmt::format(", {} less", print(*fix.saves));
    if (fix.costs) line += fmt::format(", step {}", print_signed(*fix.costs));
    if (!fix.verdict.empty())
      line +=
          fix.verdict == name_of(Verdict::kDoesNotFit) ? ", not enough alone" : ", " + fix.verdict;
    text += wrapped(style, line, 5) + "\n";
    add_lines_of(fix, style, text);
  }
  if (!diagnosis.experiments.empty())
    text +=
        wrapped(style, "to decide: " + experiment_words(diagnosis.experiments.front()), 5) + "\n";
  for (const std::string& note : diagnosis.notes)
    text += wrapped(style, "note: " + printable(note), 6) + "\n";
  // One screen: what is below it is in --json.
  std::size_t lines = 0;
  for (std::size_t at = 0; at < text.size(); ++at)
    if (text[at] == '\n' && ++lines == kMostScreenLines) {
      text.resize(at + 1);
      break;
    }
  return text;
}

std::string experiments_text(const Diagnosis& diagnosis, const Style& style) {
  if (diagnosis.findings.size() < 2)
    return diagnosis.findings.empty() ? std::string("nothing to decide: no cause was found\n")
                                      : fmt::format("nothing to decide: only {} ({}) remains\n",
                                                    facts_of(diagnosis.findings[0].cause).title,
                                                    print_percent(diagnosis.findings[0].certainty));
  std::string text = fmt::format("{} causes remain:", diagnosis.findings.size());
  bool first = true;
  for (const Finding& finding : diagnosis.findings) {
    text += fmt::format("{} {} ({})", first ? "" : ",", facts_of(finding.cause).title,
                        print_percent(finding.certainty));
    first = false;
  }
  text = wrapped(style, text, 2) + "\n";
  std::size_t number = 0;
  for (const Experiment& experiment : diagnosis.experiments)
    text +=
        wrapped(style, fmt::format("run {}: {}", ++number, experiment_words(experiment)), 5) + "\n";
  for (const auto& [a, b] : diagnosis.undecided)
    text +=
        wrapped(style,
                fmt::format("no change of the run tells {} from {}: {}; or {}", facts_of(a).title,
                            facts_of(b).title, facts_of(a).experiment, facts_of(b).experiment),
                5) +
        "\n";
  if (diagnosis.run.empty())
    for (const Finding& finding : diagnosis.findings)
      text += wrapped(style,
                      fmt::format("{}: {}", facts_of(finding.cause).title,
                                  facts_of(finding.cause).experiment),
                      5) +
              "\n";
  if (diagnosis.run.empty()) text += "--against RUN says the numbers that each must show\n";
  for (const std::string& note : diagnosis.notes)
    text += wrapped(style, "note: " + printable(note), 6) + "\n";
  return text;
}

namespace {

constexpr int kExplainedLabel = 15;

// "  proof        two blocks for each parameter, ..."
std::string explained_line(std::string_view label, std::string_view sentence, const Style& style) {
  Style narrow = style;
  narrow.width = style.width - kExplainedLabel;
  std::string lines = wrapped(narrow, std::string(sentence), 0);
  for (std::size_t at = lines.find('\n'); at != std::string::npos; at = lines.find('\n', at + 1))
    if (at + 1 < lines.size()) lines.insert(at + 1, std::string(kExplainedLabel, ' '));
  return padded_right("  " + std::string(label), kExplainedLabel) + lines + "\n";
}

}  // namespace

std::string cause_text(const CauseFacts& facts, const Style& style) {
  std::string text =
      painted(style, Ink::kStrong, facts.name) + "   " + std::string(facts.title) + "\n";
  const auto say = [&](std::string_view label, std::string_view sentence) {
    text += explained_line(label, sentence, style);
  };
  say("is", facts.what);
  say("proof", facts.proof);
  say("check first", facts.counter);
  say("decides", facts.experiment);
  say("helps", facts.remedy);
  for (int pile = 0; pile < kPileCount; ++pile)
    if (name_of(static_cast<Pile>(pile)) == facts.name)
      say("of a run", fmt::format("steelyard explain RUN {}", facts.name));
  return text;
}

std::string attribution_rule_text(const AttributionRule& rule, const Style& style) {
  return painted(style, Ink::kStrong, rule.name) + "   " + std::string(rule.title) + "\n" +
         explained_line("says", rule.what, style) + explained_line("needs", rule.needs, style);
}

}  // namespace steelyard
