#include "report/published_table.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "quantity/print.h"
#include "report/amount.h"
#include "report/table.h"
#include "report/time_table.h"

namespace steelyard {
namespace {

std::string against(double seconds, double other, const char* what) {
  const double percent = 100 * (seconds / other - 1);
  if (std::abs(percent) < 0.5) return fmt::format("as fast as {}", what);
  return fmt::format("{:.0f} % {} than {}", std::abs(percent), percent < 0 ? "faster" : "slower",
                     what);
}

// The keys of a layout as a run file has them: "tensor 8 · pipeline 8 · ...".
std::vector<std::string> layout_words(const Job& job) {
  const Parallel& parallel = job.parallel;
  std::vector<std::string> words;
  const auto add = [&](const char* name, std::int64_t count) {
    if (count > 1) words.push_back(fmt::format("{} {}", name, count));
  };
  add("tensor", parallel.tensor);
  add("context", parallel.context);
  add("pipeline", parallel.pipeline);
  if (parallel.pipeline > 1) {
    words.push_back(std::string(name_of(parallel.schedule)));
    if (parallel.virtual_pipeline > 1)
      words.back() += fmt::format(" x{}", parallel.virtual_pipeline);
  }
  add("expert", parallel.expert);
  add("data", parallel.data);
  if (parallel.data > 1) words.push_back(fmt::format("zero {}", parallel.zero_stage));
  words.push_back(fmt::format("micro-batch {}", job.training.micro_batch));
  words.push_back(job.recompute.mode == RecomputeMode::kNone
                      ? std::string("no recompute")
                      : fmt::format("recompute {}", name_of(job.recompute.mode)));
  if (job.recompute.mode == RecomputeMode::kBlock)
    words.back() += fmt::format(" {}", job.recompute.layers.value());
  return words;
}

std::string differences(const AgainstPublished& answer) {
  std::string text;
  for (const auto& [term, seconds] : term_differences(answer.published.time, answer.best->time)) {
    if (std::abs(seconds) < 0.01 * answer.published.time.step.value()) continue;
    text +=
        (text.empty() ? "" : ", ") + fmt::format("{} {}{}", name_of(term), seconds < 0 ? "-" : "+",
                                                 print_seconds(Seconds(std::abs(seconds))));
  }
  return text;
}

std::string row(const Style& style, const char* name, const std::vector<std::string>& parts) {
  return painted(style, Ink::kStrong, padded_right(name, 11)) + facts(style, parts, 11) + "\n";
}

}  // namespace

std::string published_text(const std::vector<AgainstPublished>& answers, const Style& style) {
  std::string text;
  for (const AgainstPublished& answer : answers) {
    const PlanRow& theirs = answer.published;
    if (!text.empty()) text += "\n";
    text += answer.recipe.title + "   " + answer.recipe.url + ", " + answer.recipe.where + "\n";
    std::vector<std::string> parts = {
        fmt::format("measured {}", print_seconds(Seconds(answer.measured_seconds))),
        fmt::format("predicted {}", print_seconds(theirs.time.step)),
        against(theirs.time.step.value(), answer.measured_seconds, "measured")};
    for (std::string& word : layout_words(theirs.job)) parts.push_back(std::move(word));
    const Verdict verdict = theirs.prediction.verdict;
    if (verdict != Verdict::kFits)
      parts.push_back(fmt::format(
          "{} by our memory: {} {}", verdict == Verdict::kTight ? "tight" : "does not fit",
          print_memory(theirs.prediction.peak.device, style.units), memory_unit(style.units)));
    text += row(style, "published", parts);
    if (!answer.best) {
      text += row(style, "planned", {"nothing fits"});
      continue;
    }
    const double step = answer.best->time.step.value();
    parts = {fmt::format("predicted {}", print_seconds(answer.best->time.step)),
             against(step, theirs.time.step.value(), "theirs as predicted")};
    for (std::string& word : layout_words(answer.best->job)) parts.push_back(std::move(word));
    text += row(style, "planned", parts);
    if (const std::string words = differences(answer); !words.empty())
      text += row(style, "differs", {words});
    if (answer.suspicious)
      text += row(style, "suspicious",
                  {against(step, answer.measured_seconds, "experts measured"),
                   fmt::format("look at {} first", name_of(answer.responsible))});
    if (!answer.recipe.notes.empty()) text += "  " + wrapped(style, answer.recipe.notes, 2) + "\n";
  }
  return text;
}

nlohmann::ordered_json published_json(const std::vector<AgainstPublished>& answers) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const AgainstPublished& answer : answers) {
    nlohmann::ordered_json row = {
        {"name", answer.recipe.name},
        {"title", answer.recipe.title},
        {"source", answer.recipe.url},
        {"measured_seconds", answer.measured_seconds},
        {"predicted_seconds", answer.published.time.step.value()},
        {"predicted_bytes", answer.published.prediction.peak.device.value().value()},
        {"verdict", name_of(answer.published.prediction.verdict)},
        {"suspicious", answer.suspicious}};
    if (answer.best) {
      row["planned_seconds"] = answer.best->time.step.value();
      row["planned"] = layout_words(answer.best->job);
    }
    if (answer.suspicious) row["responsible"] = name_of(answer.responsible);
    rows.push_back(std::move(row));
  }
  return {{"schema", "steelyard.published/1"}, {"recipes", std::move(rows)}};
}

}  // namespace steelyard
