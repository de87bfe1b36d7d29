#include "diagnose/growth_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "diagnose/diagnosis.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

// Growth is a matter of the last steps; a history of all would grow with the log.
constexpr std::size_t kMostPoints = 64, kMostSeries = 4096;

std::int64_t line_of(const EvidencePlace& place) {
  constexpr std::string_view kLine = "line ";
  std::int64_t number = 0;
  if (place.at.starts_with(kLine))
    std::from_chars(place.at.data() + kLine.size(), place.at.data() + place.at.size(), number);
  return number;
}

std::string where_of(const MemoryReading& reading) {
  if (reading.rank) return fmt::format(" on rank {}", *reading.rank);
  if (reading.device) return fmt::format(" on device {}", *reading.device);
  return "";
}

// What is in use of the device, as far as the reading says: the highest of its numbers.
std::int64_t used_bytes(const MemoryReading& reading) {
  Bytes used;
  for (const auto& bytes : {reading.allocated, reading.max_allocated, reading.reserved,
                            reading.max_reserved, reading.device_used})
    if (bytes) used = std::max(used, *bytes);
  return used.value().value();
}

}  // namespace

std::optional<std::int64_t> GrowthWatch::capacity() const {
  if (told_capacity_) return told_capacity_;
  if (prediction_ != nullptr) return prediction_->capacity.value().value();
  return std::nullopt;
}

std::vector<std::string> GrowthWatch::look(const Evidence& so_far) {
  std::vector<std::string> warnings;
  // Readings are thinned from time to time, so that only their lines say which are new.
  std::size_t from = so_far.readings.size();
  while (from > 0 && line_of(so_far.readings[from - 1].place) > last_line_) --from;
  for (std::size_t i = from; i < so_far.readings.size(); ++i) take(so_far.readings[i], warnings);
  if (from < so_far.readings.size()) last_line_ = line_of(so_far.readings.back().place);
  return warnings;
}

void GrowthWatch::take(const MemoryReading& reading, std::vector<std::string>& warnings) {
  if (reading.device_total) told_capacity_ = reading.device_total->value().value();
  std::string what;
  const auto bytes = told_bytes(reading, &what);
  if (!bytes) return;
  const std::string place = fmt::format("line {}: ", line_of(reading.place));
  const std::string where = where_of(reading);
  const std::int64_t used = used_bytes(reading);
  if (reading.retries && *reading.retries > 0 && !said("retries" + where))
    warnings.push_back(
        fmt::format("{}the allocator has emptied its cache {} times{}: the device "
                    "is full and the run slower",
                    place, *reading.retries, where));
  if (const auto room = capacity(); room && used * 20 > *room * 19 && !said("full" + where))
    warnings.push_back(fmt::format("{}{} of {} are left{}", place,
                                   print(Bytes(std::max<std::int64_t>(*room - used, 0))),
                                   print(Bytes(*room)), where));
  warn_of_first_step(reading, used, warnings);
  warn_of_full_length(reading, warnings);
  warn_of_growth(what + where, reading, *bytes, warnings);
}

void GrowthWatch::warn_of_growth(const std::string& of, const MemoryReading& reading,
                                 std::int64_t bytes, std::vector<std::string>& warnings) {
  const std::string key = reading.source + '/' + reading.label + reading.phase + '/' + of;
  if (series_.size() >= kMostSeries && !series_.contains(key)) return;
  MemorySeries& series = series_[key];
  auto& points = series.points;
  const std::int64_t step = reading.step     ? *reading.step
                            : points.empty() ? 0
                                             : points.back().step + 1;
  if (!points.empty() && step < points.back().step) {
    points.clear();
    room_said_.erase(key);
  }
  if (!points.empty() && step == points.back().step) {
    points.back().bytes = std::max(points.back().bytes, bytes);
    return;
  }
  if (points.size() >= kMostPoints) points.erase(points.begin(), points.begin() + kMostPoints / 2);
  points.push_back({step, bytes, reading.place});
  const GrowthVerdict growth = growth_of(series);
  if (growth.kind != GrowthVerdict::Kind::kSteady || growth.per_step <= 0) return;
  const auto room = capacity();
  const std::int64_t left = room ? std::max<std::int64_t>(*room - used_bytes(reading), 0) : 0;
  const auto known = room_said_.find(key);
  if (known != room_said_.end() && (!room || left * 2 > known->second)) return;
  room_said_[key] = left;
  std::string warning = fmt::format("line {}: {} grows {} a step", line_of(reading.place), of,
                                    print_block(Bytes(growth.per_step)));
  if (room)
    warning += fmt::format("; {} of {} are left: full at about step {}", print(Bytes(left)),
                           print(Bytes(*room)),
                           print_count(Checked(step) + Checked(left / growth.per_step)));
  warnings.push_back(std::move(warning));
}

// Moments are made when an optimizer first steps: before that they are memory that is not yet taken.
void GrowthWatch::warn_of_first_step(const MemoryReading& reading, std::int64_t used,
                                     std::vector<std::string>& warnings) {
  const auto room = capacity();
  if (prediction_ == nullptr || prediction_->ranks.empty() || !room) return;
  const bool before = (reading.phase == "load" || reading.phase == "forward" ||
                       reading.phase == "backward" || reading.step.value_or(0) == 0) &&
                      reading.step.value_or(0) <= 1;
  if (!before) return;
  std::int64_t moments = 0;
  for (const PhasePrediction& phase :
       prediction_->ranks[rank_index_of(*prediction_, reading.rank)].phases)
    moments = std::max(moments, phase.piles[Pile::kOptimizerMoments].value().value());
  const std::int64_t now = reading.allocated ? reading.allocated->value().value() : used;
  if (moments <= 0 || now + moments <= *room || said("moments" + where_of(reading))) return;
  warnings.push_back(fmt::format(
      "line {}: optimizer state of {} is still to come in the first step; {} of {} are left{}",
      line_of(reading.place), print(Bytes(moments)), print(Bytes(*room - now)), print(Bytes(*room)),
      where_of(reading)));
}

// Batches so far may have been short: the run is weighed with one of the full length.
void GrowthWatch::warn_of_full_length(const MemoryReading& reading,
                                      std::vector<std::string>& warnings) {
  if (prediction_ == nullptr || !reading.max_allocated || reading.step.value_or(0) < 2) return;
  const std::int64_t peak = reading.max_allocated->value().value();
  const std::int64_t full = prediction_->peak.allocated.value().value();
  if (prediction_->verdict != Verdict::kDoesNotFit || full * 20 < peak * 21 || said("full length"))
    return;
  warnings.push_back(fmt::format(
      "line {}: {} at the peak so far; a batch of the full length needs {}, which does not fit",
      line_of(reading.place), print(Bytes(peak)), print(Bytes(full))));
}

}  // namespace steelyard
