// Manual pages from the tables that the program obeys: steelyard(1) and one for each command.
//
//   .TH STEELYARD-WEIGH 1 "" "steelyard 0.1.0"
//   .SH NAME
//   steelyard\-weigh \- does it fit, how long is a step: every pile, phase and term
#pragma once

#include <string>

#include "cli/command.h"

namespace steelyard {

// Of the program: what it is, its commands, exit status and environment.
std::string man_page();
std::string man_page(const Command& command);

}  // namespace steelyard
