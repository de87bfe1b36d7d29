// What a form, asked once, tells of all layouts that have it (plan/bounds.h says how it bounds them).
//
//   kept        0 · 1.1 GB · 2.2 GB · ...     what layers keep for backward, summed from the first on
//   smallest    38 ms, 50 with all layers computed again: one micro-batch of one sequence
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/step_time.h"
#include "engine/stage_program.h"
#include "job/job.h"
#include "plan/group_time.h"

namespace steelyard {

// Tensors are rounded up to 512 bytes; those of a layer are far larger, and few.
constexpr double kWithoutRounding = 0.99;

// The least time of one micro-batch: nothing, all layers computed again; and by unit of the model.
struct PassageTime {
  double none = 0, again = 0;
  double none_on_device = 0, again_on_device = 0;  // of these, on the device
  UnitTimes units;
  double joint = 0;  // of all of these but the units: what stages may do without
};

// What a base tells of all layouts that have it.
struct FormFacts {
  // By layer of the model: sums over all layers before it, so that a stage is a difference.
  std::vector<double> kept,
      kept_again;                // bytes; where nothing, or the whole layer, is computed again
  std::vector<double> elements;  // parameters on this rank
  double embedding = 0;          // parameters, too
  double largest_again = 0;      // of one layer: what computing it again makes, beside what it kept
  double share = 1;  // the most ranks for each data rank that share a parameter's states
  double weight = 0, states = 0;  // bytes of each parameter
  double gradient = 0;            // the same, of buffers from load on; whole on every rank
  double gradient_of_stage = 0;   // the same, where stages keep whole gradients until they reduce
  double largest = 0;             // parameters of the largest layer
  double kept_of_head = 0;        // bytes
  double error_above =
      0;  // of each allocated byte: the high end of what is needed is so much higher, or more
  std::int64_t micro_batch = 1;  // of the base: the smallest
  PassageTime smallest;          // with that
  PassageTime widest;  // with a multiple of any other: each takes no less for each sequence
  std::int64_t widest_micro_batch = 1;
  // One kind of layer, and computing all of them again costs as often as many what one does.
  bool alike = true;
  bool ends_again =
      false;  // where all layers are computed again, so are the embedding and the head
  std::string code, words;  // refused by the readers

  // `twice`: of the same base with twice the sequences. What does not grow with them is left out from here on.
  void keep_growth(const FormFacts& twice);
};
// Whether layers keep what does not grow with the micro-batch: weights in the type of their product.
bool keeps_copies_of_weights(const Job& job);

// Whether embedding and head are computed again, too: such a job shares no graphs with one that spares them.
bool computes_ends_again(const Job& job);

// `again`: the graphs of the same job with every layer computed again, whose layers those of `programs` may be, too; null: the
// engine cannot.
FormFacts memory_facts(const Job& job, StagePrograms<Checked>& programs, const Job* job_again,
                       const StagePrograms<Checked>* again);
// Seconds of one micro-batch through all layers, of a layout without pipeline and with one micro-batch.
// What the host's launches add to the device's time belongs to whole stretches, and is no sum of layers.
double micro_batch_seconds(const TimeTerms& of_form, bool with_host = true);

}  // namespace steelyard
