#include "evidence/incident.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "evidence/printed.h"
#include "evidence/snapshot_reader.h"

namespace steelyard {
namespace {

using DeathKind = MemoryFailure::Kind;

// Which of two deaths of unknown order explains the other: a failed allocation explains a timeout, never the reverse.
int strength_of(const MemoryFailure& failure) {
  switch (failure.kind) {
    case DeathKind::kHardware:
      return 0;
    case DeathKind::kDeviceAllocator:
    case DeathKind::kDeviceOutside:
    case DeathKind::kHost:
      return 1;
    case DeathKind::kKilled:
      return 3;
    case DeathKind::kCollectiveTimeout:
      return 4;
    case DeathKind::kOther:
      // An exception of the program says more than an exit code or the end of a job's time.
      return failure.backend.empty() || failure.backend == "device" ? 2 : 5;
  }
  return 5;
}

bool is_kill_explained(const MemoryFailure& later, const MemoryFailure& first) {
  // The kernel's line is the proof of what an exit code -9 only suggests: the kill is its consequence, whatever the clocks.
  return later.kind == DeathKind::kKilled && first.kind == DeathKind::kHost &&
         (first.backend == "kernel" || first.backend == "slurm" || first.backend == "ray" ||
          first.backend == "kubernetes");
}

// With a clock of seconds and others of milliseconds, what is this close is at once.
constexpr double kAtOnce = 2.0;

bool comes_first(const MemoryFailure& a, const MemoryFailure& b) {
  if (a.consequence != b.consequence) return !a.consequence;
  if (a.seconds && b.seconds && std::abs(*a.seconds - *b.seconds) > kAtOnce)
    return *a.seconds < *b.seconds;
  if (strength_of(a) != strength_of(b)) return strength_of(a) < strength_of(b);
  if (a.seconds && b.seconds) return *a.seconds < *b.seconds;
  return false;
}

void set_ranks(std::span<Evidence> evidence) {
  for (Evidence& one : evidence) {
    if (!one.rank) one.rank = rank_of_path(one.file);
    if (!one.rank) continue;
    for (MemoryFailure& failure : one.failures)
      if (!failure.rank) failure.rank = one.rank;
    for (MemoryReading& reading : one.readings)
      if (!reading.rank) reading.rank = one.rank;
  }
}

void order_failures(std::span<Evidence> evidence, Incident& incident) {
  for (std::size_t i = 0; i < evidence.size(); ++i)
    for (std::size_t j = 0; j < evidence[i].failures.size(); ++j)
      if (evidence[i].failures[j].fatal) incident.order.push_back({i, j});
  const auto at = [&evidence](const IncidentFailure& one) -> MemoryFailure& {
    return evidence[one.evidence].failures[one.failure];
  };
  // "Within two seconds" is no order of many, so the least is taken out one by one; a run leaves few deaths.
  constexpr std::size_t kMostOrdered = 2000;
  if (incident.order.size() > kMostOrdered) incident.order.resize(kMostOrdered);
  for (std::size_t i = 0; i < incident.order.size(); ++i) {
    std::size_t least = i;
    for (std::size_t j = i + 1; j < incident.order.size(); ++j)
      if (comes_first(at(incident.order[j]), at(incident.order[least]))) least = j;
    std::rotate(incident.order.begin() + static_cast<std::ptrdiff_t>(i),
                incident.order.begin() + static_cast<std::ptrdiff_t>(least),
                incident.order.begin() + static_cast<std::ptrdiff_t>(least) + 1);
  }
  if (incident.order.empty()) return;
  // A kill that another file explains is not the first of anything.
  for (const IncidentFailure& later : incident.order)
    for (const IncidentFailure& first : incident.order)
      if (is_kill_explained(at(later), at(first))) at(later).consequence = true;
  std::stable_partition(incident.order.begin(), incident.order.end(),
                        [&at](const IncidentFailure& one) { return !at(one).consequence; });
  if (at(incident.order.front()).consequence) return;
  incident.first = incident.order.front();
  const MemoryFailure& first = at(*incident.first);
  for (const IncidentFailure& later : incident.order) {
    MemoryFailure& failure = at(later);
    if (&failure == &first) continue;
    if (strength_of(failure) > strength_of(first) && strength_of(failure) >= 3)
      failure.consequence = true;
  }
}

std::string ranks_in_words(const std::vector<std::int64_t>& ranks) {
  constexpr std::size_t kMostNamed = 8;
  std::string words;
  for (std::size_t i = 0; i < ranks.size() && i < kMostNamed; ++i)
    words += (words.empty() ? "" : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > kMostNamed) words += fmt::format(" and {} more", ranks.size() - kMostNamed);
  return words;
}

std::string sentence_of(const CollectiveCulprit& culprit) {
  using How = CollectiveCulprit::How;
  const std::string where =
      fmt::format("{} {} of {}", culprit.operation, culprit.sequence, culprit.group);
  const std::string waiting = ranks_in_words(culprit.waiting);
  switch (culprit.how) {
    case How::kNothingBegun:
      return fmt::format("rank {} has no outstanding collective while ranks {} wait in {}",
                         culprit.rank, waiting, where);
    case How::kNotJoined:
      return fmt::format("rank {} has not begun {} in which ranks {} wait", culprit.rank, where,
                         waiting);
    case How::kBehind:
      return fmt::format("rank {} has not ended {} which the others of its group have ended",
                         culprit.rank, where);
    case How::kNoDump:
      return fmt::format("rank {} left no dump while ranks {} wait in {}", culprit.rank, waiting,
                         where);
  }
  return where;
}

// A hang leaves no sentence of its own: who holds the others up is a failure of the dump that shows it.
void add_culprits(std::span<Evidence> evidence, const Incident& incident) {
  for (const CollectiveCulprit& culprit : incident.culprits) {
    for (Evidence& one : evidence) {
      if (one.kind != "flight recorder" || one.file != culprit.place.file) continue;
      MemoryFailure failure;
      failure.kind = DeathKind::kCollectiveTimeout;
      failure.rank = culprit.rank;
      failure.backend = "flight recorder";
      failure.message = sentence_of(culprit);
      failure.place = culprit.place;
      one.failures.push_back(std::move(failure));
      break;
    }
  }
}

void find_silent(std::span<Evidence> evidence, Incident& incident) {
  std::set<std::int64_t> ranks;
  std::optional<std::int64_t> world;
  std::size_t of_one_rank = 0;
  for (const Evidence& one : evidence) {
    if (one.clues.world_size) world = std::max(world.value_or(0), *one.clues.world_size);
    if (!one.rank) continue;
    ranks.insert(*one.rank);
    ++of_one_rank;
  }
  incident.ranks.assign(ranks.begin(), ranks.end());
  // Only where most ranks left a file does a missing one mean anything.
  constexpr std::int64_t kMostWorld = 100'000;
  if (!world || *world > kMostWorld || of_one_rank < 2) return;
  if (static_cast<std::int64_t>(ranks.size()) * 2 <= *world) return;
  for (std::int64_t rank = 0; rank < *world; ++rank)
    if (!ranks.contains(rank)) incident.silent_ranks.push_back(rank);
}

}  // namespace

std::optional<std::int64_t> rank_of_path(std::string_view path) {
  const std::size_t slash = path.find_last_of("/\\");
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  if (const auto rank = rank_of_name(name)) return rank;
  if (slash == std::string_view::npos) return std::nullopt;
  const std::size_t before = path.find_last_of("/\\", slash == 0 ? 0 : slash - 1);
  const std::string_view folder =
      path.substr(before == std::string_view::npos ? 0 : before + 1,
                  slash - (before == std::string_view::npos ? 0 : before + 1));
  // torchrun's redirected output: LOGS/RUN/attempt_0/3/stderr.log
  if (name == "stderr.log" || name == "stdout.log") {
    std::string_view digits = folder;
    const auto rank = take_printed_integer(digits);
    if (rank && digits.empty() && *rank >= 0) return rank;
  }
  return rank_of_name(folder);
}

Incident join_incident(std::span<Evidence> evidence) {
  Incident incident;
  set_ranks(evidence);
  std::vector<const Evidence*> dumps;
  for (const Evidence& one : evidence)
    if (one.kind == "flight recorder") dumps.push_back(&one);
  if (dumps.size() > 1) incident.culprits = find_collective_culprits(dumps);
  add_culprits(evidence, incident);
  order_failures(evidence, incident);
  find_silent(evidence, incident);
  return incident;
}

}  // namespace steelyard
