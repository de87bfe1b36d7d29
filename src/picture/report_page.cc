#include "picture/report_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/version.h"
#include "picture/memory_bar.h"
#include "picture/step_picture.h"
#include "quantity/print.h"
#include "report/time_table.h"
#include "report/verdict_words.h"

namespace steelyard {
namespace {

constexpr std::string_view kRunScript = "<script type=\"application/json\" id=\"steelyard-run\">";
constexpr std::string_view kAnswerScript =
    "<script type=\"application/json\" id=\"steelyard-answer\">";
constexpr std::size_t kDerivationRows = 24;

// JSON within a script: no character of it can end the script.
std::string within_script(std::string_view json) {
  std::string result;
  for (const char character : json) {
    if (character == '<')
      result += "\\u003c";
    else
      result += character;
  }
  return result;
}

std::string cell(std::string_view words, bool number = false) {
  return fmt::format("<td{}>{}</td>", number ? " class=n" : "", escaped(words));
}

// Headings that end in "#" stand over numbers.
std::string table_of(const std::vector<std::string>& headings,
                     const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<table><thead><tr>";
  std::vector<bool> numbers;
  for (const std::string& heading : headings) {
    const bool number = !heading.empty() && heading.back() == '#';
    numbers.push_back(number);
    html += fmt::format("<th scope=col{}>{}</th>", number ? " class=n" : "",
                        escaped(number ? heading.substr(0, heading.size() - 1) : heading));
  }
  html += "</tr></thead><tbody>";
  for (const auto& row : rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      html += cell(row[i], i < numbers.size() && numbers[i]);
    html += "</tr>";
  }
  return html + "</tbody></table>";
}

std::string figure_of(const std::string& svg) {
  return svg.empty() ? "" : "<figure>" + svg + "</figure>";
}

std::string step_words(const Suggestion& suggestion) {
  if (!suggestion.costs) return "?";
  const double seconds = suggestion.costs->value();
  return (seconds < 0 ? "-" : "+") + print_seconds(Seconds(seconds < 0 ? -seconds : seconds));
}

std::string piles_html(const Prediction& prediction, const Scale& scale) {
  const MemoryBar bar = bar_of_peak(prediction);
  std::vector<Bytes> sizes;
  for (const BarPart& part : bar.parts) sizes.push_back(part.bytes);
  const std::vector<std::int64_t> ticks = apportioned(sizes, scale);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < bar.parts.size(); ++i)
    rows.push_back({bar.parts[i].words, number_of_ticks(ticks[i], scale),
                    percent_of(bar.parts[i].bytes, prediction.peak.device),
                    print_count(bar.parts[i].bytes.value())});
  rows.push_back({"total", number_of(prediction.peak.device, scale), "",
                  print_count(prediction.peak.device.value())});
  return table_of({"pile", scale.unit + "#", "share#", "bytes#"}, rows);
}

std::string ranks_html(const Prediction& prediction, const Scale& scale) {
  std::vector<std::vector<std::string>> rows;
  for (const RankPrediction& rank : prediction.ranks)
    rows.push_back({std::to_string(rank.rank), std::to_string(rank.pipeline + 1),
                    print_count(rank.replicas), std::string(name_of(rank.phase)),
                    number_of(rank.allocated, scale), number_of(rank.reserved, scale),
                    number_of(rank.device, scale), number_of(rank.resident, scale)});
  return table_of(
      {"rank", "stage", "alike#", "peak in", "allocated#", "reserved#", "device#", "resident#"},
      rows);
}

std::string suggestions_html(const Weighing& weighing, const Scale& scale) {
  std::vector<std::vector<std::string>> rows;
  int number = 0;
  for (const Suggestion& suggestion : weighing.suggestions) {
    std::string keys;
    for (const Suggestion::Edit& edit : suggestion.edits)
      keys += fmt::format("{}{} = {}", keys.empty() ? "" : ", ", edit.key, edit.to);
    rows.push_back({fmt::format("{}  {}", ++number, suggestion.change), keys,
                    number_of(suggestion.peak, scale), number_of(suggestion.saves, scale),
                    step_words(suggestion), suggestion.moves_cost_to});
  }
  return table_of({"a change that fits", "keys", "peak#", "saves#", "step#", "costs"}, rows);
}

std::string alive_html(const Weighing& weighing, const Scale& scale) {
  std::vector<std::vector<std::string>> rows;
  Bytes hidden{};
  for (const Holding& holding : weighing.moment->alive) {
    if (rows.size() >= kDerivationRows) {
      hidden += holding.total;
      continue;
    }
    rows.push_back({holding.name, holding.owner, print_count(holding.count),
                    number_of(holding.total, scale), words_of(holding.pile)});
  }
  std::string html =
      table_of({"alive at the peak", "of", "times#", scale.unit + "#", "pile"}, rows);
  if (hidden > Bytes())
    html += fmt::format("<p class=quiet>{} more, {}</p>",
                        weighing.moment->alive.size() - kDerivationRows,
                        escaped(amount_of(hidden, scale)));
  return html;
}

std::string derivation_html(const Derivation& derivation) {
  std::vector<std::vector<std::string>> rows;
  for (const DerivationLine& line : derivation.lines) {
    if (rows.size() >= kDerivationRows) break;
    rows.push_back({line.owner, line.name, line.formula, print_count(line.count),
                    print_count(line.total.value()), line.rule});
  }
  std::string html = fmt::format("<h3>{} {} B</h3>", escaped(derivation.subject),
                                 print_count(derivation.total.value()));
  html += table_of({"of", "tensor", "formula", "times#", "bytes#", "rule"}, rows);
  if (derivation.lines.size() > rows.size())
    html += fmt::format("<p class=quiet>{} more rows</p>", derivation.lines.size() - rows.size());
  std::string legend;
  for (const Symbol& symbol : derivation.legend)
    legend += fmt::format("{}{} {} {}", legend.empty() ? "" : " · ", symbol.letter, symbol.meaning,
                          print_count(symbol.value));
  return html + "<p class=quiet>" + escaped(legend) + "</p>";
}

std::string time_html(const StepTime& time) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < kTimeTerms; ++i) {
    const auto term = static_cast<TimeTerm>(i);
    if (time.terms[term] <= 0 && time.hidden[term] <= 0) continue;
    rows.push_back({std::string(name_of(term)), print_seconds(Seconds(time.terms[term])),
                    time.hidden[term] > 0 ? print_seconds(Seconds(time.hidden[term])) : "-"});
  }
  return fmt::format("<p>{} a step ({} to {}) · {} MFU · {:.0f} tokens/s a device</p>",
                     escaped(print_seconds(time.step)), escaped(print_seconds(time.low)),
                     escaped(print_seconds(time.high)),
                     escaped(print_percent(time.model_flops_utilization)),
                     time.tokens_per_second_per_device) +
         table_of({"term", "seconds#", "hidden behind it#"}, rows);
}

