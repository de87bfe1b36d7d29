#include "validate/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace steelyard {
namespace {

constexpr std::string_view kSchema = "steelyard.record/1";
// More than any device holds; a larger number is no recording.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

struct RecordedPile {
  std::string_view name;
  Pile pile;
};
constexpr std::array kPiles = {
    RecordedPile{"parameters", Pile::kParameters},
    RecordedPile{"buffers", Pile::kParameters},
    RecordedPile{"gradients", Pile::kGradients},
    RecordedPile{"optimizer_state", Pile::kOptimizerMoments},  // master weights among them
    RecordedPile{"activations", Pile::kActivations},
    RecordedPile{"inputs", Pile::kActivations},
    RecordedPile{"temporary", Pile::kTemporary},
    RecordedPile{"workspaces", Pile::kTemporary},
    RecordedPile{"communication", Pile::kCommunication},
};

Diagnostic wrong(const Value& value, std::string message) {
  Diagnostic problem;
  problem.code = "E110";
  problem.message = std::move(message);
  problem.place = value.place();
  return problem;
}

std::optional<Bytes> bytes_at(const Value& table, std::string_view key) {
  const Value* value = table.find(key);
  if (value == nullptr || !value->is_integer() || value->as_integer() < 0 ||
      value->as_integer() > kMostBytes)
    return std::nullopt;
  return Bytes(value->as_integer());
}

std::string text_at(const Value& table, std::string_view key) {
  const Value* value = table.find(key);
  return value != nullptr && value->is_string() ? value->as_string() : std::string();
}

std::optional<Phase> phase_named(std::string_view name) {
  for (int index = 0; index < kPhaseCount; ++index)
    if (name_of(static_cast<Phase>(index)) == name) return static_cast<Phase>(index);
  return std::nullopt;
}

std::optional<Piles> piles_of(const Value& row) {
  const Value* recorded = row.find("piles");
  if (recorded == nullptr || !recorded->is_table()) return std::nullopt;
  Piles piles;
  for (const RecordedPile& known : kPiles)
    if (const auto bytes = bytes_at(*recorded, known.name)) piles[known.pile] += *bytes;
  return piles;
}

// One line of `phases`: its peak, and at the end of a later step what stays.
tl::expected<void, Diagnostic> read_phase(const Value& row, MappedRun& mapped) {
  const std::string step = text_at(row, "step");
  if (step != "load" && step != "first" && step != "steady")
    return {};  // other passes repeat these
  const std::optional<Phase> phase = phase_named(text_at(row, "phase"));
  if (!phase)
    return tl::unexpected(wrong(row, "a phase that is none of load, forward, backward, optimizer"));
  const std::optional<Bytes> allocated = bytes_at(row, "allocated_bytes");
  if (!allocated) return tl::unexpected(wrong(row, "a phase without allocated_bytes"));
  if (*allocated > Bytes(0)) {
    Reading reading{Meter::kAllocated, *allocated, step == "first" ? Step::kFirst : Step::kLater,
                    *phase};
    reading.piles = piles_of(row);
    mapped.readings.push_back(reading);
  }
  const std::optional<Bytes> resident = bytes_at(row, "resident_bytes");
  if (step == "steady" && *phase == Phase::kOptimizer && resident && *resident > Bytes(0))
    mapped.readings.push_back({Meter::kResident, *resident});
  return {};
}

}  // namespace

bool is_record(const Value& document) { return text_at(document, "schema") == kSchema; }

tl::expected<MappedRun, Diagnostic> map_record(const Value& record) {
  const Value* run = record.find("run");
  if (run == nullptr || !run->is_table())
    return tl::unexpected(wrong(record, "a record without its run"));
  const Value* phases = record.find("phases");
  if (phases == nullptr || !phases->is_array())
    return tl::unexpected(wrong(record, "a record without phases"));
  MappedRun mapped;
  mapped.run = *run;
  mapped.stage = 0;
  if (const Value* stage = record.at("coordinates.pipeline");
      stage != nullptr && stage->is_integer())
    mapped.stage = stage->as_integer();
  const bool forward_apart =
      std::any_of(phases->items().begin(), phases->items().end(),
                  [](const Value& row) { return text_at(row, "phase") == "forward"; });
  Bytes reserved{};
  for (const Value& row : phases->items()) {
    if (auto read = read_phase(row, mapped); !read) return tl::unexpected(read.error());
    const Value* torch = row.find("torch");
    if (torch != nullptr && text_at(row, "step") == "steady")
      reserved = std::max(reserved, bytes_at(*torch, "reserved_bytes").value_or(Bytes(0)));
  }
  for (Reading& reading : mapped.readings)
    reading.with_forward = !forward_apart && reading.phase == Phase::kBackward;
  // The allocator's own figure: nobody counts it to the byte.
  if (reserved > Bytes(0)) mapped.readings.push_back({Meter::kReserved, reserved});
  return mapped;
}

}  // namespace steelyard
