// What a run file only carries, in the words of another format: one table of what every training configuration says.
//
//   [carried.axolotl]                 in Megatron-LM's words:
//   learning_rate = 0.0002            --lr 0.0002
//   lr_scheduler = "cosine"           --lr-decay-style cosine
//   num_epochs = 4                    none: left out, and said so
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "document/value.h"

namespace steelyard {

// One value that moves: its path in the new document, and the run file's key that it came from.
struct MovedConcept {
  std::string path;
  Value value;
  std::string from;  // "carried.axolotl.learning_rate"
};

// Everything that other formats' carried keys say and this format has a key for.
std::vector<MovedConcept> concepts_for(const Value& run, std::string_view format);

// One line for each format of which keys are left: those that are not in `brought` and whose format is not in `formats`.
struct LeftBehind {
  std::string format;
  std::vector<std::string> keys;  // "num_epochs"
};
std::vector<LeftBehind> left_behind(const Value& run,
                                    const std::set<std::string, std::less<>>& formats,
                                    const std::set<std::string, std::less<>>& brought);

}  // namespace steelyard
