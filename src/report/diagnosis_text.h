// A diagnosis on one screen: at most 20 lines of 80 columns.
//
//   fragmentation   certain: 80 %
//                   1.96 GiB requested; 1.02 free of 79.11
//     5.98 GiB reserved and free, 3.1 times the 1.96 GiB requested ...   oom.txt
//   also the logits: 1.96 GiB = 8,192 x 128,256 x 2 B, one 16-bit copy of Llama 3's logits
//   fix  PYTORCH_ALLOC_CONF=expandable_segments:True
#pragma once

#include <string>

#include "diagnose/attribution_rules.h"
#include "diagnose/diagnosis.h"
#include "report/style.h"

namespace steelyard {

std::string diagnosis_text(const Diagnosis& diagnosis, const Style& style);
// Of --plan-experiment: the fewest runs that decide, with the number that each must show.
std::string experiments_text(const Diagnosis& diagnosis, const Style& style);
// Of `steelyard explain CAUSE`.
std::string cause_text(const CauseFacts& facts, const Style& style);
// Of `steelyard explain A5`: a rule that gives bytes to piles.
std::string attribution_rule_text(const AttributionRule& rule, const Style& style);

}  // namespace steelyard
