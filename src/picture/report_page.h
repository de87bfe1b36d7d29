// The report: one HTML file with the verdict, the charts, the tables, the run and the whole JSON answer. It opens from disk
// without a network, is complete without a script, and prints to two pages.
//
//   std::string html = report_page(weighing_report(weighing, trace, document, json_text));
//
//   <script type="application/json" id="steelyard-run">      the run file: `steelyard compare report.html other.html`
//   <script type="application/json" id="steelyard-answer">   what --json prints
//
// The same input makes the same bytes: no clock is read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "document/value.h"
#include "picture/svg.h"
#include "predict/explain.h"
#include "predict/step_trace.h"
#include "report/weighing.h"

namespace steelyard {

struct ReportSection {
  std::string title;
  std::string body;        // HTML
  bool collapsed = false;  // opened by a click; in print left out
};

struct Report {
  std::string command;  // "weigh"
  std::string verdict;  // "fits", "tight", "does_not_fit", or "" for an answer that judges nothing
  std::string line;     // "does not fit   needs 84.8 GiB ..."
  std::string about;    // what was asked: "llama-3.1-8b on 8 x h100-sxm-80gb"
  std::vector<ReportSection> sections;
  std::string run;     // the run file as JSON; empty: none
  std::string answer;  // JSON
};

std::string report_page(const Report& report);

// Of `weigh`. `trace`: of a device whose times are known and a step that is not too long; `derivations`: of the piles.
Report weighing_report(const Weighing& weighing, const std::optional<StepTrace>& trace,
                       const std::vector<Derivation>& derivations, double width);
// Of the others: a chart, and the answer as the terminal prints it.
Report text_report(std::string command, const std::string& text, std::string svg);

// The run within a report, or the answer: the text of the script of that id. Nothing: it is no report of ours.
std::optional<std::string> run_in_report(std::string_view html);
std::optional<std::string> answer_in_report(std::string_view html);

// The frame of a report's chart.
Frame report_frame(std::string prefix, double width);

// A fragment for a notebook: the verdict line, the bar and a table, colours of its own, no script.
std::string notebook_fragment(const Weighing& weighing);

}  // namespace steelyard
