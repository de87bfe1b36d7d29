#include "report/budget_text.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "quantity/print.h"
#include "report/time_table.h"

namespace steelyard {

using Json = nlohmann::ordered_json;

namespace {

std::string whole(double number) { return print_count(Checked(std::llround(number))); }

std::string duration(double seconds) {
  constexpr double kDay = 86'400;
  return seconds < 2 * kDay ? print_seconds(Seconds(seconds))
                            : fmt::format("{:.1f} days", seconds / kDay);
}

}  // namespace

std::string budget_text(const Budget& budget, const Style& style) {
  std::string text =
      facts(style, {fmt::format("{} tokens", whole(budget.tokens)),
                    fmt::format("{} steps", whole(budget.steps)), duration(budget.seconds),
                    fmt::format("{} device-hours", whole(budget.device_hours))}) +
      "\n";
  std::vector<std::string> more;
  if (budget.dollars)
    more.push_back(fmt::format("$ {} at $ {:.2f} a device-hour ({})", whole(*budget.dollars),
                               *budget.dollars_an_hour, budget.price_source));
  else
    more.emplace_back("no price is known: --price says what a device costs an hour");
  if (budget.kilowatt_hours)
    more.push_back(*budget.kilowatt_hours < 10'000
                       ? fmt::format("at most {} kWh", whole(*budget.kilowatt_hours))
                       : fmt::format("at most {} MWh", whole(*budget.kilowatt_hours / 1000)));
  return text + facts(style, more) + "\n";
}

Json json_of(const Budget& budget) {
  Json json = {{"tokens", budget.tokens},
               {"steps", budget.steps},
               {"seconds", budget.seconds},
               {"device_hours", budget.device_hours}};
  json["dollars_an_hour"] = budget.dollars_an_hour ? Json(*budget.dollars_an_hour) : Json(nullptr);
  json["dollars"] = budget.dollars ? Json(*budget.dollars) : Json(nullptr);
  json["price_source"] = budget.price_source;
  json["kilowatt_hours_at_most"] =
      budget.kilowatt_hours ? Json(*budget.kilowatt_hours) : Json(nullptr);
  return json;
}

}  // namespace steelyard
