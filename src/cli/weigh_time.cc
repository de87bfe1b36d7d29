// What `weigh` says of time beside its table: a budget of tokens, a trace.
#include <fmt/format.h>

#include "cli/exit_status.h"
#include "cli/output_file.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/weigh_command.h"
#include "predict/step_trace.h"
#include "quantity/parse.h"
#include "quantity/print.h"
#include "report/trace_json.h"

namespace steelyard {

tl::expected<std::optional<Budget>, Diagnostics> budget_asked(const Invocation& invocation,
                                                              const Job& job,
                                                              const Prediction& prediction) {
  const auto refused = [](const std::string& message, const std::string& help) {
    return tl::unexpected(Diagnostics{command_line_problem("E005", message, help)});
  };
  const std::string* tokens = invocation.value("tokens");
  const std::string* price = invocation.value("price");
  if (tokens == nullptr) {
    if (price == nullptr) return std::nullopt;
    return refused("--price says what a device-hour costs, and no budget is asked for",
                   "--tokens 1T asks for one");
  }
  const auto count = parse_count(*tokens, CountSuffix::kDecimal);
  if (!count || *count <= 0)
    return refused(fmt::format("--tokens {}: not a number of tokens", *tokens),
                   "15T, 300B or 20_000_000");
  std::optional<double> dollars;
  if (price != nullptr) {
    const auto number = parse_number(*price);
    if (!number || !(*number >= 0) || *number > 1e6)
      return refused(fmt::format("--price {}: not a price of an hour", *price), "2.50");
    dollars = *number;
  }
  if (!prediction.time)
    return refused(fmt::format("--tokens: no times are known of {}", job.cluster.device->name),
                   "steelyard list machines");
  return budget_of(job, *prediction.time, static_cast<double>(*count), dollars);
}

std::optional<int> write_trace(const Invocation& invocation, const Job& job) {
  const std::string* file = invocation.value("trace");
  if (file == nullptr) return std::nullopt;
  const auto refused = [&](const std::string& code, const std::string& message) {
    return refuse(invocation, {command_line_problem(code, message)}, "no trace written");
  };
  if (const std::int64_t passages = trace_passages(job); passages > kMostTracePassages)
    return refuse(
        invocation,
        {command_line_problem(
            "E622",
            fmt::format("--trace: a step of {} passages, more than {} can be looked at",
                        print_count(passages), print_count(kMostTracePassages)),
            "forward and backward of each micro-batch on each stage and chunk is one: fewer "
            "micro-batches (training.gradient_accumulation, a smaller global batch) show the same "
            "step, shorter")},
        "no trace written");
  const StepTrace trace = step_trace(job);
  if (trace.ranks.empty())
    return refused("E005",
                   fmt::format("--trace: no times are known of {}", job.cluster.device->name));
  OutputFile written(*file);
  write_trace_json(trace, [&](std::string_view text) { written.write(text); });
  if (const auto problem = written.finish())
    return refuse(invocation, {*problem}, "no trace written");
  return std::nullopt;
}

}  // namespace steelyard
