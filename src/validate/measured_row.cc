#include "validate/measured_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "document/diagnostic.h"

namespace steelyard {
namespace {

// A terabyte is more than any accelerator of any row holds.
constexpr double kMostGib = 1024.0;
// Counts beyond this are no counts of a run; the job's own limits are stricter.
constexpr double kLargest = 9.0e15;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return result;
}

std::optional<std::int64_t> count_of(std::string_view digits) {
  if (digits.empty() || digits.size() > 15) return std::nullopt;
  std::int64_t number = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = number * 10 + (digit - '0');
  }
  return number;
}

}  // namespace

std::string_view name_of(Meter meter) {
  switch (meter) {
    case Meter::kAllocated:
      return "allocated";
    case Meter::kReserved:
      return "reserved";
    case Meter::kOptimizerAllocated:
      return "optimizer_allocated";
    case Meter::kResident:
      return "resident";
    case Meter::kDevice:
      return "device";
  }
  return "";
}

std::optional<Bytes> bytes_of_gib(double gib) {
  if (!std::isfinite(gib) || gib <= 0 || gib > kMostGib) return std::nullopt;
  return Bytes(static_cast<std::int64_t>(std::llround(gib * static_cast<double>(1 << 30))));
}

void MappedRun::set(std::string_view key, Value value) {
  set_path(run, key, std::move(value), Place{});
}

void MappedRun::assume(std::string_view key, std::string_view name, std::string_view why) {
  set(key, name);
  assumed.push_back({std::string(key), std::string(name), std::string(why)});
}

void MappedRun::assume(std::string_view key, std::int64_t number, std::string_view why) {
  set(key, number);
  assumed.push_back({std::string(key), fmt::format("{}", number), std::string(why)});
}

void MappedRun::assume_switch(std::string_view key, bool on, std::string_view why) {
  set_switch(key, on);
  assumed.push_back({std::string(key), on ? "true" : "false", std::string(why)});
}

void MappedRun::read_as(std::string_view what, std::string_view why) {
  assumed.push_back({std::string(what), "", std::string(why)});
}

void MappedRun::infer(std::string_view what, std::string_view why) {
  read_as(what, why);
  inferred += (inferred.empty() ? "" : "; ") + std::string(why);
}

std::string MeasuredRow::text(std::string_view path) const {
  const Value* value = at(path);
  return value != nullptr && value->is_string() ? value->as_string() : std::string();
}

bool MeasuredRow::says(std::string_view path, std::string_view word) const {
  return lower(text(path)).find(lower(word)) != std::string::npos;
}

std::optional<std::int64_t> MeasuredRow::count(std::string_view path) const {
  const Value* value = at(path);
  if (value == nullptr) return std::nullopt;
  if (value->is_integer()) return value->as_integer();
  if (value->is_string()) return count_of(value->as_string());
  if (!value->is_number()) return std::nullopt;
  const double number = value->as_number();
  if (!(std::abs(number) < kLargest) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::optional<double> MeasuredRow::number(std::string_view path) const {
  const Value* value = at(path);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->as_number();
}

std::optional<bool> MeasuredRow::truth(std::string_view path) const {
  const Value* value = at(path);
  if (value == nullptr || !value->is_bool()) return std::nullopt;
  return value->as_bool();
}

std::optional<Bytes> MeasuredRow::gib(std::string_view path) const {
  const std::optional<double> printed = number(path);
  return printed ? bytes_of_gib(*printed) : std::nullopt;
}

std::optional<Bytes> MeasuredRow::gigabytes(std::string_view path) const {
  const std::optional<double> printed = number(path);
  return printed ? bytes_of_gib(*printed * 1e9 / (1 << 30)) : std::nullopt;
}

std::int64_t MeasuredRow::need(std::string_view path) {
  if (const std::optional<std::int64_t> found = count(path)) return *found;
  miss(path);
  return 1;
}

std::string MeasuredRow::missing() const {
  std::string result = "prints";
  for (std::size_t i = 0; i < missing_.size(); ++i)
    result += fmt::format("{} no {}", i == 0 ? "" : ",", missing_[i]);
  return result;
}

std::string MeasuredRow::origin() const {
  const std::string repository = text("source.repo");
  return repository.empty() ? text("source.title") : repository;
}

}  // namespace steelyard
