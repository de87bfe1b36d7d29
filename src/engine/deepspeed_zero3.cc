// DeepSpeed ZeRO-3 (DeepSpeedZeroOptimizer_Stage3): every parameter is cut on its own, into ceil(elements / N).
//
//   held      2P/N parameters + 2P/N gradients + 12P/N, the bucket of the reduction, small parameters whole (norms)
//   forward   +gathered ......................................... and backward ............. -gathered
//             modules are fetched ahead until max_live_parameters stand whole, and kept when they are needed again
//             within max_reuse_distance; how they come: zero_transport.h
//   backward  gradients are copied into the bucket and dropped; a full bucket is reduced through one more copy
//   step      sub-group by sub-group: +gradients, joined  +cast to fp32  -joined  ...step...  -cast
//
// Sources: deepspeed/runtime/zero/{stage3,partition_parameters,partitioned_param_coordinator}.py,
// deepspeed/runtime/comm/coalesced_collectives.py (0.19.8).
#include <algorithm>

#include "engine/deepspeed_zero3_partitions.h"

namespace steelyard {

namespace {

template <class N>
class DeepSpeedZero3 final : public Zero3Partitions<N> {
 public:
  using typename EngineModel<N>::Events;
  using typename Zero3Partitions<N>::Buffers;

  explicit DeepSpeedZero3(const EngineContext<N>& context) : Zero3Partitions<N>(context) {
    this->scaled_losses_ = 2;
    reads_head_outside_ =
        context.style.loss == LossKernel::kFusedLinear || context.style.loss == LossKernel::kCut;
    bucket_ = this->slot("gradients", "bucket of the reduction (IPG)", "deepspeed.zero3-bucket",
                         Pile::kCommunication, Workbook<N>::symbol("B", this->job_.buckets.reduce),
                         this->stored_);
    flags_ = this->slot("optimizer", "overflow flag; the barrier's", "deepspeed.zero3-flags",
                        Pile::kCommunication, N(1), ElementType::kBool);
    for (const Unit<N>* unit : this->all_units()) {
      persistent_.slots.push_back(
          this->parts_of(*unit, true, N(1),
                         {unit->name, "small parameters, whole", "deepspeed.zero3-persistent"}));
      persistent_parts_.slots.push_back(this->parts_of(
          *unit, true, Workbook<N>::symbol("N", this->ranks_),
          {unit->name, "partitions of small parameters", "deepspeed.zero3-persistent"}));
      N large{};
      for (const TensorShare<N>& share : unit->tensors)
        if (!this->persists(share)) large = large + N(share.copies) * share.elements;
      gathered_.slots.push_back(this->slot(unit->name, "gathered parameters",
                                           "deepspeed.zero3-gathered", Pile::kParameters, large,
                                           this->stored_));
      fetched_.push_back(this->transport_.fetch_of(*unit));
      ahead_.push_back(this->transport_.ahead_of(*unit));
      first_fetched_.push_back(this->transport_.first_fetch_of(*unit));
    }
    if (context.frozen)
      for (const Unit<N>* unit : this->all_units(Of::kFrozen))
        frozen_shares_.slots.push_back(this->book_.slot_of_tensors(
            {unit->name, "frozen parameters, partitions", "deepspeed.zero3-frozen"},
            Pile::kParameters, flat_shard_elements(*unit, this->ranks_), this->stored_,
            flat_shards(*unit, this->ranks_, this->stored_, this->book_.tensor_sum())));
    constants_ = this->constants_sets();
    if (has_secondary())
      for (const Unit<N>* unit : this->all_units()) {
        const SlotName name{unit->name, "second copy, divided", "deepspeed.secondary"};
        const N ranks = Workbook<N>::symbol("H", context.job.parallel.secondary_shard);
        secondary_.slots.push_back(this->parts_of(*unit, false, ranks, name));
        small_secondary_.slots.push_back(this->parts_of(*unit, true, ranks, name));
      }
    // What is larger than the bucket is reduced from where it is.
    for (SlotId gradient : context.gradients_of_head)
      if (this->book_.program.slot_at(gradient).bytes > this->book_.program.slot_at(bucket_).bytes)
        passing_by_.push_back(gradient);
  }

  // Each gradient is copied into the bucket and dropped.
  GradientPolicy gradient_policy(bool) const override { return GradientPolicy::kAdd; }
  bool keeps_gradients() const override { return false; }
  bool uses_neighbours() const override { return true; }
  // The order of modules is what the first micro-batch shows; until then each is gathered when it is called and let go after.
  bool learns_from_first() const override { return true; }
  void in_very_first(bool yes) override { traces_ = yes; }

