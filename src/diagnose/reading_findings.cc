// The rules of the verdict that rest on a framework's memory lines: growth over steps, and ranks beside each other.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "diagnose/diagnosis.h"
#include "diagnose/growth.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

constexpr std::size_t kFewestRanks = 4, kFewestStages = 4;

std::string of_rank(const std::optional<std::int64_t>& rank) {
  return rank ? fmt::format(" on rank {}", *rank) : std::string();
}

bool is_peak(const MemorySeries& series) { return series.what.starts_with("max"); }

bool is_cache(const MemorySeries& series) {
  return series.what.find("allocated") == std::string::npos;
}

// The failure that would end the steps of these readings, if the evidence has one.
const MemoryFailure* ending_failure(const DiagnosisQuestion& question) {
  for (const Evidence& one : question.evidence)
    for (const MemoryFailure& failure : one.failures)
      if (failure.fatal && !failure.consequence &&
          failure.kind == MemoryFailure::Kind::kDeviceAllocator)
        return &failure;
  return nullptr;
}

Finding steady_growth(const MemorySeries& series, const GrowthVerdict& growth) {
  Finding finding;
  finding.cause = Cause::kLeakOrKeptGraph;
  // What is reserved also grows by fragmentation.
  finding.certainty = is_cache(series) ? 0.55 : 0.88;
  finding.proof.push_back(
      {fmt::format("{}{} grows from {} to {} between steps {} and {}: {} a step", series.what,
                   of_rank(series.rank), print(Bytes(growth.first)), print(Bytes(growth.last)),
                   print_count(Checked(growth.first_step)), print_count(Checked(growth.last_step)),
                   print_block(Bytes(growth.per_step))),
       Bytes(growth.last - growth.first), growth.place});
  finding.counter.emplace_back("a longer batch: every step rises, and by the same amount");
  return finding;
}

// Equal steps before the failure, which needs far more than they did; or one such step among them.
std::optional<Finding> longer_batch(const MemorySeries& series, const GrowthVerdict& growth,
                                    const MemoryFailure& failure) {
  using Kind = GrowthVerdict::Kind;
  Finding finding;
  finding.cause = Cause::kLongestBatch;
  if (growth.kind == Kind::kSpike) {
    finding.certainty = 0.6;
    finding.proof.push_back(
        {fmt::format("{}{} is {} in most steps and {} in step {}: one batch, not growth",
                     series.what, of_rank(series.rank), print(Bytes(growth.median)),
                     print(Bytes(growth.highest)), print_count(Checked(growth.highest_step))),
         Bytes(growth.highest - growth.median), growth.place});
    return finding;
  }
  if (!is_peak(series) || is_cache(series) || !failure.allocated || series.points.size() < 2)
    return std::nullopt;
  std::int64_t highest = 0;
  std::int64_t lowest = INT64_MAX;
  for (const auto& point : series.points) {
    highest = std::max(highest, point.bytes);
    lowest = std::min(lowest, point.bytes);
  }
  const std::int64_t needed =
      failure.allocated->value().value() + (failure.tried ? failure.tried->value().value() : 0);
  if (needed * 20 < highest * 23) return std::nullopt;
  // Peaks that already differ are of batches that differ.
  const bool varies = highest * 20 > lowest * 21;
  finding.certainty = needed * 2 > highest * 3 ? (varies ? 0.88 : 0.8) : varies ? 0.76 : 0.64;
  finding.proof.push_back(
      {fmt::format("the steps before needed at most {}; this one needs at least {}",
                   print(Bytes(highest)), print(Bytes(needed))),
       Bytes(needed - highest), series.points.back().place});
  finding.counter.emplace_back("a leak: the steps before do not grow");
  return finding;
}

// The highest peak of each rank, as a framework printed it.
struct PeaksOfRanks {
  std::map<std::int64_t, std::int64_t> of_rank;
  EvidencePlace place;
};

PeaksOfRanks peaks_of_ranks(const DiagnosisQuestion& question) {
  PeaksOfRanks peaks;
  for (const Evidence& one : question.evidence)
    for (const MemoryReading& reading : one.readings)
      if (reading.rank && reading.max_allocated) {
        std::int64_t& peak = peaks.of_rank[*reading.rank];
        peak = std::max(peak, reading.max_allocated->value().value());
        peaks.place = reading.place;
      }
  return peaks;
}

