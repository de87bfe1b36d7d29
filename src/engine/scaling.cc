// Aleph Alpha's scaling: bf16 parameters in one flat tensor, gradients in the type of the parameters, fp32 master weights.
//
//   held from step 2 on   16P (one rank) · 2P + 12P/N (ZeRO-1), and 2P of gradients from the first backward to the step
//   step                  + 6 B of each parameter of a bucket: gradients joined, then widened to be all-reduced
//                         + 4P/N gradients of this rank's part · 2P of a bucket where parameters are gathered
//
// Sources: src/scaling/core/optimizer/optimizer.py, allreduce.py and parameter_group.py of Aleph-Alpha/scaling (2024-08).
#include <algorithm>

#include "engine/engine.h"

namespace steelyard {

namespace {

constexpr std::int64_t kBucket = 500'000'000;  // elements: OptimizerConfig.allreduce_bucket_size

template <class N>
class Scaling final : public EngineModel<N> {
 public:
  using typename EngineModel<N>::Events;
  using typename EngineModel<N>::Launches;
  using Sharding = typename EngineModel<N>::Sharding;

  explicit Scaling(const EngineContext<N>& context) : EngineModel<N>(context) {
    const Precision& precision = this->job_.training.precision;
    const std::int64_t data = this->job_.parallel.data;
    sharded_ = this->job_.parallel.zero_stage >= 1;
    const std::int64_t ranks = sharded_ ? data : 1;
    parameters_ = this->flat_set("parameters", "parameters.whole", Pile::kParameters,
                                 precision.parameters, 1);
    narrow_ = precision.parameters != ElementType::kFloat32;
    steps_copies_ = narrow_ || sharded_;
    if (steps_copies_) {
      master_ = this->flat_set("master weights", "scaling.master", Pile::kMasterWeights,
                               ElementType::kFloat32, ranks);
      wide_ = this->flat_set("gradients of this rank's part, fp32", "scaling.wide-gradients",
                             Pile::kTemporary, ElementType::kFloat32, ranks);
    }
    copied_ = sharded_ ? this->flat_set("parameters of this rank's part, copied", "scaling.copied",
                                        Pile::kTemporary, precision.parameters, ranks)
                       : largest_set();
    divided_loss_ =
        this->book_.slot({"loss", "divided by the micro-batches", "scaling.divided-loss"},
                         Pile::kTemporary, N(1), ElementType::kFloat32);
    const std::int64_t talks = this->job_.parallel.pipeline > 1 ? 3 : 2;
    TensorSum numbers = this->book_.tensor_sum();
    numbers.add(Bytes(kAllocationGranularity), 2 * talks, 0);
    numbers_ = this->book_.slot_of_tensors(
        {"pipeline", "numbers of communicators", "scaling.numbers"}, Pile::kCommunication,
        N(2 * talks), ElementType::kInt64, std::move(numbers));
    if (sharded_)
      part_ = this->flat_set("gradients of this rank's part", "autograd.parameter-gradient",
                             Pile::kGradients, precision.parameters, ranks);
    states_ = this->state_slots(sharded_ ? Sharding::kFlat : Sharding::kWhole, ranks,
                                ElementType::kFloat32);
  }

  GradientPolicy gradient_policy(bool first_micro_batch) const override {
    return first_micro_batch ? GradientPolicy::kKeep : GradientPolicy::kAdd;
  }
  bool keeps_gradients() const override { return false; }
  // For each tensor: its norm, its part of a bucket and back, its copy into this rank's part.
  Launches launches(const Stage<N>& stage) const override {
    return {0, 6 * this->trained_tensors(stage)};
  }