  void load(const Stage<N>& stage, Events& events) override {
    const Buffers* known = this->buffers_.find(stage);
    here_ = known ? *known : this->buffers_.add(stage, this->make_buffers(stage));
    // A model that scores has an engine without an optimizer: its partitions, and no buffer for gradients.
    if (this->context_.style.scores) {
      EngineModel<N>::hold(frozen_shares_, stage, events);
      return EngineModel<N>::hold(constants_, stage, events);
    }
    this->hold_kernel_flag(events);
    events.push_back({flags_, this->offloads_states() ? 1 : 2});  // the tracker is on the host then
    if (!this->offloads_parameters()) {
      events.push_back({here_.shares, 1});
      EngineModel<N>::hold(frozen_shares_, stage, events);
    }
    EngineModel<N>::hold(constants_, stage, events);
    // Made with the partitions, and again wherever a step has made it stale.
    EngineModel<N>::hold(secondary_, stage, events);
    EngineModel<N>::hold(small_secondary_, stage, events);
    if (this->steps_in_backward()) return;
    if (here_.master >= 0) events.push_back({here_.master, 1});
    if (here_.stepped >= 0)
      this->pass(here_.stepped, events);  // initialize_optimizer_states: zeros, and no step
    events.push_back({bucket_, 1});
    if (!this->offloads_states()) events.push_back({here_.gradients, 1});
    // From the host comes this rank's part first.
    if (this->offloads_parameters()) events.push_back({here_.hooked_part, 1});
    this->pass(here_.hooked, events);
    if (this->offloads_parameters()) events.push_back({here_.hooked_part, -1});
  }
  void states(const Stage<N>& stage, Events& events) override {
    if (!this->offloads_states()) DeepSpeedModel<N>::hold(this->buffers_.at(stage).states, events);
  }
  void left_by_first_backward(const Stage<N>& stage, Events& events) const override {
    if (!persist_from_step()) EngineModel<N>::hold(persistent_, stage, events);
    // No step begins with one but the first.
    EngineModel<N>::hold(secondary_, stage, events, -1);
    EngineModel<N>::hold(small_secondary_, stage, events, -1);
  }
  void left_by_first_step(const Stage<N>& stage, Events& events) const override {
    if (persist_from_step()) {
      EngineModel<N>::hold(persistent_, stage, events);
      if (this->offloads_parameters()) {  // gathered from the host
        EngineModel<N>::hold(persistent_parts_, stage, events);
        EngineModel<N>::hold(persistent_parts_, stage, events, -1);
      }
    }
    if (!this->steps_in_backward() && !this->offloads_states())
      this->norm_.hold(1, events);  // the norm of the step before, for whoever asks
  }

