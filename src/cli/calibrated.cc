#include "cli/calibrated.h"

#include <fmt/format.h>

#include <utility>

#include "cli/input_file.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"

namespace steelyard {

tl::expected<std::unique_ptr<RatesInForce>, Diagnostics> calibrated_rates(
    const Invocation& invocation) {
  const std::string* file = invocation.value("calibrated");
  if (file == nullptr) return nullptr;
  const auto text = read_input(*file, kRatesFile);
  if (!text) return tl::unexpected(Diagnostics{text.error()});
  auto rates = read_rates(*text, *file);
  if (!rates)
    return tl::unexpected(Diagnostics{command_line_problem(
        "E110", rates.error(), "steelyard calibrate --output writes such a file")});
  return std::make_unique<RatesInForce>(std::move(*rates));
}

}  // namespace steelyard