// Peaks of the stages: ranks that follow each other and peak alike are of one (its tensor and data ranks).
std::vector<std::int64_t> peaks_of_stages(const PeaksOfRanks& peaks) {
  std::vector<std::int64_t> stages;
  for (const auto& [rank, peak] : peaks.of_rank)
    if (stages.empty() || std::abs(peak - stages.back()) * 500 > stages.back())
      stages.push_back(peak);
  return stages;
}

// A constant less from stage to stage: micro-batches in flight. The last stage has the head.
std::optional<Finding> first_stage(const PeaksOfRanks& peaks) {
  const std::vector<std::int64_t> order = peaks_of_stages(peaks);
  if (order.size() < kFewestStages) return std::nullopt;
  std::size_t falls = 0;
  for (std::size_t index = 1; index + 1 < order.size(); ++index)
    falls += order[index] < order[index - 1] ? 1 : 0;
  if (falls + 1 < order.size() - 1 || order.front() <= order[1]) return std::nullopt;
  Finding finding;
  finding.cause = Cause::kPipelineFirstStage;
  finding.certainty = 0.8;
  finding.proof.push_back(
      {fmt::format("max allocated falls from stage to stage: {} on the first, {} on the one before "
                   "the last",
                   print(Bytes(order.front())), print(Bytes(order[order.size() - 2]))),
       Bytes(order.front() - order[order.size() - 2]), peaks.place});
  return finding;
}

bool has_experts(const DiagnosisQuestion& question) {
  if (question.job != nullptr && question.job->parallel.expert > Checked(1)) return true;
  for (const Evidence& one : question.evidence)
    for (const auto& [key, value] : one.clues.arguments)
      if (key.find("expert") != std::string::npos && value != "None" && value != "1" &&
          value != "0" && value != "False")
        return true;
  return false;
}

// One rank far above the others: of experts, tokens that were not spread.
std::optional<Finding> imbalance(const PeaksOfRanks& peaks, const DiagnosisQuestion& question) {
  std::vector<std::int64_t> order;
  for (const auto& [rank, peak] : peaks.of_rank) order.push_back(peak);
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(order.size() / 2),
                   order.end());
  const std::int64_t median = order[order.size() / 2];
  const auto highest =
      std::max_element(peaks.of_rank.begin(), peaks.of_rank.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (highest->second * 20 < median * 23 || !has_experts(question)) return std::nullopt;
  Finding finding;
  finding.cause = Cause::kMoeImbalance;
  finding.certainty = 0.62;
  finding.proof.push_back(
      {fmt::format("rank {} peaks at {}, the median of {} ranks at {}: tokens went to its experts",
                   highest->first, print(Bytes(highest->second)), order.size(),
                   print(Bytes(median))),
       Bytes(highest->second - median), peaks.place});
  return finding;
}

}  // namespace

std::vector<Finding> findings_of_readings(const DiagnosisQuestion& question) {
  std::vector<Finding> findings;
  const MemoryFailure* const failure = ending_failure(question);
  // Of all ranks and labels the one that proves most; they tell the same story.
  std::optional<Finding> steady, longer;
  const auto take = [](std::optional<Finding>& best, Finding other) {
    if (!best || other.certainty > best->certainty ||
        (other.certainty == best->certainty && *other.proof[0].bytes > *best->proof[0].bytes))
      best = std::move(other);
  };
  for (const MemorySeries& series : series_of(question.evidence)) {
    if (failure != nullptr && failure->rank && series.rank && *failure->rank != *series.rank)
      continue;
    const GrowthVerdict growth = growth_of(series);
    if (growth.kind == GrowthVerdict::Kind::kSteady)
      take(steady, steady_growth(series, growth));
    else if (failure != nullptr)
      if (auto found = longer_batch(series, growth, *failure)) take(longer, std::move(*found));
  }
  if (steady) findings.push_back(std::move(*steady));
  if (longer && !steady) findings.push_back(std::move(*longer));
  const PeaksOfRanks peaks = peaks_of_ranks(question);
  if (peaks.of_rank.size() < kFewestRanks) return findings;
  if (auto found = first_stage(peaks))
    findings.push_back(std::move(*found));
  else if (failure != nullptr)
    if (auto uneven = imbalance(peaks, question)) findings.push_back(std::move(*uneven));
  return findings;
}

}  // namespace steelyard