  void begin_forward(const Stage<N>& stage, bool, Events& events) override {
    here_ = this->buffers_.at(stage);
    const std::vector<std::int64_t>& count = this->counts(stage);
    // The first layer's are under way by then.
    std::vector<SlotId> ahead;
    for (std::size_t unit = 1; !traces_ && ahead.empty() && unit < count.size(); ++unit)
      if (count[unit] > 0) ahead = ahead_[unit];
    for (const SlotId slot : ahead) events.push_back({slot, 1});
    hold_fetched(0, 1, events);
    if (!traces_ && !here_.keeps_all) events.push_back({here_.gathered, 1});
    for (std::size_t unit = 0; !traces_ && here_.keeps_all && unit < count.size(); ++unit)
      if (count[unit] > 0 && !is_layer(stage, unit))
        events.push_back({gathered_.slots[unit], static_cast<std::int32_t>(count[unit])});
    hold_fetched(0, -1, events);
    for (const SlotId slot : ahead) events.push_back({slot, -1});
  }
  void before_forward(const Neighbours& here, bool, Events& events) override {
    const auto unit = static_cast<std::size_t>(here.unit + 1);
    if (traces_) return hold_first(first_fetched_[unit], 1, events);
    hold_fetched(unit, 1, events);
    if (here_.keeps_all) events.push_back({gathered_.slots[unit], 1});
    hold_fetched(unit, -1, events);
  }
  void before_head(const Stage<N>&, int, bool, Events& events) override {
    if (traces_ && reads_head_outside_) hold_head(1, events);
  }
  void after_forward(const Neighbours& here, bool first, Events& events) override {
    if (traces_)
      return hold_first(first_fetched_[static_cast<std::size_t>(here.unit + 1)], -1, events);
    if (first && has_secondary() && !here_.keeps_all)
      events.push_back(this->event(secondary_, here.unit, 1));
  }
  void end_forward(const Stage<N>& stage, int, bool first, Events& events) override {
    if (first && !traces_ && has_secondary() && !here_.keeps_all) {
      if (stage.embedding) events.push_back({secondary_.slots.front(), 1});
      if (stage.head) events.push_back({secondary_.slots[secondary_.slots.size() - 2], 1});
    }
    if (!stage.head) return;
    if (traces_ && reads_head_outside_)
      hold_head(-1, events);
    else
      pass_fetched(fetched_.size() - 2, events);
  }
  void begin_backward(const Stage<N>& stage, bool first, Events& events) override {
    Zero3Partitions<N>::begin_backward(stage, first, events);
    if (stage.head && traces_ && reads_head_outside_) hold_head(1, events);
  }
  // Until the order is known, the matrix alone.
  void around_head_product(std::int32_t count, Events& events) const override {
    if (traces_ && !reads_head_outside_) hold_head(count, events);
  }
  void before_backward(const Neighbours& here, bool, Events& events) override {
    if (here.previous < 0) pass_by(events);
    const auto unit = static_cast<std::size_t>(here.unit + 1);
    if (traces_) return hold_first(first_fetched_[unit], 1, events);
    // What forward has left is not fetched again.
    if (!here_.keeps_all) pass_fetched(unit, events);
  }
  void after_backward(const Neighbours& here, bool, Events& events) override {
    if (here_.fills_in_layers) this->pass(here_.scattered, events);
    if (traces_)
      return hold_first(first_fetched_[static_cast<std::size_t>(here.unit + 1)], -1, events);
    // Nobody asks for it again.
    if (here_.keeps_all)
      events.push_back({gathered_.slots[static_cast<std::size_t>(here.unit + 1)], -1});
  }
  void end_backward(const Stage<N>& stage, int last_unit, bool first, Events& events) override {
    // What is needed again soon is let go in backward only, the first module last.
    if (first && !traces_ && has_secondary() && here_.keeps_all)
      EngineModel<N>::hold(secondary_, stage, events);
    if (last_unit < 0) pass_by(events);
    this->drop_scaled_loss(stage, events);
    if (here_.fills) this->pass(here_.scattered, events);
    if (stage.head && traces_ && reads_head_outside_) hold_head(-1, events);
    if (!traces_) release_rest(stage, events);
    if (!here_.fills && !this->steps_in_backward()) this->pass(here_.scattered, events);
    if (traces_) EngineModel<N>::hold(secondary_, stage, events);
  }
  void prepare_step(const Stage<N>& stage, Events& events) override {
    if (this->steps_in_backward()) return;
    if (this->offloads_states()) {
      // Of each partition, taken when its gradient was sent.
      const std::vector<const Unit<N>*> units = this->all_units(Of::kTrained);
      std::int64_t tensors = 0;
      for (std::size_t unit = 0; unit < units.size(); ++unit)
        tensors += this->counts(stage)[unit] * units[unit]->tensor_count;
      this->norm_.numbers(static_cast<std::int32_t>(tensors), events);
      return;
    }
    const Buffers& buffers = this->buffers_.at(stage);
    EngineModel<N>::hold(small_secondary_, stage, events);
    EngineModel<N>::hold(persistent_, stage, events, -1);  // gathered again when the step is done
    this->look_for_overflow(events);
    // A norm for each sub-group, whether or not gradients are clipped; here the last of them.
    this->norm_.hold(buffers.sub_groups - 1, events);
    this->norm_.one_by_one(
        buffers.tensors, ElementType::kFloat64, buffers.largest, true, events,
        {.numbers = 5});  // finite? two flags, their union, what stands for no, the choice
    this->norm_.numbers(2, events);  // of all sub-groups: stacked, and its norm
    this->norm_.hold(1 - buffers.sub_groups, events);
    // That of the last sub-group, and the one from which the loss scale is taken off.
    this->norm_.hold(2, events);
    events.push_back({buffers.joined, 1});
    const bool casts = this->master_ != this->accumulated_;
    if (casts) {
      events.push_back({buffers.stepped, 1});
      events.push_back({buffers.joined, -1});
    }
    if (this->clips()) this->norm_.numbers(4, events);  // the factor, with the scale, inverted
  }
  void optimizer(const Stage<N>& stage, Events& events) override {
    step_states(stage, events);
    // What was copied before the step is worth nothing after it.
    EngineModel<N>::hold(secondary_, stage, events, -1);
    if (!this->offloads_states() && !this->steps_in_backward())
      EngineModel<N>::hold(small_secondary_, stage, events, -1);
  }
  // stage3_gather_16bit_weights_on_model_save: the parameters of one module at a time.
  void checkpoint(const Stage<N>& stage, Events& events) override {
    if (this->job_.checkpoint != CheckpointSave::kFullRankZero) return;
    const Buffers& buffers = this->buffers_.at(stage);
    events.push_back({buffers.saved, 2});
    events.push_back({buffers.saved, -2});
  }

