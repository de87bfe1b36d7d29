// All layouts of a run on a cluster: what the run file fixes stays fixed, everything else takes every value that divides.
//
//   engine          those of the target's stacks, each with the code, the ZeRO stages and the recomputation that it launches
//   tensor          divisors of the devices that divide the model, up to two machines; with sequence parallelism, which
//                   never needs more memory and sends as much, unless the run file says otherwise
//   context         divisors of the rest, by every method of the engine that differs in what it sends
//   pipeline        divisors of the rest, at most the layers; chunks: divisors of a stage's layers, or powers of two where
//                   stages are uneven
//   expert          divisors of the experts; each whole, or cut like the other matrices
//   data            the rest; replicas of shards (HSDP): shards over 1, 2, 4, ... machines
//   micro-batch     divisors of a data rank's share of the global batch, up to 64
//   recompute       none, selective, full; one layer in 2, 3, 4 (torch); the first n layers of a stage (megatron): every n,
//                   in four ranges; of a range the fewest layers that fit (plan/fewest_recomputed.h)
//   recipe          as asked; and with each change that is allowed (plan/recipe_changes.h): offload of the optimizer, of
//                   parameters, of activations, in every combination that differs for the engine
//
// What is enumerated here and refused by the readers of src/job is counted as not allowed, with their reason.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "job/settings.h"
#include "job/stack.h"
#include "plan/layout.h"

namespace steelyard {

// An engine and its model code, as a plan searches it: with the keys that its usual recipe and its launch files mean.
struct SearchedStack {
  Engine engine{};
  Implementation implementation{};
  bool stages[4] = {};                    // the zero stages that are tried
  std::vector<RecomputeMode> recomputes;  // empty: all that the engine has
  bool plain = false;                     // divided over data alone
  KeyValues keys;                         // of those that the run does not say
  std::string target;                     // of export; empty: its files are not written
};

// What every layout of a plan keeps.
struct PlanTarget {
  std::shared_ptr<const Architecture> model;
  std::shared_ptr<const Device> device;
  std::int64_t devices = 1;
  std::int64_t devices_per_node = 8;
  std::int64_t room_in_node = 8;  // for as many devices, where one machine has fewer
  std::int64_t sequence_length = 0;
  std::int64_t global_batch = 0;
  std::vector<SearchedStack> stacks;
};

struct Rounds {
  std::int32_t micro_batch = 1, accumulation = 1;
  friend auto operator<=>(const Rounds&, const Rounds&) = default;
};
struct Division {
  std::uint8_t zero_stage = 0;
  std::int32_t replicate = 1;
  friend auto operator<=>(const Division&, const Division&) = default;
};
struct Recomputation {
  RecomputeMode mode = RecomputeMode::kNone;
  std::int32_t amount = 0;  // of kEvery and kBlock
  std::int32_t least = 0;   // of kBlock
  friend auto operator<=>(const Recomputation&, const Recomputation&) = default;
};

// Layouts that differ only in their micro-batch, in how states are divided, and in what is computed again: every
// combination of three lists. A space holds some thousand bundles instead of millions of layouts.
struct Bundle {
  Layout common;
  std::uint32_t first = 0;       // number of its first layout
  std::uint32_t first_slot = 0;  // of its slots: a micro-batch and a division, all recomputations
  std::uint32_t forms = 0;       // of the space's form numbers
  std::uint16_t rounds = 0, divisions = 0, recomputations = 0;  // which of the space's lists
};

// Where in its bundle a layout stands.
struct Choice {
  std::uint32_t round = 0, division = 0, recomputation = 0;
};

class Space {
 public:
  std::vector<RecipeChange> recipes;  // by Layout::recipe
  std::vector<SearchedStack> stacks;  // of the target
  std::vector<Bundle> bundles;
  std::vector<std::vector<Rounds>> rounds;
  std::vector<std::vector<Division>> divisions;
  std::vector<std::vector<Recomputation>> recomputations;
  // What a micro-batch of these layouts computes is the same, however stages, data ranks and states are cut.
  std::vector<Layout> forms;
  // Forms that differ in their micro-batch only have one base: the form with the smallest.
  std::vector<Layout> bases;
  std::vector<std::uint32_t> base_of;       // of each form
  std::vector<std::uint32_t> form_numbers;  // of each micro-batch of a bundle, by kind of form
  bool cut_short = false;                   // more than kMostLayouts
  bool unfinished = false;                  // the time was up: there are more layouts
  std::uint32_t slots = 0;                  // of all bundles

  // Layouts are known by their number: bundle by bundle, recomputation fastest.
  std::uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Layout layout(std::uint32_t number) const;
  Layout layout(const Bundle& bundle, Choice choice) const;
  std::uint32_t bundle_of(std::uint32_t number) const;
  Choice choice_of(const Bundle& bundle, std::uint32_t number) const;
  std::uint32_t number_of(const Bundle& bundle, Choice choice) const;
  std::uint32_t slot_of(const Bundle& bundle, std::uint32_t round, std::uint32_t division) const;
  std::uint32_t size_of(const Bundle& bundle) const;
  std::uint32_t form_of(std::uint32_t number) const;
  std::uint32_t form_of(const Bundle& bundle, Choice choice) const;

  // Whole layers that are computed again are the same kernels once more; parts of layers make another form.
  static constexpr std::uint32_t kKindsOfForm = 3;
  static std::uint32_t kind_of_form(RecomputeMode mode);

  const SearchedStack* stack_of(const Layout& layout) const;

  void add(Bundle bundle);

 private:
  std::uint32_t size_ = 0;
};
constexpr std::size_t kMostLayouts = 1'000'000'000;

// `expired`: whether the time is up; none: there is time for all of them.
Space space_of(const PlanTarget& target, const Settings& fixed, std::vector<RecipeChange> recipes,
               const std::function<bool()>& expired = {});

}  // namespace steelyard
