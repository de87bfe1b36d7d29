#include <fmt/core.h>

#include <cstdio>
#include <string_view>

#include "data/version.h"

namespace {

constexpr std::string_view kHelp =
    "steelyard predicts the memory of large-model training runs\n"
    "\n"
    "usage: steelyard --version | --help\n";

}  // namespace

int main(int argc, char** argv) {
  const std::string_view wanted = argc == 2 ? argv[1] : "";
  if (wanted == "--version") {
    fmt::print("steelyard {}\n", steelyard::version());
    return 0;
  }
  if (wanted == "--help") {
    fmt::print("{}", kHelp);
    return 0;
  }
  fmt::print(stderr, "{}", kHelp);
  return 2;
}
