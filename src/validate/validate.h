// Predictions held to measured runs: a row in, what was measured and what we say of it out; and over many rows, how far off
// we are, where, and by which pile.
//
//   row -> mapper of its source -> run file -> read_job -> predict        judge()
//   rows of a source            -> errors, outcomes, reasons, worst       Validation
//
// Pure: who calls reads the files, and says which sources' rows it can map. A row that disagrees with a prediction stays; only
// a row that does not say enough, or contradicts itself, is left out, and counted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <tuple>
#include <vector>

#include "cost/step_time.h"
#include "document/diagnostic.h"
#include "document/value.h"
#include "predict/band.h"
#include "validate/error_table.h"
#include "validate/measured_row.h"
#include "validate/time_error.h"

namespace steelyard {

constexpr std::string_view kRecords = "records";        // the source of our own records
constexpr std::string_view kUnknownSource = "unknown";  // rows that no mapper reads
// Behind a source's name: its rows that a choice was made for which looked at what they measured. They are figures of their own.
constexpr std::string_view kInferred = ", inferred";

struct JudgedReading {
  Reading reading;
  Bytes predicted{};
  // What `predicted` is made of: slack and runtime where the meter sees them.
  Piles piles;
  Bytes slack{}, runtime{};
  std::optional<Band> band;  // of `predicted`; absent: a single kernel
  // The pile that is most likely off. Of a record, whose piles are known, the one that differs most; else, of what is missing,
  // the smallest pile that is at least as large; and of what is too much, the largest pile. Empty: no pile is that large.
  std::string suspect;
};

struct TimedStep {
  TimePair seconds;
  TimeTerms terms;    // sum to `predicted`
  std::string group;  // the device, and what is judged apart
};

// What a row is compared in: layouts of one group do the same work (validate/ranking.h).
struct Contest {
  std::string group;
  std::string shape;          // the run up to what a person tunes last
  std::string apart;          // a circumstance whose rows are judged by themselves
  std::vector<double> steps;  // seconds, on the run's machine and those that it may as well be
  double predicted() const { return steps.front(); }
};

struct JudgedRow {
  std::string id;
  std::string source;
  std::string left_out;    // the mapper's reason; the row was not asked
  bool disagrees = false;  // it is left out for what it measured (LeftOut)
  std::string inferred;    // MappedRun::inferred
  std::string refused;     // our reason; it was asked and not answered
  std::vector<JudgedReading> readings;
  std::optional<TimedStep> step;
  std::optional<Contest> contest;  // of rows that print a time, or died
  std::optional<bool> out_of_memory;
  Verdict verdict = Verdict::kFits;
  std::int64_t spare = 0;  // bytes of the device, less what is expected
  Bytes working{};         // activations, temporaries and communication at that peak
  std::vector<Assumed> assumed;
  std::string engine, implementation;
  Value run;  // the run file that was asked, if it was to be kept
  bool weighed() const { return left_out.empty() && refused.empty(); }
};

// Once for each source that owns the row: where a measurement can be read in two ways, it is judged in both. `name` names a
// record, which has no id of its own. An error when the document is neither a row nor a record.
tl::expected<std::vector<JudgedRow>, Diagnostic> judge(const Value& document, std::string_view name,
                                                       const RowSources& sources,
                                                       bool keep_run = false);

// "reserved", "optimizer phase", "allocated, first forward"
std::string label_of(const Reading& reading);

struct SourceResult {
  std::string name, about;
  bool sweeps_layouts = false;  // RowSource::sweeps_layouts
  std::int64_t rows = 0, weighed = 0, refused = 0, left_out = 0;
  std::int64_t disagreeing = 0;  // of those left out
  std::vector<std::pair<std::string, std::int64_t>> refused_because,
      left_out_because;                                      // commonest first
  std::vector<std::pair<std::string, ErrorFigures>> errors;  // by label, in order of appearance
  OutcomeFigures outcomes;
  std::vector<std::pair<std::string, TimeFigures>> times;  // by device
  std::vector<std::pair<const JudgedRow*, const JudgedReading*>>
      worst;  // largest error first, one for each row
  std::vector<std::pair<Assumed, std::int64_t>> assumed;
  std::vector<const JudgedRow*> judged;  // every row, as they came
};

class Validation {
 public:
  // The sources that were judged with, which say what theirs measured.
  explicit Validation(const RowSources& sources) : known_(sources) {}
  void add(JudgedRow row);
  std::size_t rows() const { return rows_.size(); }
  // Sources in the order of their first rows, those that nobody reads last. Points into this object.
  std::vector<SourceResult> results(std::size_t worst) const;

 private:
  using AssumedKey = std::tuple<std::string, std::string, std::string>;
  const RowSources& known_;
  std::vector<JudgedRow> rows_;
  std::vector<std::string> sources_;
  std::map<std::string, std::map<AssumedKey, std::int64_t>> assumed_;
};

}  // namespace steelyard
