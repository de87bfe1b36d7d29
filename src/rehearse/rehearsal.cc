#include "rehearse/rehearsal.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace steelyard {
namespace {

// More than any device holds.
constexpr std::int64_t kMostObservedBytes = std::int64_t{1} << 50;

struct ObservedPile {
  std::string_view name;
  Pile pile;
};
constexpr std::array kObservedPiles = {
    ObservedPile{"parameters", Pile::kParameters},
    ObservedPile{"buffers", Pile::kParameters},
    ObservedPile{"gradients", Pile::kGradients},
    ObservedPile{"master_weights", Pile::kMasterWeights},
    ObservedPile{"optimizer_state", Pile::kOptimizerMoments},
    ObservedPile{"activations", Pile::kActivations},
    ObservedPile{"inputs", Pile::kActivations},
    ObservedPile{"temporary", Pile::kTemporary},
    ObservedPile{"workspaces", Pile::kTemporary},
    ObservedPile{"communication", Pile::kCommunication},
};

Pile observed_pile(std::string_view name) {
  for (const ObservedPile& known : kObservedPiles)
    if (known.name == name) return known.pile;
  return Pile::kTemporary;
}

std::int64_t integer_of(const Value& table, std::string_view path) {
  const Value* value = table.at(path);
  return value != nullptr && value->is_integer() ? value->as_integer() : 0;
}

Bytes observed_bytes(const Value& table, std::string_view path) {
  return Bytes(std::clamp<std::int64_t>(integer_of(table, path), 0, kMostObservedBytes));
}

std::string observed_text(const Value& table, std::string_view key) {
  const Value* value = table.find(key);
  return value != nullptr && value->is_string() ? value->as_string() : std::string();
}

const Value* table_at(const Value& table, std::string_view path) {
  const Value* value = table.at(path);
  return value != nullptr && value->is_table() ? value : nullptr;
}

// The rows of a list; none where there is no such list.
std::vector<const Value*> rows_at(const Value& table, std::string_view path) {
  std::vector<const Value*> rows;
  const Value* list = table.at(path);
  if (list != nullptr && list->is_array())
    for (const Value& row : list->items())
      if (row.is_table()) rows.push_back(&row);
  return rows;
}

std::optional<Phase> observed_phase(std::string_view name) {
  for (int index = 0; index < kPhaseCount; ++index)
    if (name_of(static_cast<Phase>(index)) == name) return static_cast<Phase>(index);
  return std::nullopt;
}

tl::expected<RehearsedPhase, Diagnostic> read_observed_phase(const Value& row) {
  RehearsedPhase read;
  read.step = observed_text(row, "step");
  const auto phase = observed_phase(observed_text(row, "phase"));
  const Value* piles = table_at(row, "piles");
  if (!phase || piles == nullptr || read.step.empty()) {
    Diagnostic problem;
    problem.code = "E110";
    problem.message = "a phase of the rehearsal without a step, a name or piles";
    problem.place = row.place();
    return tl::unexpected(problem);
  }
  read.phase = *phase;
  read.allocated = observed_bytes(row, "allocated_bytes");
  read.resident = observed_bytes(row, "resident_bytes");
  read.max_allocated = observed_bytes(row, "torch.allocated_bytes");
  read.reserved = observed_bytes(row, "torch.reserved_bytes");
  for (const Value::Member& member : piles->members())
    if (member.value.is_integer())
      read.piles[observed_pile(member.key)] += observed_bytes(*piles, member.key);
  return read;
}

void read_ending(const Value& rehearsed, Rehearsal& read) {
  if (const Value* failure = table_at(rehearsed, "failure"))
    read.failure = RehearsedFailure{observed_bytes(*failure, "tried_bytes"),
                                    observed_bytes(*failure, "allocated_bytes"),
                                    observed_bytes(*failure, "reserved_bytes"),
                                    observed_bytes(*failure, "free_bytes"),
                                    observed_bytes(*failure, "capacity_bytes"),
                                    integer_of(*failure, "step"),
                                    observed_text(*failure, "phase")};
  if (const Value* error = table_at(rehearsed, "error")) {
    const Value* memory = error->find("out_of_memory");
    read.error = RehearsedError{observed_text(*error, "type"), observed_text(*error, "text"),
                                observed_text(*error, "line"), observed_text(*error, "traceback"),
                                memory != nullptr && memory->is_bool() && memory->as_bool()};
  }
}

}  // namespace

tl::expected<Rehearsal, Diagnostic> read_rehearsal(const Value& document) {
  const Value* rehearsed = document.is_table() ? table_at(document, "rehearsal") : nullptr;
  if (rehearsed == nullptr || observed_text(document, "schema") != "steelyard.record/1") {
    Diagnostic problem;
    problem.code = "E110";
    problem.message = "not a steelyard.record/1 of a rehearsal";
    problem.place = document.place();
    return tl::unexpected(problem);
  }
  Rehearsal read;
  read.rank = integer_of(*rehearsed, "rank");
  read.ranks = std::max<std::int64_t>(1, integer_of(*rehearsed, "ranks"));
  read.steps = integer_of(*rehearsed, "steps");
  read.ended = observed_text(*rehearsed, "ended");
  if (const Value* seconds = rehearsed->find("seconds"); seconds != nullptr && seconds->is_number())
    read.seconds = seconds->as_number();
  read.parameters = integer_of(document, "parameters.total");
  read.trainable = integer_of(document, "parameters.trainable");
  if (const Value* versions = table_at(document, "versions"))
    for (const Value::Member& member : versions->members())
      if (member.value.is_string())
        read.versions.emplace_back(member.key, member.value.as_string());
  for (const Value* row : rows_at(document, "phases")) {
    auto phase = read_observed_phase(*row);
    if (!phase) return tl::unexpected(phase.error());
    read.phases.push_back(std::move(*phase));
  }
  for (const Value* row : rows_at(*rehearsed, "peak.lines"))
    read.lines.push_back({observed_pile(observed_text(*row, "pile")), observed_bytes(*row, "bytes"),
                          integer_of(*row, "count"), observed_text(*row, "user"),
                          observed_text(*row, "line"), observed_text(*row, "function")});
  read_ending(*rehearsed, read);
  for (const Value* row : rows_at(*rehearsed, "substitutions"))
    read.substitutions.push_back(
        {observed_text(*row, "what"), observed_text(*row, "line"), integer_of(*row, "times")});
  for (const Value* row : rows_at(*rehearsed, "unanswered"))
    read.unanswered.emplace_back(observed_text(*row, "name"), integer_of(*row, "times"));
  if (const Value* missing = rehearsed->find("missing"); missing != nullptr && missing->is_array())
    for (const Value& text : missing->items())
      if (text.is_string()) read.missing.push_back(text.as_string());
  return read;
}

}  // namespace steelyard
