// One device, and PyTorch DistributedDataParallel; FSDP2, where it has one data rank and so nothing to shard.
//
//   held: parameters · (fp32 master) · moments · with more than one rank: buckets as large as all gradients
//   gradients appear layer by layer in the first backward, live beside the buckets (gradient_as_bucket_view is false
//   by default) until zero_grad
//   zero_stage 1: ZeroRedundancyOptimizer gives each rank whole tensors; the largest share is counted
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
    states_ = this->state_slots(sharding, ranks,
                                state_type(precision, this->job_.training.optimizer.keeps_master));
  }

  GradientPolicy gradient_policy(bool first_micro_batch) const override {
    // LOMO applies a gradient as soon as it appears and drops it.
    if (this->steps_in_backward())
      return makes_states_ ? GradientPolicy::kFirstStep : GradientPolicy::kAdd;
    return first_micro_batch ? GradientPolicy::kKeep : GradientPolicy::kAdd;
  }

  bool learns_from_first() const override { return makes_states_in_backward(); }
  void in_very_first(bool yes) override { makes_states_ = yes; }
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
  void prepare_step(const Stage<N>& stage, Events& events) override {
    if (this->clips())
      this->clip_by_foreach(stage, this->largest_tensor(stage, Of::kTrained),
                            this->job_.training.precision.accumulated_gradients.value_or(
                                this->context_.style.gradient),
                            events);
  }
  void optimizer(const Stage<N>& stage, Events& events) override {
    if (!this->steps_in_backward()) this->step_temporaries(states_, stage, events);
    if (this->loop_keeps_norm()) this->norm_.hold(-1, events);
  }

 private:
  struct Buckets {
    SlotId first = -1, later = -1;
  };
  SlotSet parameters_, master_, accumulated_;
  bool reduces_ = false;
  ByStage<N, Buckets> buckets_;
  std::vector<SlotSet> frozen_;
  typename EngineModel<N>::StateSlots states_;
  bool makes_states_ = false;  // in the backward that is being written
};

}  // namespace

template <class N>
std::unique_ptr<EngineModel<N>> make_ddp(const EngineContext<N>& context) {
  return std::make_unique<Ddp<N>>(context);
}
template std::unique_ptr<EngineModel<Checked>> make_ddp(const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_ddp(const EngineContext<Traced>&);

}  // namespace steelyard