  void load(const Stage<N>& stage, Events& events) override {
    this->hold(parameters_, stage, events);
    events.push_back({numbers_, 1});
    if (sharded_) {
      this->hold(copied_, stage, events);
      this->hold(master_, stage, events);
      this->hold(copied_, stage, events, -1);
    } else if (steps_copies_) {
      // One parameter after the other is copied, and the copy widened.
      for (std::size_t unit = 0; unit < stage.units.size(); ++unit) {
        if (stage.units[unit] == 0 || master_.slots[unit] < 0) continue;
        events.push_back({master_.slots[unit], static_cast<std::int32_t>(stage.units[unit])});
        events.push_back({copied_.slots[unit], 1});
        events.push_back({copied_.slots[unit], -1});
      }
    }
  }
  void begin_backward(const Stage<N>& stage, bool, Events& events) override {
    if (divides_loss(stage)) events.push_back({divided_loss_, 1});
  }
  void end_backward(const Stage<N>& stage, int, bool, Events& events) override {
    if (divides_loss(stage)) events.push_back({divided_loss_, -1});
  }
  void states(const Stage<N>& stage, Events& events) override {
    this->hold_states(states_, stage, events);
  }
  void prepare_step(const Stage<N>& stage, Events& events) override {
    if (steps_copies_ && !sharded_) widen(stage, events);
    if (this->job_.parallel.data > 1) reduce_buckets(stage, events);
    if (sharded_) widen(stage, events);
  }
  void optimizer(const Stage<N>& stage, Events& events) override {
    this->step_temporaries(states_, stage, events);
    this->hold(wide_, stage, events, -1);
    if (!steps_copies_) this->free_gradients(stage, events);
    if (sharded_ && this->job_.parallel.data > 1) gather(stage, events);
  }

 private:
  bool divides_loss(const Stage<N>& stage) const {
    return stage.head && this->job_.training.gradient_accumulation > 1;
  }
  SlotSet largest_set() {
    SlotSet set;
    for (const Unit<N>* unit : this->all_units())
      set.slots.push_back(this->book_.slot(
          {unit->name, "largest parameter, copied", "scaling.copied"}, Pile::kTemporary,
          N(unit->largest()), this->job_.training.precision.parameters));
    return set;
  }
  // Gradients of this rank's part become fp32; all others go before.
  void widen(const Stage<N>& stage, Events& events) {
    if (sharded_) {
      this->hold(part_, stage, events);
      this->free_gradients(stage, events);
    }
    this->hold(wide_, stage, events);
    if (sharded_)
      this->hold(part_, stage, events, -1);
    else
      this->free_gradients(stage, events);
  }
  void reduce_buckets(const Stage<N>& stage, Events& events) {
    const std::int64_t largest =
        this->largest_bucket(stage, kBucket, EngineModel<N>::InBuckets::kNormsFirst);
    const bool narrow = sharded_ && narrow_;
    const SlotId joined =
        this->book_.slot({"optimizer", "gradients of a bucket, joined", "scaling.reduced-bucket"},
                         Pile::kCommunication, N(largest),
                         narrow ? this->job_.training.precision.parameters : ElementType::kFloat32);
    events.push_back({joined, 1});
    if (narrow) {
      const SlotId wide =
          this->book_.slot({"optimizer", "gradients of a bucket, fp32", "scaling.reduced-bucket"},
                           Pile::kCommunication, N(largest), ElementType::kFloat32);
      events.push_back({wide, 1});
      events.push_back({wide, -1});
    }
    events.push_back({joined, -1});
  }
  // As many pieces as there are buckets; NCCL gathers a piece of each rank into one tensor before it copies.
  void gather(const Stage<N>& stage, Events& events) {
    std::int64_t elements = 0;
    this->for_each_shard(
        stage, Of::kAll, Sharding::kWhole, 1,
        [&](Elements of_one, std::int64_t times) { elements += of_one.value().value() * times; });
    const std::int64_t pieces = std::max<std::int64_t>(1, elements / kBucket);
    const SlotId gathered =
        this->book_.slot({"optimizer", "gathered parameters, joined", "scaling.gathered-piece"},
                         Pile::kCommunication, N((elements + pieces - 1) / pieces),
                         this->job_.training.precision.parameters);
    events.push_back({gathered, 1});
    events.push_back({gathered, -1});
  }

  bool sharded_ = false, narrow_ = false;
  bool steps_copies_ = false;  // fp32 copies of this rank's part; else the parameters as they are
  SlotSet parameters_, master_, wide_, part_, copied_;
  SlotId numbers_ = -1, divided_loss_ = -1;
  typename EngineModel<N>::StateSlots states_;
};

}  // namespace

template <class N>
std::unique_ptr<EngineModel<N>> make_scaling(const EngineContext<N>& context) {
  return std::make_unique<Scaling<N>>(context);
}
template std::unique_ptr<EngineModel<Checked>> make_scaling(const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_scaling(const EngineContext<Traced>&);

}  // namespace steelyard
