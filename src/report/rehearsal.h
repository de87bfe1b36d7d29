// The answer of `rehearse`: that of `weigh`, and what only a rehearsal knows.
//
//   fits   needs 6.9 GiB (6.8 to 7.1), usable 79.1: 72.2 spare
//   ...
//   most is held for
//     train.py:7    modeling_llama.py:175 forward       activations   1.06 GiB, 64 times
//   rehearsed   3 steps of rank 0 of 1 in 25 s, torch 2.11.0, transformers 5.17.0
//   9 values were answered in place of a kernel's, 2 kinds (-v)
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "rehearse/answer.h"
#include "report/style.h"

namespace steelyard {

struct RehearsalReport {
  const std::vector<Rehearsal>& seen;  // each rank once
  const Rehearsed& answer;
  std::vector<std::string> command;
  // It did not fit, and was rehearsed again without an end to the memory: what it needs.
  bool without_an_end = false;
  bool verbose = false;
};

std::string rehearsal_text(const RehearsalReport& report, const Style& style);
// steelyard.prediction/1 with "how": "rehearsed" and "rehearsal".
nlohmann::ordered_json json_of(const RehearsalReport& report);

}  // namespace steelyard
