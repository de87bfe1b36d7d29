// Every technique that training systems are asked for: how a run file says it, the rules that weigh it, and what is left out.
//
//   data parallel   HSDP (replicas of shards)   engine = fsdp2, parallel.replicate = 2   fsdp2.shard
//
// The rows are data/techniques; docs/strategies.py adds which recordings and published rows check each.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/style.h"

namespace steelyard {

struct Technique {
  std::string group, name;
  nlohmann::ordered_json run;  // keys by path, with their values; null: not weighed
  std::vector<std::string> rules;
  std::string note;  // of what is left out, and why
};

const std::vector<Technique>& techniques();
std::string techniques_text(const Style& style);
nlohmann::ordered_json techniques_json();

}  // namespace steelyard