std::string assumptions_html(const Prediction& prediction) {
  std::vector<std::vector<std::string>> rows;
  for (const Assumption& one : prediction.assumptions)
    rows.push_back({one.key, one.value, one.reason});
  return table_of({"key", "taken", "because"}, rows);
}

std::string list_of(const std::vector<std::string>& lines) {
  std::string html = "<ul>";
  for (const std::string& line : lines) html += "<li>" + escaped(line) + "</li>";
  return html + "</ul>";
}

std::string report_style() {
  return picture_style() +
         "*{box-sizing:border-box}:root{color-scheme:light dark;--page:#fff}"
         "@media(prefers-color-scheme:dark){:root{--page:#16191d}}"
         "body{margin:0 auto;max-width:760px;padding:28px 20px 60px;background:var(--page);"
         "color:var(--sy-ink);font:14px/1.5 system-ui,-apple-system,\"Segoe UI\",sans-serif}"
         "h1{font-size:22px;line-height:1.25;margin:0 0 4px;text-wrap:balance}"
         "h2{font-size:15px;margin:30px 0 8px}h3{font-size:13px;margin:16px 0 4px}"
         ".verdict{font-size:13px;font-weight:650;padding:2px 10px;border-radius:99px;color:#fff;"
         "background:#59636e;display:inline-block;margin-bottom:10px}"
         ".fits{background:#1a7f4b}.tight{background:#8a5a00}.does_not_fit{background:#b3122a}"
         ".quiet{color:var(--sy-quiet);margin:4px 0}figure{margin:10px 0}"
         ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:12.5px;"
         "font-variant-numeric:tabular-nums}th,td{text-align:left;vertical-align:top;"
         "padding:3px 10px 3px 0;border-bottom:1px solid var(--sy-line)}th{color:var(--sy-quiet);"
         "font-weight:500}.n{text-align:right}td.n{white-space:nowrap}"
         "tbody tr:last-child td{border-bottom:0}pre{overflow-x:auto;font:12px/1.45 ui-monospace,"
         "\"DejaVu Sans "
         "Mono\",monospace;background:var(--sy-ground);padding:12px;border-radius:8px}"
         "details>summary{cursor:pointer;font-size:15px;font-weight:600;margin:26px 0 6px}"
         "footer{margin-top:36px;color:var(--sy-quiet);font-size:12px}"
         "@media screen{figure svg{min-width:540px}}"
         "@media print{@page{size:A4;margin:13mm}body{padding:0;max-width:none;font-size:9.5px;"
         "line-height:1.3}h1{font-size:15px}h2{font-size:11px;margin:9px 0 3px}table{font-size:8px}"
         "th,td{padding:1px 6px 1px 0}figure{margin:3px 0;break-inside:avoid}figure svg{width:78%}"
         "details{display:none}tr{break-inside:avoid}footer{margin-top:8px;font-size:8px}"
         "pre{font-size:7.5px;line-height:1.25;padding:6px}}";
}

