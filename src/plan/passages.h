// What the operators alone hold on a stage while its micro-batches pass in their order.
//
//   F     + what the chunk's layers keep
//   B     - the same, with one layer after the other computed again on the way
//   I, W  B in two parts: what the gradients of weights need waits in between
//
// The tapes are those of the predictor, without what engines add to them, which is never negative: so this bounds memory
// from below, closer than counting micro-batches does (plan/bounds.h), for layouts whose graphs have been drawn.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/stage_program.h"
#include "plan/layout.h"

namespace steelyard {

// Of all layouts whose graphs are the same; `drawn` is of one of them.
class FormSwings {
 public:
  FormSwings(const Job& job, StagePrograms<Checked>& drawn);

  // A chunk of layers from `from` to `to` of the model, `embedding` before and `head` behind it, or neither.
  struct Chunk {
    bool embedding = false, head = false;
    bool hands_on = false,
         hands_in =
             false;  // the turn of a V: the next chunk, the one before, stands on the same rank
    // Gradients arrive with its first backward; with its last they go, and so do gathered parameters.
    std::int64_t gradients = 0, gathered = 0;
    std::int64_t from = 0, to = 0;
  };
  // Of a step, above weights and states: the highest moment, with what stands there from step to step (buffers for
  // what is received).
  struct Height {
    std::int64_t highest = 0, resident = 0;
  };
  Height height_of(const Layout& layout, const RankOrder& order, std::int64_t micro_batches,
                   const std::vector<Chunk>& chunks) const;
  // Adapters, and parts of layers that are computed again, are not looked at.
  bool is_known() const { return known_; }
  // Whether backward is known in its two parts: torch's pipelines alone are looked at.
  bool splits_backward() const { return torch_; }

 private:
  struct Passage {
    Swing forward, backward, input, weight;
    bool waits = false;  // torch's first stage: all of backward, for the turn of the weights
    std::int64_t left = 0;
  };
  Passage passage_of(const Layout& layout, const Chunk& chunk) const;
  const UnitSwings& layer(std::size_t kind, bool again, bool input, bool gradient) const {
    return layers_[kind * 8 + (again ? 4 : 0) + (input ? 2 : 0) + (gradient ? 1 : 0)];
  }

  bool known_ = false, torch_ = false;
  std::vector<int> kinds_;  // of each layer
  std::vector<UnitSwings> layers_;
  UnitSwings embedding_, head_;
  std::int64_t hidden_ = 0;  // bytes of what stages send each other
};

}  // namespace steelyard
