// One way to lay a run out on a cluster: everything that a plan may choose, and nothing else.
//
//   tensor 4 · pipeline 4 · data 4 · zero 1 · 1f1b · micro-batch 1 · no recompute, by megatron
//
// A layout is small, because a search holds a million of them. What it says about the run file it says as edits, so the
// readers of src/job stay the only ones who know what is allowed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "document/value.h"
#include "job/job.h"
#include "job/keys.h"

namespace steelyard {

// A change of what is trained, or how precisely, that a plan was allowed to consider. The first of a space is "as asked".
struct RecipeChange {
  std::string name;                                 // "optimizer adamw-8bit"
  std::vector<std::pair<std::string, Value>> keys;  // "training.optimizer"
};

struct Layout {
  Engine engine{};
  Implementation implementation{};
  LossKernel loss = LossKernel::kPlain;
  bool sequence_parallel = false;
  ContextMethod context_method{};
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  RecomputeMode recompute = RecomputeMode::kNone;
  std::uint8_t zero_stage = 0;
  std::uint8_t recipe = 0;     // of the space's recipes
  bool uneven_stages = false;  // stages are stated one by one, with the ends counted as layers
  // Of kEvery and kBlock: the number beside the mode. Of kBlock in a space: the most of a range, of which the fewest that
  // fit are chosen when it is weighed.
  std::int32_t recomputed = 0, least_recomputed = 0;
  std::int32_t tensor = 1, context = 1, pipeline = 1, chunks = 1, expert = 1, expert_tensor = 1;
  std::int32_t data = 1, replicate = 1;
  std::int32_t micro_batch = 1, accumulation = 1;

  std::int64_t devices() const { return std::int64_t{1} * tensor * context * pipeline * data; }
  friend bool operator==(const Layout&, const Layout&) = default;
};

// Ways in which the work is divided, and what else a team has to understand when it debugs the run: 0 is plain data
// parallelism with nothing computed again.
int complexity_of(const Layout& layout);

// The same up to what a person tunes last: micro-batch, order and chunks of the pipeline, replicas, the loss.
bool are_alike(const Layout& a, const Layout& b);

// In how many things two layouts differ, the number of data ranks and of micro-batches apart: they follow.
int differences_between(const Layout& a, const Layout& b);
// "recompute none -> full, micro-batch 4 -> 1"
std::string words_of_change(const Layout& from, const Layout& to);

// "tensor 4 · pipeline 4 · data 4 · zero 1 · no recompute"; `separator` stands between the parts.
std::string words_of(const Layout& layout, std::string_view separator);
std::string recompute_words(const Layout& layout);  // "none", "full", "every 2nd", "first 4"
std::string order_words(const Layout& layout);      // "1f1b", "interleaved x4"

// What the run file says to have it: keys that a layout decides, with their values.
std::vector<std::pair<KeyId, Value>> keys_of(const Layout& layout, std::int64_t layers);

}  // namespace steelyard