std::optional<std::string> script_in(std::string_view html, std::string_view opening) {
  const std::size_t start = html.find(opening);
  if (start == std::string_view::npos) return std::nullopt;
  const std::size_t begin = start + opening.size();
  const std::size_t end = html.find("</script>", begin);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(html.substr(begin, end - begin));
}

// The first line that answers: a plan says what it assumed before it says what is best.
std::string heading_of(std::string_view text) {
  const std::size_t best = text.find("\nbest ");
  if (text.starts_with("assume ") && best != std::string_view::npos) text.remove_prefix(best + 1);
  return std::string(text.substr(0, text.find('\n')));
}

std::string without_end(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

Frame report_frame(std::string prefix, double width) { return {std::move(prefix), width, true}; }

std::string report_page(const Report& report) {
  std::string html = fmt::format(
      "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width,initial-scale=1\"><meta name=generator content=\"steelyard "
      "{}\"><meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src "
      "'unsafe-inline'\"><title>{}</title><style>{}</style></head><body><main>",
      version(), escaped(report.about.empty() ? report.line : report.about), report_style());
  std::string words = report.verdict;
  std::replace(words.begin(), words.end(), '_', ' ');
  if (!words.empty())
    html += fmt::format("<span class=\"verdict {}\">{}</span>", escaped(report.verdict),
                        escaped(words));
  html += "<h1>" + escaped(report.line) + "</h1>";
  if (!report.about.empty()) html += "<p class=quiet>" + escaped(report.about) + "</p>";
  for (const ReportSection& section : report.sections) {
    if (section.body.empty()) continue;
    const std::string body = "<div class=scroll>" + section.body + "</div>";
    if (section.collapsed)
      html +=
          fmt::format("<details><summary>{}</summary>{}</details>", escaped(section.title), body);
    else
      html +=
          fmt::format("<section>{}{}</section>",
                      section.title.empty() ? "" : "<h2>" + escaped(section.title) + "</h2>", body);
  }
  html += fmt::format(
      "<footer>steelyard {} · {} · GiB = 2<sup>30</sup> bytes · made without a clock, so the same "
      "run makes the same file</footer></main>",
      version(), escaped(report.command));
  if (!report.run.empty())
    html += std::string(kRunScript) + within_script(report.run) + "</script>";
  html += std::string(kAnswerScript) + within_script(report.answer) + "</script></body></html>\n";
  return html;
}

Report weighing_report(const Weighing& weighing, const std::optional<StepTrace>& trace,
                       const std::vector<Derivation>& derivations, double width) {
  const Prediction& prediction = weighing.prediction;
  const Scale scale = scale_of(prediction, Units::kBinary);
  Style unbroken;
  unbroken.width = 400;
  Report report;
  report.command = "weigh";
  report.verdict = std::string(name_of(prediction.verdict));
  const std::string line = without_end(verdict_line(prediction, unbroken));
  const std::size_t blanks = line.find("   ");
  report.line = blanks == std::string::npos ? line : line.substr(blanks + 3);
  const std::size_t rank = peak_rank_index(prediction);
  std::string where = weighing.moment && !weighing.moment->where.empty()
                          ? weighing.moment->where
                          : std::string(name_of(prediction.peak.phase));
  report.sections.push_back(
      {"At the peak: " + where, figure_of(memory_bar_svg(prediction, report_frame("bar", width))) +
                                    piles_html(prediction, scale)});
  if (!weighing.suggestions.empty())
    report.sections.push_back({"Ways out", figure_of(ladder_svg(prediction, weighing.suggestions,
                                                                report_frame("ladder", width))) +
                                               suggestions_html(weighing, scale)});
  if (trace)
    report.sections.push_back(
        {"One step", figure_of(timeline_svg(*trace, prediction.peak.pipeline, prediction,
                                            report_frame("timeline", width)))});
  report.sections.push_back(
      {"Phases", figure_of(phases_svg(prediction, rank, report_frame("phases", width)))});
  if (prediction.ranks.size() > 1)
    report.sections.push_back(
        {"Ranks", figure_of(ranks_svg(prediction, weighing.job.parallel.pipeline,
                                      report_frame("ranks", width))) +
                      ranks_html(prediction, scale)});
  if (trace && trace->ranks.size() > 1)
    report.sections.push_back(
        {"Schedule", figure_of(schedule_svg(*trace, report_frame("schedule", width)))});
  if (prediction.time) report.sections.push_back({"Time", time_html(*prediction.time)});
  if (!prediction.warnings.empty())
    report.sections.push_back({"Warnings", list_of(prediction.warnings)});
  if (!prediction.assumptions.empty())
    report.sections.push_back({fmt::format("{} assumptions", prediction.assumptions.size()),
                               assumptions_html(prediction)});
  if (weighing.moment)
    report.sections.push_back({"What was alive", alive_html(weighing, scale), true});
  std::string explained;
  for (const Derivation& derivation : derivations) explained += derivation_html(derivation);
  if (!explained.empty())
    report.sections.push_back({"Where each number comes from", explained, true});
  return report;
}

Report text_report(std::string command, const std::string& text, std::string svg) {
  Report report;
  report.command = std::move(command);
  report.line = heading_of(text);
  report.sections.push_back({"", figure_of(svg)});
  report.sections.push_back({"", "<pre>" + [&] {
                               std::string lines, rest = text;
                               for (std::size_t at = 0; at < rest.size();) {
                                 const std::size_t next =
                                     std::min(rest.find('\n', at), rest.size());
                                 lines += escaped(rest.substr(at, next - at)) + "\n";
                                 at = next + 1;
                               }
                               return lines;
                             }() + "</pre>"});
  return report;
}

std::optional<std::string> run_in_report(std::string_view html) {
  return script_in(html, kRunScript);
}
std::optional<std::string> answer_in_report(std::string_view html) {
  return script_in(html, kAnswerScript);
}

std::string notebook_fragment(const Weighing& weighing) {
  const Prediction& prediction = weighing.prediction;
  const Scale scale = scale_of(prediction, Units::kBinary);
  Style unbroken;
  unbroken.width = 400;
  std::vector<std::vector<std::string>> rows;
  for (const Assumption& one : prediction.assumptions) rows.push_back({one.key, one.value});
  return fmt::format(
      "<div class=\"steelyard\"><p><b>{}</b></p>{}{}<details><summary>{} "
      "assumptions</summary>{}</details></div>",
      escaped(without_end(verdict_line(prediction, unbroken))),
      memory_bar_svg(prediction, {"steelyard", 640, true}), piles_html(prediction, scale),
      prediction.assumptions.size(), table_of({"key", "taken"}, rows));
}

}  // namespace steelyard
