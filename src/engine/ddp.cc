// One device, and PyTorch DistributedDataParallel; FSDP2, where it has one data rank and so nothing to shard.
//
//   held: parameters · (fp32 master) · moments · with more than one rank: buckets as large as all gradients
//   gradients appear layer by layer in the first backward, live beside the buckets (gradient_as_bucket_view is false
//   by default) until zero_grad
//   zero_stage 1: ZeroRedundancyOptimizer gives each rank whole tensors; the largest share is counted
//   fp16 under autocast: a GradScaler's numbers, each a block of 512 bytes: the scale and how long it has been right, from the
//   first loss on; the scaled loss while backward runs; what the step found (torch/amp/grad_scaler.py, 2.11)
#include "engine/by_stage.h"
#include "engine/engine.h"

namespace steelyard {

namespace {

template <class N>
class Ddp final : public EngineModel<N> {
 public:
  using typename EngineModel<N>::Events;
  using Sharding = typename EngineModel<N>::Sharding;

  explicit Ddp(const EngineContext<N>& context) : EngineModel<N>(context) {
    const Precision& precision = this->job_.training.precision;
    const bool sharded_states = this->job_.parallel.zero_stage >= 1 && this->job_.parallel.data > 1;
    const std::int64_t ranks = sharded_states ? this->job_.parallel.data.value() : 1;
    const Sharding sharding = sharded_states ? Sharding::kFlat : Sharding::kWhole;
    const bool adapts = this->job_.adapter.has_value();
    parameters_ = this->whole_set("parameters", "parameters.whole", Pile::kParameters,
                                  precision.parameters, adapts ? Of::kTrained : Of::kAll);
    if (adapts) frozen_ = this->frozen_sets(precision.parameters);
    const bool master = precision.master.has_value() && this->job_.training.optimizer.keeps_master;
    if (master)
      master_ = this->sharded_set("master weights", "states.master", Pile::kMasterWeights,
                                  *precision.master, sharding, ranks);
    if (precision.accumulated_gradients)
      accumulated_ = this->whole_set("accumulated gradients", "gradients.accumulated",
                                     Pile::kGradients, *precision.accumulated_gradients);
    reduces_ = this->job_.parallel.data > 1;
    scales_ = precision.autocast && precision.loss_scaling;
    if (scales_)
      number_ = this->book_.slot({"optimizer", "numbers of the gradient scaler", "autocast.scaler"},
                                 Pile::kTemporary, N(1), ElementType::kFloat32);
    states_ = this->state_slots(sharding, ranks,
                                state_type(precision, this->job_.training.optimizer.keeps_master));
  }

  GradientPolicy gradient_policy(bool first_micro_batch) const override {
    // LOMO applies a gradient as soon as it appears and drops it.
    if (this->steps_in_backward())
      return very_first_ ? GradientPolicy::kFirstStep : GradientPolicy::kAdd;
    return first_micro_batch ? GradientPolicy::kKeep : GradientPolicy::kAdd;
  }

  bool learns_from_first() const override { return makes_states_in_backward() || scales_; }
  void in_very_first(bool yes) override { very_first_ = yes; }
  bool makes_states_in_backward() const override {
    return this->job_.training.optimizer_in_backward;
  }

  void load(const Stage<N>& stage, Events& events) override {
    load_with_buffers(stage, {}, events);
  }
  void load_with_buffers(const Stage<N>& stage, const Events& buffers, Events& events) override {
    std::vector<const SlotSet*> sets = {&parameters_};
    for (const SlotSet& set : frozen_) sets.push_back(&set);
    this->hold_as_quantised(sets, stage, events);
    events.insert(events.end(), buffers.begin(), buffers.end());
    if (reduces_) {
      if (!this->job_.adapter)
        this->send_from_first_rank(stage, this->job_.training.precision.parameters, events);
      const ElementType type = this->context_.style.gradient;
      const Buckets* known = buckets_.find(stage);
      if (known == nullptr)
        known = &buckets_.add(
            stage, {this->first_bucket(stage, type), this->rebuilt_buckets(stage, type)});
      events.push_back({known->first, 1});
    }
    this->hold(accumulated_, stage, events);
    this->hold(master_, stage, events);
  }
  void states(const Stage<N>& stage, Events& events) override {
    if (!makes_states_in_backward()) this->hold_states(states_, stage, events);
  }
  void left_by_first_step(const Stage<N>& stage, Events& events) const override {
    if (!reduces_) return;
    events.push_back({buckets_.at(stage).first, -1});
    events.push_back({buckets_.at(stage).later, 1});
  }
  void begin_backward(const Stage<N>&, bool, Events& events) override {
    hold_numbers(1 + (very_first_ ? kScale : 0), events);
  }
  void end_backward(const Stage<N>&, int, bool, Events& events) override {
    hold_numbers(-1 - (very_first_ ? kScale : 0), events);
  }
  void left_by_first_backward(const Stage<N>&, Events& events) const override {
    hold_numbers(kScale, events);
  }
  void prepare_step(const Stage<N>& stage, Events& events) override {
    hold_numbers(4, events);   // a factor and what is found, each with a copy on its device
    hold_numbers(-3, events);  // the copy of the second stays
    if (this->clips())
      this->clip_by_foreach(stage, this->largest_tensor(stage, Of::kTrained),
                            this->job_.training.precision.accumulated_gradients.value_or(
                                this->context_.style.gradient),
                            events);
    hold_numbers(numbers_of_step() - 1, events);
  }
  void optimizer(const Stage<N>& stage, Events& events) override {
    if (!this->steps_in_backward()) this->step_temporaries(states_, stage, events);
    hold_numbers(-numbers_of_step(), events);
    if (this->loop_keeps_norm()) this->norm_.hold(-1, events);
  }

 private:
  static constexpr std::int32_t kScale = 2;  // the scale, and how many steps it has been right
  // Numbers of the step: what was found on the device; a fused one is given their sum, and the scale unless clipping has
  // divided by it before.
  std::int32_t numbers_of_step() const {
    if (form_of(this->job_.training) != OptimizerForm::kFused) return 1;
    return this->clips() ? 2 : 3;
  }
  void hold_numbers(std::int32_t count, Events& events) const {
    if (scales_ && count != 0) events.push_back({number_, count});
  }

  struct Buckets {
    SlotId first = -1, later = -1;
  };
  SlotSet parameters_, master_, accumulated_;
  bool reduces_ = false;
  ByStage<N, Buckets> buckets_;
  std::vector<SlotSet> frozen_;
  typename EngineModel<N>::StateSlots states_;
  SlotId number_ = -1;
  bool scales_ = false;      // the loss, against gradients too small for fp16
  bool very_first_ = false;  // the backward that is being written
};

}  // namespace

template <class N>
std::unique_ptr<EngineModel<N>> make_ddp(const EngineContext<N>& context) {
  return std::make_unique<Ddp<N>>(context);
}
template std::unique_ptr<EngineModel<Checked>> make_ddp(const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_ddp(const EngineContext<Traced>&);

}  // namespace steelyard
