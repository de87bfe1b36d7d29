#include "validate/own_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "document/edit_distance.h"

namespace steelyard {
namespace {

struct Metered {
  std::string_view key;
  Meter meter;
};
constexpr std::array kMetered = {Metered{"peak_allocated_bytes", Meter::kAllocated},
                                 Metered{"peak_reserved_bytes", Meter::kReserved},
                                 Metered{"resident_bytes", Meter::kResident},
                                 Metered{"device_bytes", Meter::kDevice}};
constexpr std::array<std::string_view, 8> kKeys = {"run",
                                                   "id",
                                                   "step_seconds",
                                                   "out_of_memory",
                                                   "peak_allocated_bytes",
                                                   "device_bytes",
                                                   "resident_bytes",
                                                   "peak_reserved_bytes"};

// A misspelt measurement would be one that is never compared.
std::string unknown_key(const Value& row) {
  for (const Value::Member& member : row.members())
    if (std::find(kKeys.begin(), kKeys.end(), member.key) == kKeys.end()) {
      const std::string near = did_you_mean("key", nearest_names(member.key, kKeys));
      return fmt::format("unknown key \"{}\"{}", member.key, near.empty() ? "" : "; " + near);
    }
  return "";
}

Mapped map(MeasuredRow& row) {
  if (std::string unknown = unknown_key(*row.at("")); !unknown.empty())
    return left_out(std::move(unknown));
  MappedRun mapped;
  mapped.run = *row.at("run");
  for (const Metered& metered : kMetered)
    if (row.at(metered.key) != nullptr) {
      const auto bytes = row.count(metered.key);
      if (!bytes || *bytes <= 0)
        return left_out(fmt::format("{} is no number of bytes", metered.key));
      mapped.readings.push_back({metered.meter, Bytes(*bytes)});
    }
  if (row.at("step_seconds") != nullptr) {
    mapped.step_seconds = row.number("step_seconds");
    if (!mapped.step_seconds || !(*mapped.step_seconds > 0))
      return left_out("step_seconds is no number of seconds");
  }
  mapped.out_of_memory = row.truth("out_of_memory");
  if (mapped.readings.empty() && !mapped.step_seconds && !mapped.out_of_memory)
    return left_out("nothing was measured of it");
  return mapped;
}

bool owns(const MeasuredRow& row) {
  const Value* run = row.at("run");
  return run != nullptr && run->is_table();
}

}  // namespace

const RowSources& own_runs() {
  static const RowSources kSources = {{kOwnRuns, "your own measured runs", owns, map}};
  return kSources;
}

}  // namespace steelyard
