// Two predictions beside each other: what grew, pile by pile, the largest change first.
//
//   grew   59.5 -> 72.2 GiB: 12.7 more · both: fits
//          one pile explains it: activations +12.0
//   step   5.9 s -> 6.4 s: 8.1 % more
//
//   GiB                         a         b     delta
//     activations            33.5      45.5     +12.0  ++++++++++++++
//     slack                   1.1       2.0      +0.9  +
//
//   same batch   64 sequences, 1,048,576 tokens a step: the schedule can stay
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "predict/prediction.h"
#include "report/style.h"

namespace steelyard {

// One of the two: what it is called and what was predicted.
struct Compared {
  std::string name;
  const Job& job;
  const Prediction& prediction;
};

// A key of the run file that differs, with both values as written; empty where absent.
struct ChangedKey {
  std::string key, before, after;
};

// Whether anything a reader would act on differs: bytes of any pile, the verdict, or the batch.
bool differ(const Compared& before, const Compared& after);

std::string comparison_line(const Compared& before, const Compared& after, const Style& style);
std::string comparison_text(const Compared& before, const Compared& after,
                            const std::vector<ChangedKey>& changed, const Style& style);

// Their parts: piles side by side, the largest change first; and "~ parallel.context  1 -> 2" lines.
std::string piles_table(const Compared& before, const Compared& after, const Style& style);
std::string changed_keys_text(const std::vector<ChangedKey>& changed);

// "step   5.9 s -> 6.4 s: 8.1 % more"; empty where no times are known of a device.
std::string step_line(const Compared& before, const Compared& after);

// "same batch   64 sequences, ...", and (batch_text) its factors side by side.
std::string batch_line(const Compared& before, const Compared& after, const Style& style);
std::string batch_text(const Compared& before, const Compared& after, const Style& style);
bool same_batch(const Job& before, const Job& after);

nlohmann::ordered_json json_of(const Compared& before, const Compared& after,
                               const std::vector<ChangedKey>& changed);

}  // namespace steelyard
