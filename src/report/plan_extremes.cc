#include "report/plan_extremes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "predict/host_room.h"
#include "report/plan_details.h"
#include "report/plan_json.h"
#include "report/table.h"
#include "report/time_table.h"
#include "report/verdict_words.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

// Of a layout that a search calls too large: what is expected misses, though the band's low end may fit.
std::string miss_in_words(const Prediction& prediction, const Style& style) {
  if (prediction.verdict != Verdict::kTight) return verdict_words(prediction.verdict);
  if (only_host_is_unsure(prediction)) return "the host may lack memory";
  if (prediction.is_expected_to_fit()) return "the band crosses the line";
  const Bytes miss = prediction.peak.device - prediction.usable;
  return fmt::format("{} too much", print_memory(miss, style.units));
}

std::string value_words(Wanted wanted, std::int64_t value) {
  if (wanted == Wanted::kMostParameters) return print_parameters(Checked(value) * 1'000'000);
  return print_count(value);
}

// What is asked, where other commands ask for something near it.
std::string_view question_of(Wanted wanted) {
  switch (wanted) {
    case Wanted::kMostParameters:
      return "the largest model that one of its layouts is sure to fit, up to the high end of the "
             "band; sweep --largest keeps the layout as it is written";
    case Wanted::kLargestMicroBatch:
      return "the most that one of the layouts is sure to fit, up to the high end of the band; a "
             "batch that nobody said follows: whole micro-batches for each data rank";
    case Wanted::kLongestSequence:
    case Wanted::kLargestBatch:
      return "the most that one of the layouts is sure to fit, up to the high end of the band; "
             "weigh "
             "keeps the layout as it is written";
    default:
      return "";
  }
}

std::string cost_words(const ExtremePoint& point, std::optional<double> price) {
  if (price) return fmt::format("{:.2f}", *price * point.device_hours);
  return fmt::format("{:.3g} device-hours", point.device_hours);
}

}  // namespace

std::string_view name_of(Wanted wanted) {
  switch (wanted) {
    case Wanted::kFewestDevices:
      return "fewest devices";
    case Wanted::kLeastCost:
      return "least cost";
    case Wanted::kLongestSequence:
      return "longest sequence";
    case Wanted::kLargestMicroBatch:
      return "largest micro-batch";
    case Wanted::kMostParameters:
      return "most parameters";
    case Wanted::kLargestBatch:
      return "largest batch without accumulation";
  }
  return "";
}

std::string extremes_text(const ExtremeAnswer& answer, std::optional<double> price, double seconds,
                          const Style& style) {
  std::string text;
  if (answer.answers.empty() && answer.unfinished) {
    text += painted(style, Ink::kWarning, "not finished") +
            fmt::format("   {}: nothing that fits was found yet\n", name_of(answer.wanted));
  } else if (answer.answers.empty()) {
    text += painted(style, Ink::kBad, "nothing fits") +
            fmt::format("   {}: no layout of any value asked\n", name_of(answer.wanted));
  } else if (answer.answers.size() == 1) {
    const ExtremePoint& best = answer.answers.front();
    text += painted(style, Ink::kStrong, std::string(name_of(answer.wanted))) +
            fmt::format("   {} on {} x {}\n", value_words(answer.wanted, best.value),
                        print_count(best.devices), best.device);
  } else {
    text += painted(style, Ink::kStrong, std::string(name_of(answer.wanted))) + "   by device\n";
  }
  if (!answer.answers.empty()) {
    Table table({{"device"},
                 {"devices", true},
                 {"peak, " + std::string(memory_unit(style.units)), true},
                 {"step", true},
                 {price ? "a step costs" : "a step takes", true},
                 {"layout"}});
    const auto add = [&](const ExtremePoint& point) {
      if (!point.row) return;
      table.add({point.device, print_count(point.devices),
                 print_memory(point.row->prediction.peak.device, style.units),
                 print_seconds(point.row->time.step), cost_words(point, price),
                 words_of(point.row->layout, " ")});
    };
    if (answer.wanted == Wanted::kLeastCost) {
      for (const ExtremePoint& point : answer.tried) add(point);
    } else {
      for (const ExtremePoint& point : answer.answers) add(point);
    }
    text += "\n" + table.text(style) + "\n";
  }
  std::vector<std::string> tried;
  for (const ExtremePoint& point : answer.tried)
    tried.push_back(
        fmt::format("{} {}", value_words(answer.wanted, point.value), point.fits ? "fits" : "no"));
  if (!tried.empty()) text += "tried  " + facts(style, tried, 7) + "\n";
  if (const std::string_view question = question_of(answer.wanted); !question.empty())
    text += wrapped(style, question, 2) + "\n";
  if (answer.unfinished)
    text += wrapped(style,
                    fmt::format("not finished: {} layouts asked{}; --seconds N searches for longer",
                                print_count(answer.layouts),
                                answer.answers.empty() ? "" : ", the best so far"),
                    2) +
            "\n";
  for (const Assumption& assumption : answer.assumptions)
    if (assumption.key == "training.global_batch" && answer.wanted != Wanted::kLargestMicroBatch)
      text +=
          wrapped(style,
                  fmt::format("{} = {}: {}", assumption.key, assumption.value, assumption.reason),
                  2) +
          "\n";
  text += fmt::format("{} layouts, in {:.2f} s\n", print_count(answer.layouts), seconds);
  return without_trailing_blanks(text);
}

