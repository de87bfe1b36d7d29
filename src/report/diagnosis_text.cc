#include "report/diagnosis_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

// What is left out first where a screen is too small: `kMore`.
enum class Worth : std::uint8_t { kAlways, kFirst, kSecond, kMore };

// One screen of whole sentences: where they are more, those that are worth least go, the last of them first. All is in --json.
class Screen {
 public:
  void add(Worth worth, std::string text) { parts_.push_back({worth, std::move(text)}); }
  std::string text() && {
    for (int worth = static_cast<int>(Worth::kMore); worth > 0; --worth)
      for (std::size_t part = parts_.size(); part-- > 0 && lines() > kMostScreenLines;)
        if (static_cast<int>(parts_[part].worth) == worth)
          parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(part));
    std::string text;
    for (const Part& part : parts_) text += part.text;
    return text;
  }

 private:
  struct Part {
    Worth worth;
    std::string text;
  };
  std::size_t lines() const {
    std::size_t lines = 0;
    for (const Part& part : parts_)
      lines += static_cast<std::size_t>(std::count(part.text.begin(), part.text.end(), '\n'));
    return lines;
  }
  std::vector<Part> parts_;
};

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

std::string piles_table(const Diagnosis& diagnosis, const Style& style) {
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
  return "\n" + table.text(style);
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

std::string fix_text(const Fix& fix, const Style& style) {
  std::string line = "fix: " + fix.change;
  if (fix.saves) line += fmt::format(", {} less", print(*fix.saves));
  if (fix.costs) line += fmt::format(", step {}", print_signed(*fix.costs));
  if (!fix.verdict.empty())
    line +=
        fix.verdict == name_of(Verdict::kDoesNotFit) ? ", not enough alone" : ", " + fix.verdict;
  std::string text = wrapped(style, line, 5) + "\n";
  std::size_t shown = 0;
  Style narrow = style;
  narrow.width = style.width - kFixIndent;
  for (const FixLine& one : fix.lines) {
    if (shown++ == kMostLinesOfFix) break;
    std::string words = printable(fix_line_text(one));
    if (shown == kMostLinesOfFix && fix.lines.size() > shown)
      words += fmt::format(" (and {} more)", fix.lines.size() - shown);
    text += std::string(kFixIndent, ' ') + wrapped(narrow, words, kFixIndent + 4) + "\n";
  }
  return text;
}

// "19.5 GiB allocated, 23.1 GiB reserved, rank 0, step 1; of 63 ranks the least is rank 41 with 15.1 GiB"
std::string highest_line(const HighestReading& highest) {
  std::string line;
  const auto say = [&line](const std::string& words) {
    line += (line.empty() ? "" : ", ") + words;
  };
  if (highest.allocated) say(print(*highest.allocated) + " allocated");
  if (highest.reserved) say(print(*highest.reserved) + " reserved");
  if (highest.device_used) say(print(*highest.device_used) + " of the device in use");
  if (highest.rank) say(fmt::format("rank {}", *highest.rank));
  if (highest.step) say("step " + print_count(Checked(*highest.step)));
  if (highest.least && highest.least_rank)
    line += fmt::format("; of {} ranks the least is rank {} with {}", highest.ranks,
                        *highest.least_rank, print(*highest.least));
  if (highest.predicted_allocated && highest.predicted_reserved)
    line += fmt::format("; predicted {} allocated, {} reserved",
                        print(*highest.predicted_allocated), print(*highest.predicted_reserved));
  return line;
}

void add_findings(const Diagnosis& diagnosis, const Style& style, Screen& screen) {
  for (const Finding& finding : diagnosis.findings) {
    const bool main = finding.cause == diagnosis.verdict;
    const std::string lead =
        main ? "  because "
             : fmt::format("  {} {} ({}): ",
                           diagnosis.verdict == Cause::kHealthy ? "highest point:" : "also",
                           facts_of(finding.cause).title, print_percent(finding.certainty));
    std::size_t shown = 0;
    for (const Proof& proof : finding.proof) {
      if (shown == (main ? 2U : 1U)) break;
      screen.add(main && shown == 0 ? Worth::kAlways
                 : main             ? Worth::kMore
                                    : Worth::kSecond,
                 wrapped(style, lead + printable(proof.text), 4) + "\n");
      ++shown;
    }
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
  Screen screen;
  std::string title = painted(style, diagnosis.verdict == Cause::kHealthy ? Ink::kGood : Ink::kBad,
                              facts_of(diagnosis.verdict).title);
  const bool has_main =
      !diagnosis.findings.empty() && diagnosis.findings.front().cause == diagnosis.verdict;
  if (has_main)
    title += fmt::format("   {} sure", print_percent(diagnosis.findings.front().certainty));
  // Its name in the JSON, where the title has other words.
  if (const CauseFacts& facts = facts_of(diagnosis.verdict); facts.name != facts.title)
    title += fmt::format("   ({})", facts.name);
  screen.add(Worth::kAlways, title + "\n");
  if (const std::string line = failure_line(diagnosis); !line.empty())
    screen.add(Worth::kAlways, wrapped(style, "  " + line, 2) + "\n");
  if (const std::string line = when_line(diagnosis); !line.empty())
    screen.add(Worth::kFirst, wrapped(style, "  when: " + line, 8) + "\n");
  add_findings(diagnosis, style, screen);
  // A failure's own numbers are later ones.
  if (diagnosis.highest && !diagnosis.has_piles && !diagnosis.failure.allocated)
    screen.add(Worth::kFirst,
               wrapped(style, "  highest: " + highest_line(*diagnosis.highest), 4) + "\n");
  if (diagnosis.has_piles) screen.add(Worth::kAlways, piles_table(diagnosis, style));
  if (const std::string line = largest_line(diagnosis); !line.empty())
    screen.add(Worth::kMore, wrapped(style, "  " + line, 4) + "\n");
  for (const Evidence& one : diagnosis.evidence)
    if (one.trace != nullptr)
      if (const std::string line = trace_shares_line(printable(one.file), *one.trace);
          !line.empty())
        screen.add(Worth::kSecond, wrapped(style, "  " + line, 4) + "\n");
  bool first = true;
  for (const Fix& fix : diagnosis.fixes)
    screen.add(std::exchange(first, false) ? Worth::kFirst : Worth::kMore, fix_text(fix, style));
  if (!diagnosis.experiments.empty())
    screen.add(
        Worth::kSecond,
        wrapped(style, "to decide: " + experiment_words(diagnosis.experiments.front()), 5) + "\n");
  first = true;
  for (const std::string& note : diagnosis.notes)
    screen.add(std::exchange(first, false) ? Worth::kFirst : Worth::kSecond,
               wrapped(style, "note: " + printable(note), 6) + "\n");
  return std::move(screen).text();
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
