// One published measurement, and what a mapper makes of it: a run file, and what was read of the run.
//
//   {"id": "nanotron-us-2", "source": {...}, "model": {...}, "train": {...}, "parallel": {...}, "measured": {...}}
//        -> run      {"model": ..., "engine": "nanotron", "training": ..., "parallel": ...}
//           readings reserved 50.18 GiB, optimizer phase 25.07 GiB, of stage 0; it did not run out of memory
//           assumed  recompute.mode none: the source prints ...
//
// A mapper states facts of its source and never looks at a prediction. What a row does not print, and its source does not
// say, is assumed aloud or the row is left out with a reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "document/value.h"
#include "ledger/pile.h"
#include "quantity/quantity.h"

namespace steelyard {

// What was read of a run.
enum class Meter : std::uint8_t {
  kAllocated,           // max_memory_allocated
  kReserved,            // max_memory_reserved
  kOptimizerAllocated,  // max_memory_allocated between backward and the end of the step
  kResident,            // memory_allocated between steps
  kDevice               // nvidia-smi: the whole process
};
std::string_view name_of(Meter meter);  // "allocated", "optimizer_allocated", ...

enum class Step : std::uint8_t { kLater, kFirst };

struct Reading {
  Meter meter = Meter::kAllocated;
  Bytes bytes{};
  Step step = Step::kLater;
  std::optional<Phase> phase = std::nullopt;  // within one phase; absent: over the whole step
  std::optional<Piles> piles = std::nullopt;  // what it was made of, where a recorder could tell
  bool with_forward =
      false;  // one phase was recorded for forward and backward: Megatron's schedules run both
  Bytes
      rounding{};  // half of what the last printed digit is worth, where that is much: no error is less
};

// What the row does not say. An empty value: not a key of the run file, a way of reading the number.
struct Assumed {
  std::string key, value, why;
};

struct MappedRun {
  Value run = Value::table();
  std::optional<Bytes> alone;  // what one operator peaks at by itself: there is no run to weigh
  std::vector<Reading> readings;
  std::optional<std::int64_t> stage;  // whose numbers they are; absent: the largest of all ranks
  std::optional<bool> out_of_memory;
  // What a step took, or how many tokens each device saw a second; neither: the row prints no speed that can be compared.
  std::optional<double> step_seconds, tokens_per_second;
  std::string
      timed_apart;  // a circumstance whose times are judged by themselves: "several machines"
  std::vector<Assumed> assumed;
  // Why a choice of the mapper looked at what was measured. Such a row is scored apart: it cannot count as a prediction.
  std::string inferred;

  void set(std::string_view key, Value value);
  void set(std::string_view key, std::int64_t number) { set(key, Value::integer(number)); }
  void set(std::string_view key, std::string_view name) {
    set(key, Value::string(std::string(name)));
  }
  void set(std::string_view key, const char* name) { set(key, std::string_view(name)); }
  void set_switch(std::string_view key, bool on) { set(key, Value::boolean(on)); }
  void assume(std::string_view key, std::string_view name, std::string_view why);
  void assume(std::string_view key, std::int64_t number, std::string_view why);
  void assume_switch(std::string_view key, bool on, std::string_view why);
  // How a number is read where its source leaves that open.
  void read_as(std::string_view what, std::string_view why);
  // The same, where only the measurement itself speaks for it.
  void infer(std::string_view what, std::string_view why);
};

// Bytes of a printed amount; nothing for what no device can hold.
std::optional<Bytes> bytes_of_gib(double gib);

// A row, asked for its fields. What is asked for and not there is remembered, for the reason why the row is left out.
class MeasuredRow {
 public:
  explicit MeasuredRow(const Value& row) : row_(row) {}

  const Value* at(std::string_view path) const { return row_.at(path); }
  std::string text(std::string_view path) const;                   // empty when absent
  bool says(std::string_view path, std::string_view word) const;   // contains it, whatever the case
  std::optional<std::int64_t> count(std::string_view path) const;  // 8, 8.0, "8"
  std::optional<double> number(std::string_view path) const;
  std::optional<bool> truth(std::string_view path) const;
  std::optional<Bytes> gib(std::string_view path) const;
  std::optional<Bytes> gigabytes(std::string_view path) const;  // of 10^9 bytes

  // The count, or 1 and a note that it is missing.
  std::int64_t need(std::string_view path);
  void miss(std::string_view path) { missing_.emplace_back(path); }
  bool complete() const { return missing_.empty(); }
  std::string missing() const;  // "prints no model.heads, no train.micro_batch"

  std::string id() const { return text("id"); }
  // "bigscience-workshop/bigscience" or the title of a paper: where the row was printed.
  std::string origin() const;

 private:
  const Value& row_;
  std::vector<std::string> missing_;
};

// Why a row is not asked. `disagrees`: it says enough, and is left out because what it measured contradicts itself or its
// page; such rows are counted apart, because leaving them out makes the table look better.
struct LeftOut {
  std::string why;
  bool disagrees = false;
};

// The run, or the reason why it is not asked.
using Mapped = tl::expected<MappedRun, LeftOut>;
inline tl::unexpected<LeftOut> left_out(std::string why) {
  return tl::unexpected<LeftOut>({std::move(why), false});
}
inline tl::unexpected<LeftOut> left_out_as_disagreeing(std::string why) {
  return tl::unexpected<LeftOut>({std::move(why), true});
}

// One source of rows: who owns a row, and what run it makes of it. Rows that can be read in two ways have two sources.
struct RowSource {
  std::string_view name;   // "nanotron-ultrascale", as --source says it
  std::string_view about;  // what was measured, in half a line
  bool (*owns)(const MeasuredRow& row);
  Mapped (*map)(MeasuredRow& row);
  bool sweeps_layouts =
      false;  // one code on one kind of machine, run in one layout after the other
};
using RowSources = std::vector<RowSource>;

}  // namespace steelyard
