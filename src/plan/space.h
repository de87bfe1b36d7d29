// All layouts of a run on a cluster: what the run file fixes stays fixed, everything else takes every value that divides.
//
//   engine          all of them, each with its ZeRO stages and pipeline orders
//   tensor          divisors of the devices that divide the model, up to two machines; with sequence parallelism, which
//                   never needs more memory and sends as much, unless the run file says otherwise
//   context         divisors of the rest, by every method of the engine that differs in what it sends
//   pipeline        divisors of the rest, at most the layers; chunks: divisors of a stage's layers, or powers of two where
//                   stages are uneven
//   expert          divisors of the experts; each whole, or cut like the other matrices
//   data            the rest; replicas of shards (HSDP): shards over 1, 2, 4, ... machines
//   micro-batch     divisors of a data rank's share of the global batch, up to 64
//   recompute       none, selective, full; one layer in 2, 3, 4 (torch); the first n layers of a stage (megatron)
//   recipe          as asked; and with each change that is allowed (plan/recipe_changes.h)
//
// What is enumerated here and refused by the readers of src/job is counted as not allowed, with their reason.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "job/settings.h"
#include "plan/layout.h"

namespace steelyard {

// What every layout of a plan keeps.
struct PlanTarget {
  std::shared_ptr<const Architecture> model;
  std::shared_ptr<const Device> device;
  std::int64_t devices = 1;
  std::int64_t devices_per_node = 8;
  std::int64_t sequence_length = 0;
  std::int64_t global_batch = 0;
};

struct Space {
  std::vector<RecipeChange> recipes;  // by Layout::recipe
  std::vector<Layout> layouts;
  // What a micro-batch of these layouts computes is the same, however stages, data ranks and states are cut.
  std::vector<Layout> forms;
  std::vector<std::uint32_t> form_of;  // of each layout
  // Forms that differ in their micro-batch only have one base: the form with the smallest.
  std::vector<Layout> bases;
  std::vector<std::uint32_t> base_of;  // of each form
  bool cut_short = false;              // more than kMostLayouts
};
constexpr std::size_t kMostLayouts = 8'000'000;

Space space_of(const PlanTarget& target, const Settings& fixed, std::vector<RecipeChange> recipes);

}  // namespace steelyard
