// Completion scripts for three shells, from the tables that the parser obeys.
#pragma once

#include <string>

namespace steelyard {

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace steelyard
