// Amounts of memory on one screen: one unit, one number of decimals, and parts that add up as
// printed.
//
//   Scale scale = scale_for(111_GiB, units)      GiB, one decimal
//   number_of(Bytes, scale)                     "103.2"
//   apportioned({a, b, c}, scale)               rounded so that the printed parts sum to the
//   printed total
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quantity/quantity.h"
#include "report/style.h"

namespace steelyard {

struct Scale {
  std::string unit;  // "GiB"
  std::int64_t unit_bytes = 1;
  int decimals = 0;
};

// Three significant figures of the largest amount on the screen, and no more than one decimal
// above 10.
Scale scale_for(Bytes largest, Units units);

// An amount in the last printed decimal place of a scale: 103.2 GiB is 1032.
std::int64_t ticks_of(Bytes bytes, const Scale& scale);
std::string number_of_ticks(std::int64_t ticks, const Scale& scale);
std::string number_of(Bytes bytes, const Scale& scale);  // "103.2"
std::string signed_number_of_ticks(std::int64_t ticks,
                                   const Scale& scale);  // "+12.0", "-0.2", "0.0"
std::string amount_of(Bytes bytes, const Scale& scale);  // "103.2 GiB"

// Ticks of each part, sum(parts) rounded once and shared out by largest remainder.
std::vector<std::int64_t> apportioned(const std::vector<Bytes>& parts, const Scale& scale);

std::string percent_of(Bytes part, Bytes whole);  // "65 %"

}  // namespace steelyard
