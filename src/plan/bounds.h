// What no layout can go below: cheap numbers that spare a search most of its work, and never its best answer.
//
//   memory   weights and states of a stage + what its layers keep for every micro-batch in flight
//   time     micro-batches x the work of one micro-batch, of the average stage; a wider micro-batch takes no longer for
//            each of its sequences
//
// Proofs. Memory: the fullest stage is no emptier than the first or the second. At the moment when most micro-batches are
// in flight there, it holds, beside its weights and the states of the optimizer, what each layer keeps for backward, once
// for each of them; and without a pipeline, where whole layers are computed again, one of them has been by the time
// backward goes on. No engine divides states over more than all ranks that hold the same parameters. What a layer keeps
// grows with the micro-batch at least as the smallest micro-batch's does, but for copies of weights, which are found and
// left out, and for the rounding of tensors, for which a part is taken off. Layers whose states are divided stand there
// whole while they run, those of torchtitan's stages from the first micro-batch to the last, and so do their gradients once
// each chunk has run backward. Megatron and nanotron have buffers of gradients from load on. What engines add beside that
// (other buffers, temporaries) is left out.
//
// Time: the slowest stage runs every micro-batch, one after the other, and is no faster than the average stage; kernels and
// exchanges inside a micro-batch are those of the same layout without its pipeline and its data ranks, which is called its
// form. Layers computed again only add. Twice the sequences take at most twice as long: products, attention, reads, writes
// and exchanges grow with them or less, tiles and experts' rows are rounded up, launches stay, and what runs side by side
// takes the longer and a part of the shorter. So a micro-batch that all others are divisors of bounds them all, for each
// sequence, but for the smallest one, of which some operators make views where others copy: that is timed itself. With its
// data ranks (a group of layouts) the form also tells what they exchange and how long the optimizer takes, of which the
// fullest stage has no less than the average one; where it is known how layers are cut, the stages are summed one by one
// (plan/group_time.h). Where it is not, and backward is not split, one passage through the other stages is waited for,
// divided by the chunks of a stage (but breadth first, where a rank of large chunks may wait for small ones alone). Where
// it is split, the last micro-batch of any part has all of them before it there, and goes through the other parts, and
// back through all of them.
//
// search_test.cc holds both to whole small spaces, layout by layout.
#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "machine/runtime.h"
#include "plan/form_facts.h"
#include "plan/group_time.h"
#include "plan/passages.h"
#include "plan/space.h"

namespace steelyard {

class Bounds {
 public:
  Bounds(const PlanTarget& target, bool stages_are_stated)
      : target_(target),
        stages_are_stated_(stages_are_stated),
        layers_(*target.model),
        context_(context_bytes(*target.device)) {}

  // Bytes on the fullest device, at least. `facts` of the form with the smallest micro-batch, which is `micro_batch`.
  double least_bytes(const Layout& layout, const FormFacts& facts);
  // The same in its two parts: moments of a step, which do not depend on how states are divided, and what is held.
  struct
      Held {  // of each parameter on a stage, from load on, and while micro-batches pass; of a layer while it runs
    double each = 0, kept_gathered = 0, gathered = 0;
  };
  struct Moment {
    double elements = 0, of_layers = 0;  // parameters that are held; of those that are gathered
    bool passes = false;                 // a layer runs
    double bytes = 0;                    // of activations, and gradients
  };
  struct Moments {
    std::array<Moment, 5> all;
    std::size_t count = 0;
    void add(const Moment& moment) { all[count++] = moment; }
  };
  Moments moments_of(const Layout& layout, const FormFacts& facts);
  Held held_by(const Layout& layout, const FormFacts& facts) const;
  static double bytes_of(const Moments& moments, const Held& held);
  // The same as least_bytes, closer, with the layout's own graphs (plan/passages.h); and the upper end of the band, at least. What the
  // allocator reserves grows with what is allocated; an observed error widens the band by a part of it.
  struct Need {
    double device = 0, high = 0;
  };
  Need least_need(const Layout& layout, const FormFacts& facts, const FormSwings& swings);
  // Of the whole step, at least.
  double least_seconds(const Layout& layout, const FormFacts& facts);
  // Looks no closer than it takes to see that it is more than `most`.
  double least_seconds(const Layout& layout, const GroupTime& time, double most);

 private:
  double least_seconds_of_average_stages(const Layout& layout, const GroupTime& time) const;
  // The share of all layers' second forward that this layout runs, at least.
  double computed_again(const Layout& layout, bool alike) const;
  struct Flight {
    std::int64_t most = 0, most_beside_gradients = 0;
    std::vector<std::int64_t> by_chunk;
  };
  const Flight& flight_of(const Layout& layout, std::int64_t rank);
  const std::vector<std::int64_t>& starts_of(const Layout& layout);  // of the parts; empty: unknown

  const PlanTarget& target_;
  bool stages_are_stated_;
  const LayerCounts layers_;
  const RuntimeBytes context_;  // of the device; communicators come on top
  std::unordered_map<std::uint64_t, Flight> flights_;
  std::unordered_map<std::uint64_t, std::vector<std::int64_t>> starts_;
};

}  // namespace steelyard
