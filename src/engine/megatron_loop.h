// What Megatron-LM's loop and layers hold beside parameters, gradients and states, whoever divides those: position ids, numbers
// around the loss, a table of rotary frequencies, and buffers that are made once and never let go.
#pragma once

#include "engine/engine.h"
#include "job/pipeline_shape.h"

namespace steelyard {

template <class N>
class MegatronLoop : public EngineModel<N> {
 public:
  using typename EngineModel<N>::Events;

  explicit MegatronLoop(const EngineContext<N>& context);

  void held_from_first_forward(const Stage<N>& stage, Events& events) const override {
    // What the losses of its depths are scaled by, on every stage; and these, for the log.
    if (predicts()) events.push_back({number_, stage.head ? 2 : 1});
    if (shared_buffer_ >= 0) events.push_back({shared_buffer_, 1});
    if (rotary_table_ >= 0) events.push_back({rotary_table_, 1});
  }
  // Positions come with the tokens, and go with the names of forward_step where no embedding has kept them. Numbers: how many tokens count; the loss, its mean over the micro-batches, its gradient.
  // Without a pipeline the loop's name for the loss passes to the next one when that is there (schedules.py,
  // forward_backward_no_pipelining).
  void begin_forward(const Stage<N>& stage, bool first, Events& events) override {
    if (has_positions(stage)) events.push_back({positions_, 1});
    if (!in_pipeline()) events.push_back({number_, named_loss(first) ? 2 : 1});
    if (in_pipeline() && first) events.push_back({number_, 1});  // how many tokens count
  }
  void end_forward(const Stage<N>& stage, int, bool first, Events& events) override {
    if (has_positions(stage) && !looks_up_positions(stage)) events.push_back({positions_, -1});
    if (in_pipeline()) {
      // The loss, or what is left of an output that was sent. The name of the loss before passes to this one.
      events.push_back({number_, 1});
      if (stage.head && !first) events.push_back({number_, -1});
    } else if (stage.head) {
      events.push_back({number_, named_loss(first) ? 2 : 3});
    }
  }
  // Scaled, the loss takes its own place.
  void begin_backward(const Stage<N>& stage, bool, Events& events) override {
    if (in_pipeline() && stage.head) events.push_back({number_, 1});
  }
  void end_backward(const Stage<N>& stage, int, bool, Events& events) override {
    if (looks_up_positions(stage)) events.push_back({positions_, -1});
    events.push_back({number_, stage.head && !in_pipeline() ? -4 : -1});
  }
  void reduce(const Stage<N>& stage, Events& events) override {
    if (in_pipeline()) events.push_back({number_, stage.head ? -2 : -1});
  }

 protected:
  // The scale of losses that are not scaled.
  void hold_scale(Events& events) const { events.push_back({number_, 1}); }
  // Made by the first layer that gathers tokens, and never let go.
  void hold_gathered_tokens(const Stage<N>& stage, Events& events) const {
    if (gathered_tokens_ >= 0 && has_experts(stage)) events.push_back({gathered_tokens_, 1});
  }
  bool predicts() const { return !this->job_.model->predictions.empty(); }

 private:
  SlotId shared_buffer();
  bool named_loss(bool first) const { return !first && this->job_.parallel.pipeline == 1; }
  // forward_backward_pipelining_without_interleaving
  bool in_pipeline() const { return runs_whole_stages(this->job_); }
  bool has_positions(const Stage<N>& stage) const {
    return stage.embedding || (stage.head && predicts());
  }
  bool looks_up_positions(const Stage<N>& stage) const {
    return stage.embedding && this->job_.model->learned_positions;
  }
  bool has_experts(const Stage<N>& stage) const;

  SlotId shared_buffer_ = -1, rotary_table_ = -1, positions_ = -1, number_ = -1,
         gathered_tokens_ = -1;
};

extern template class MegatronLoop<Checked>;
extern template class MegatronLoop<Traced>;

// Megatron-FSDP.
template <class N>
std::unique_ptr<EngineModel<N>> make_megatron_fsdp(const EngineContext<N>& context);

}  // namespace steelyard
