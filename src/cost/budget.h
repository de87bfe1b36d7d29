// What training on so many tokens takes: steps, days, money, energy.
//
//   1 T tokens: 238,419 steps · 11.4 days · 2,189 device-hours · $ 4.92 an hour: $ 10,770 · at most 1.5 MWh
//
// Prices lie in data/prices, each with its day and source, and go out of date; where there is none and none is given, there
// is no sum. Energy is the devices' power limit all the time: hosts, switches and cooling come on top, idle time off it.
#pragma once

#include <optional>
#include <string>

#include "cost/step_time.h"

namespace steelyard {

struct DevicePrice {
  std::string device;
  double dollars_an_hour = 0;
  std::string day, source;
};
// Null where no price is known.
const DevicePrice* price_of(const Device& device);

struct Budget {
  double tokens = 0, steps = 0;
  double seconds = 0;
  double device_hours = 0;
  std::optional<double> dollars_an_hour, dollars;
  std::string price_source;  // "given", or where it was printed
  std::optional<double> kilowatt_hours;
};

Budget budget_of(const Job& job, const StepTime& time, double tokens,
                 std::optional<double> dollars_an_hour);

}  // namespace steelyard
