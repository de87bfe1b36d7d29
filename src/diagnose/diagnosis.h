// What a run died of: one main cause, up to two more, each proven in numbers, with the smallest changes that would have
// fitted and the experiment that decides.
//
//   fragmentation    5.98 GiB reserved and free, three times the 1.96 requested
//   also             the logits: 1.96 GiB = 8,192 x 128,256 x 2 B
//   fix              PYTORCH_ALLOC_CONF=expandable_segments:True
//
// JSON form: steelyard.diagnosis/1 (report/diagnosis_json). Pure: evidence and a run in, a value out.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "diagnose/attribution.h"
#include "diagnose/cause.h"
#include "diagnose/highest_readings.h"
#include "document/unified_diff.h"
#include "evidence/evidence.h"
#include "job/job.h"
#include "predict/prediction.h"
#include "predict/suggest.h"

namespace steelyard {

struct Proof {
  std::string text;
  std::optional<Bytes> bytes;
  EvidencePlace source;
};

struct Finding {
  Cause cause = Cause::kHealthy;
  double certainty = 0;
  std::vector<Proof> proof;
  std::vector<std::string> counter;  // what was checked and does not hold
};

// One proof, and how sure it makes us.
Finding proven(Cause cause, double certainty, std::string text, std::optional<std::int64_t> bytes,
               EvidencePlace place);

// One line of the user's own file, as it is and as it must be.
struct FixLine {
  std::string file;
  ChangedLine change;
};
using LinesOfChange = std::function<std::vector<FixLine>(const RunEdits&)>;

struct Fix {
  std::vector<Suggestion::Edit> edits;
  std::string change;          // as a person says it
  std::vector<FixLine> lines;  // the same in the user's own files; empty: they have no line for it
  std::optional<Bytes> saves;
  std::optional<Seconds> costs;
  std::string verdict;  // "fits", "tight"; empty: not weighed
};

struct Experiment {
  std::vector<Suggestion::Edit> edits;
  std::string change;
  std::vector<std::pair<Cause, Bytes>> expect;  // by how much the peak falls if it is this cause
};

struct Growth {
  std::string what;
  Bytes measured{}, predicted{};
};

struct Diagnosis {
  Cause verdict = Cause::kHealthy;
  std::vector<Finding> findings;  // the main one first; empty: healthy
  std::optional<std::int64_t> rank, device, step, event;
  std::string phase, time;
  MemoryFailure failure;  // of what is not known nothing
  bool has_failure = false;
  std::optional<Bytes> outside;  // of the process, beside the allocator
  bool has_piles = false;
  Piles piles;
  Bytes unaccounted{};
  std::array<Bytes, 9> by_rule{};  // bytes that A1 to A9 gave to their pile
  std::optional<Bytes> slack, runtime;
  std::vector<BlockGroup> groups;         // largest first
  std::optional<HighestReading> highest;  // of a framework's own lines
  std::optional<PhasePrediction> against;
  std::vector<Growth> growth;
  std::vector<Fix> fixes;
  std::vector<Experiment> experiments;             // the fewest that decide
  Bytes experiment_peak{};                         // from which each lowers the peak
  std::vector<std::pair<Cause, Cause>> undecided;  // of the run's changes none tells them apart
  std::vector<Evidence> evidence;                  // without histories
  std::vector<std::string> notes;                  // what the evidence cannot tell
  std::string run;                                 // the name of what it was compared with
};

struct DiagnosisQuestion {
  std::vector<Evidence> evidence;
  const Job* job = nullptr;  // with it the four below
  const Prediction* prediction = nullptr;
  Rewritten rewritten;
  Rewritten
      supposed;  // the same for what the user's tool has no word for: nobody is told to write it
  LinesOfChange lines;  // absent: no file of the user's says the run
  std::string run;
};

Diagnosis diagnose(const DiagnosisQuestion& question);

// The halves of it, each in a file of its own.
struct SnapshotView {
  const Evidence* evidence = nullptr;
  const DeviceMoment* moment = nullptr;
  const Attribution* attribution = nullptr;
};
std::vector<Finding> findings_of_snapshot(const SnapshotView& view,
                                          const DiagnosisQuestion& question,
                                          std::optional<Bytes> capacity);
std::vector<Finding> findings_of_failure(const MemoryFailure& failure,
                                         const DiagnosisQuestion& question);
std::vector<Finding> findings_of_readings(const DiagnosisQuestion& question);
void add_fixes(const DiagnosisQuestion& question, Diagnosis& diagnosis);

// Where expected of a rank: index in `prediction.ranks`.
std::size_t rank_index_of(const Prediction& prediction, std::optional<std::int64_t> rank);

}  // namespace steelyard
