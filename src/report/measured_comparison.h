// A memory snapshot beside a prediction, or beside another snapshot: pile by pile, the largest change first.
//
//   grew   59.50 GiB -> 72.20 GiB alive: +12.70 GiB
//          run.toml    predicted, backward
//          oom.pickle  measured, step 2, backward
//
//   GiB             run.toml  oom.pickle   delta
//     activations       33.5        45.5   +12.0
//
// JSON form: steelyard.comparison/1 with `before` and `after` of a kind each: "predicted" or "measured".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "diagnose/diagnosis.h"
#include "report/style.h"

namespace steelyard {

struct ComparedMemory {
  std::string name;    // of the run or the snapshot
  std::string moment;  // "step 2, backward, event 2,780"
  bool measured = false;
  Piles piles;
  Bytes unaccounted{};
};

// Of a diagnosis of a snapshot: what was measured, and what its run should hold in the same phase.
ComparedMemory measured_memory(const Diagnosis& diagnosis, const std::string& name);
ComparedMemory predicted_memory(const Diagnosis& diagnosis, const std::string& name);

bool differ(const ComparedMemory& before, const ComparedMemory& after);
std::string comparison_line(const ComparedMemory& before, const ComparedMemory& after,
                            const Style& style);
std::string comparison_text(const ComparedMemory& before, const ComparedMemory& after,
                            const Style& style);
nlohmann::ordered_json json_of(const ComparedMemory& before, const ComparedMemory& after);

}  // namespace steelyard