 private:
  // With the optimizer on the host the first backward lets small parameters go; a second micro-batch, or the step, has them back.
  bool persist_from_step() const {
    return this->offloads_states() && this->job_.training.gradient_accumulation == 1;
  }
  void step_states(const Stage<N>& stage, Events& events) {
    if (this->offloads_states() || this->steps_in_backward()) return;
    const Buffers& buffers = this->buffers_.at(stage);
    const bool casts = this->master_ != this->accumulated_;
    this->step(buffers.states, events);
    events.push_back({casts ? buffers.stepped : buffers.joined, -1});
    this->norm_.hold(-2, events);
    EngineModel<N>::hold(persistent_, stage, events);
    this->norm_.hold(-1, events);
  }
  bool has_secondary() const {
    return this->job_.parallel.secondary_shard > 1 && !this->offloads_parameters();
  }
  void release_rest(const Stage<N>& stage, Events& events) const {
    if (!here_.keeps_all) {
      events.push_back({here_.gathered, -1});
      return;
    }
    // What stands at the ends, and layers below all that is trained.
    const std::vector<std::int64_t>& count = this->counts(stage);
    for (std::size_t unit = 0; unit < count.size(); ++unit) {
      if (count[unit] == 0 || (is_layer(stage, unit) && !this->is_untouched(unit - 1))) continue;
      events.push_back({gathered_.slots[unit], static_cast<std::int32_t>(-count[unit])});
    }
  }
  static bool is_layer(const Stage<N>& stage, std::size_t unit) {
    return unit > 0 && unit <= stage.layers_of_kind.size();
  }
  void hold_fetched(std::size_t unit, std::int32_t times, Events& events) const {
    for (const SlotId slot : (traces_ ? first_fetched_ : fetched_)[unit])
      events.push_back({slot, times});
  }
  // Its matrix, with tied weights the embedding's: gathered (1) and let go (-1).
  void hold_head(std::int32_t count, Events& events) const {
    const std::vector<SlotId>& of_head = first_fetched_[first_fetched_.size() - 2];
    const std::vector<SlotId>& fetched = of_head.empty() ? first_fetched_.front() : of_head;
    hold_first(fetched, count, events);
  }
  // What a module has while the order is not known; what brings it is gone by then.
  void hold_first(const std::vector<SlotId>& fetched, std::int32_t count, Events& events) const {
    if (fetched.empty()) return;
    if (count > 0)
      for (const SlotId slot : fetched) events.push_back({slot, 1});
    for (const SlotId slot : fetched)
      if ((slot == fetched.back()) == (count < 0)) events.push_back({slot, -1});
  }
  void pass_fetched(std::size_t unit, Events& events) const {
    hold_fetched(unit, 1, events);
    hold_fetched(unit, -1, events);
  }

  // The head's gradients that are larger than the bucket.
  void pass_by(Events& events) const {
    for (SlotId gradient : passing_by_) {
      events.push_back({gradient, 1});
      this->pass(here_.scattered, events);
      events.push_back({gradient, -1});
    }
  }
  SlotId bucket_ = -1, flags_ = -1;
  SlotSet frozen_shares_, persistent_, persistent_parts_, gathered_, secondary_,
      small_secondary_;                                               // by unit
  std::vector<std::vector<SlotId>> fetched_, ahead_, first_fetched_;  // by unit
  bool traces_ = false;
  // Liger's loss reads the weight of a module that it does not call: the whole model has it until it returns, and while it
  // runs backward (parameter_offload.py, ZeROOrderedDict). With the order known it is fetched like others.
  bool reads_head_outside_ = false;
  std::vector<SlotSet> constants_;  // of quantised weights
  std::vector<SlotId> passing_by_;  // gradients of the head that are larger than the bucket
  Buffers here_;                    // of the stage whose load was asked for last
};

}  // namespace

template <class N>
std::unique_ptr<EngineModel<N>> make_deepspeed_zero3(const EngineContext<N>& context) {
  return std::make_unique<DeepSpeedZero3<N>>(context);
}
template std::unique_ptr<EngineModel<Checked>> make_deepspeed_zero3(const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_deepspeed_zero3(const EngineContext<Traced>&);

}  // namespace steelyard
