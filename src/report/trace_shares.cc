#include "report/trace_shares.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "quantity/print.h"
#include "report/json_values.h"

namespace steelyard {
namespace {

// Of steps that follow each other; the first of a trace may be cut, so it counts only where it is alone.
double usual_step_seconds(const TraceTimes& times) {
  if (times.steps.size() == 1) return times.steps.front().seconds;
  double sum = 0.0;
  for (std::size_t index = 1; index < times.steps.size(); ++index)
    sum += times.steps[index].seconds;
  return times.steps.empty() ? 0.0 : sum / static_cast<double>(times.steps.size() - 1);
}

}  // namespace

std::string trace_shares_line(const std::string& file, const TraceTimes& times) {
  if (!times.device_activity || !(times.span_seconds > 0.0)) return "";
  const auto share = [&](double seconds) { return print_percent(seconds / times.span_seconds); };
  std::string line = fmt::format(
      "{}: {} of the device: computing {}, communication alone {}, idle {}", file,
      print(Seconds(times.span_seconds)), share(times.busy_seconds - times.exposed_seconds),
      share(times.exposed_seconds), share(times.idle_seconds));
  if (!times.steps.empty())
    line += fmt::format("; {} step{} of {}", times.steps.size(), times.steps.size() == 1 ? "" : "s",
                        print(Seconds(usual_step_seconds(times))));
  if (times.data_loader_seconds > 0.0)
    line += fmt::format(", {} in the loader", print(Seconds(times.data_loader_seconds)));
  if (times.driver_allocations > 0)
    line += fmt::format("; {} calls of cudaMalloc and cudaFree",
                        print_count(Checked(times.driver_allocations)));
  return line;
}

nlohmann::ordered_json json_of(const TraceTimes& times) {
  nlohmann::ordered_json json = {{"span_seconds", times.span_seconds},
                                 {"computing_seconds", times.busy_seconds - times.exposed_seconds},
                                 {"communication_seconds", times.communication_seconds},
                                 {"exposed_communication_seconds", times.exposed_seconds},
                                 {"idle_seconds", times.idle_seconds},
                                 {"data_loader_seconds", times.data_loader_seconds},
                                 {"driver_allocations", times.driver_allocations}};
  json["collectives"] = nlohmann::ordered_json::object();
  for (const auto& [operation, collective] : times.collectives)
    json["collectives"][operation] = {{"count", collective.count}, {"seconds", collective.seconds}};
  json["memory"] = nlohmann::ordered_json::array();
  for (const ProfiledMemory& memory : times.memory)
    json["memory"].push_back({{"device", memory.device},
                              {"peak_allocated_bytes", number(memory.peak_allocated)},
                              {"peak_reserved_bytes", number(memory.peak_reserved)}});
  return json;
}

}  // namespace steelyard
