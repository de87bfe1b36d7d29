// The step's time: terms as bars, what ran behind compute, what would help.
//
//   59.7 s a step (56.1 to 64.0) · compute-bound · 47 % MFU · 1,098 tokens/s a device
//
//                                                        s   hidden behind it
//     compute        ████████████████████████████████   47.3
//     data           █▊                                  2.6  8.8 s more
//     bubble         ▍                                   0.6
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost/budget.h"
#include "report/weighing.h"

namespace steelyard {

// "59.7 s", "184 ms", "3.1 h".
std::string print_seconds(Seconds seconds);
// Needs weighing.prediction.time.
std::string time_text(const Weighing& weighing, const std::vector<WhatIf>& what_if,
                      const std::optional<Budget>& budget, const Style& style);

}  // namespace steelyard