Json json_of(const ExtremeAnswer& answer, std::optional<double> price) {
  const auto point_json = [&](const ExtremePoint& point) {
    Json json = {
        {"value", answer.wanted == Wanted::kMostParameters ? point.value * 1'000'000 : point.value},
        {"device", point.device},
        {"devices", point.devices},
        {"fits", point.fits}};
    if (point.row) {
      json["device_hours"] = point.device_hours;
      if (price) json["cost"] = *price * point.device_hours;
      json["best"] = json_of(*point.row);
    }
    return json;
  };
  Json answers = Json::array(), tried = Json::array();
  for (const ExtremePoint& point : answer.answers) answers.push_back(point_json(point));
  for (const ExtremePoint& point : answer.tried) tried.push_back(point_json(point));
  return {{"schema", "steelyard.plan_extreme/1"}, {"wanted", name_of(answer.wanted)},
          {"answers", std::move(answers)},        {"tried", std::move(tried)},
          {"finished", !answer.unfinished},       {"layouts", answer.layouts}};
}

std::string why_text(const std::vector<WhyAnswer>& answers, const PlanAnswer& whole,
                     const Style& style) {
  std::string text;
  if (!whole.rows.empty())
    text += fmt::format("best          {}: {}\n", words_of(whole.rows.front().layout, " "),
                        print_seconds(whole.rows.front().time.step));
  for (const WhyAnswer& answer : answers) {
    text += "\n";
    if (answer.fastest) {
      const PlanRow& row = *answer.fastest;
      const double best = whole.rows.empty() ? 0 : whole.rows.front().time.step.value();
      const bool slower = best > 0 && row.time.step.value() > best;
      text += painted(style, Ink::kGood, slower ? "slower        " : "the fastest   ") +
              fmt::format("{}\n", answer.asked);
      std::vector<std::string> parts = {
          words_of(row.layout, " "), print_seconds(row.time.step),
          fmt::format("{} of {} {}", print_memory(row.prediction.peak.device, style.units),
                      print_memory(row.prediction.usable, style.units), memory_unit(style.units))};
      if (slower)
        parts.push_back(fmt::format("{:.0f} % slower", 100 * (row.time.step.value() / best - 1)));
      text += "  " + facts(style, parts, 2) + "\n";
      if (slower)
        for (const auto& [term, seconds] : term_differences(whole.rows.front().time, row.time))
          if (seconds > 0.005 * best)
            text += fmt::format("  {} +{}\n", name_of(term), print_seconds(Seconds(seconds)));
    } else if (answer.nearest) {
      const PlanRow& row = *answer.nearest;
      const Prediction& prediction = row.prediction;
      text += (prediction.is_expected_to_fit() ? painted(style, Ink::kWarning, "tight         ")
                                               : painted(style, Ink::kBad, "too large     ")) +
              fmt::format("{}\n", answer.asked);
      text += "  " +
              facts(style,
                    {"the nearest: " + words_of(row.layout, " "),
                     fmt::format("needs {} ({} to {}), usable {}: {}",
                                 print_memory(prediction.peak.device, style.units),
                                 print_memory(prediction.peak.low, style.units),
                                 print_memory(prediction.peak.high, style.units),
                                 print_memory(prediction.usable, style.units),
                                 miss_in_words(prediction, style))},
                    2) +
              "\n";
      const RankPrediction& rank = prediction.ranks[peak_rank_index(prediction)];
      for (const PhasePrediction& phase : rank.phases) {
        if (phase.phase != rank.phase) continue;
        std::vector<std::string> piles;
        for (int i = 0; i < kPileCount; ++i) {
          const auto pile = static_cast<Pile>(i);
          if (phase.piles[pile] > Bytes{})
            piles.push_back(
                fmt::format("{} {}", words_of(pile), print_memory(phase.piles[pile], style.units)));
        }
        text += "  " + facts(style, piles, 2) + "\n";
      }
      if (answer.nearest_that_fits)
        text += "  " +
                wrapped(style,
                        "what admits it: " + words_of_change(row.layout, *answer.nearest_that_fits),
                        4) +
                "\n";
    } else {
      text += painted(style, Ink::kBad, "not allowed   ") + fmt::format("{}\n", answer.asked);
      if (answer.result.refusals.empty())
        text += "  no layout has it: no code with this model divides so, or the batch does not\n";
    }
    for (const Refusal& refusal : answer.result.refusals)
      if (!answer.fastest)
        text += "  " +
                wrapped(style,
                        fmt::format("[{}] {} ({} layouts)", refusal.code, refusal.words,
                                    print_count(refusal.layouts)),
                        4) +
                "\n";
    text += "  " + counts_text(answer.result.counts, style) + "\n";
  }
  return without_trailing_blanks(text);
}

Json json_of(const WhyAnswer& answer) {
  Json json = {
      {"asked", answer.asked},
      {"verdict", answer.fastest                                                      ? "fits"
                  : answer.nearest && answer.nearest->prediction.is_expected_to_fit() ? "tight"
                  : answer.nearest                                                    ? "too_large"
                                   : "not_allowed"}};
  if (answer.fastest) json["fastest"] = json_of(*answer.fastest);
  if (answer.nearest) json["nearest"] = json_of(*answer.nearest);
  if (answer.nearest && answer.nearest_that_fits)
    json["smallest_change"] = words_of_change(answer.nearest->layout, *answer.nearest_that_fits);
  Json refused = Json::array();
  for (const Refusal& refusal : answer.result.refusals)
    refused.push_back(
        {{"code", refusal.code}, {"layouts", refusal.layouts}, {"for_example", refusal.words}});
  json["not_allowed"] = std::move(refused);
  return json;
}

}  // namespace steelyard
