// Aleph Alpha's scaling: bf16 parameters, gradients in the type of the parameters, fp32 master weights.
//
//   held from step 2 on   16P (one rank) · 2P + 12P/N (ZeRO-1), and 2P of gradients from the first backward to the step
//   step                  + 6 B of each parameter of a bucket: gradients joined, then widened to be all-reduced
//                         + 4P/N gradients of this rank's part · 2P of a bucket where parameters are gathered
//
// With ZeRO all parameters are one tensor, made of those that the model came with, which wait on the host meanwhile; so are
// this rank's parts of it, its gradients and its states. Without it each is copied and widened on its own, and so are the
// gradients, unit by unit here.
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
    narrow_ = precision.parameters != ElementType::kFloat32;
    steps_copies_ = narrow_ || sharded_;
    if (sharded_)
      made_ = this->whole_set("parameters, as the model makes them", "parameters.whole",
                              Pile::kParameters, precision.parameters);
    parameters_ =
        part_of_all("parameters", "parameters.whole", Pile::kParameters, precision.parameters, 1);
    if (steps_copies_) {
      master_ = part_of_all("master weights", "scaling.master", Pile::kMasterWeights,
                            ElementType::kFloat32, ranks);
      wide_ = part_of_all("gradients of this rank's part, fp32", "scaling.wide-gradients",
                          Pile::kTemporary, ElementType::kFloat32, ranks);
    }
    copied_ = sharded_ ? part_of_all("parameters of this rank's part, copied", "scaling.copied",
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
    states_ = this->state_slots(sharded_ ? Sharding::kFlat : Sharding::kWhole, ranks,
                                ElementType::kFloat32);
    if (!sharded_) return;
    for (const SlotSet& set : states_.sets) this->book_.join(set.slots);
    this->book_.join(states_.second_moment.slots);
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
    events.push_back({numbers_, 1});
    if (sharded_) {
      this->hold(made_, stage, events);
      this->hold(made_, stage, events, -1);
    }
    this->hold(parameters_, stage, events);
    if (sharded_) {
      this->hold(copied_, stage, events);
      this->hold(master_, stage, events);
      this->hold(copied_, stage, events, -1);
    } else if (steps_copies_) {
      // One parameter after the other is copied, and the copy widened.
      for (std::size_t unit = 0; unit < stage.units.size(); ++unit) {
        if (stage.units[unit] == 0 || master_.slots[unit] < 0) continue;
        const auto others = static_cast<std::int32_t>(stage.units[unit] - 1);
        if (others > 0) events.push_back({master_.slots[unit], others});
        events.push_back({copied_.slots[unit], 1});
        events.push_back({master_.slots[unit], 1});
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
    if (!sharded_) return this->hold_states(states_, stage, events);
    for (const SlotSet& set : states_.sets) this->hold(set, stage, events);
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
  // One tensor with ZeRO, else one for each parameter.
  SlotSet part_of_all(const char* name, const char* rule, Pile pile, ElementType type,
                      std::int64_t ranks) {
    if (!sharded_) return this->whole_set(name, rule, pile, type);
    SlotSet set = this->flat_set(name, rule, pile, type, ranks);
    this->book_.join(set.slots);
    return set;
  }
  SlotSet largest_set() {
    SlotSet set;
    for (const Unit<N>* unit : this->all_units())
      set.slots.push_back(this->book_.slot(
          {unit->name, "largest parameter, copied", "scaling.copied"}, Pile::kTemporary,
          N(unit->largest()), this->job_.training.precision.parameters));
    return set;
  }
  // Gradients become fp32, with ZeRO those of this rank's part: the others go before (parameter_group.py, step_prequel).
  void widen(const Stage<N>& stage, Events& events) {
    if (!sharded_) {
      for (std::size_t unit = 0; unit < stage.units.size(); ++unit) {
        if (wide_.slots[unit] < 0) continue;
        Events gradients;
        this->free_gradients_of(unit, stage, gradients);
        for (std::int64_t one = 0; one < stage.units[unit]; ++one) {
          events.push_back({wide_.slots[unit], 1});
          for (const Event& gradient : gradients) events.push_back({gradient.slot, -1});
        }
      }
      return;
    }
    Events gradients;
    this->free_gradients(stage, gradients);
    const Events owned = owned_by_first_rank(gradients);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (const std::int32_t others = gradients[i].count - owned[i].count; others != 0)
        events.push_back({gradients[i].slot, others});
    this->hold(wide_, stage, events);
    for (const Event& gradient : owned)
      if (gradient.count != 0) events.push_back(gradient);
  }
  // Of all that go, as many as the first rank's part of the flat tensor reaches into.
  Events owned_by_first_rank(const Events& gradients) const {
    const auto bytes = [&](const Event& event) {
      return this->book_.program.slot_at(event.slot).bytes.value().value();
    };
    std::int64_t left = 0;
    for (const Event& event : gradients) left -= event.count * bytes(event);
    left = (left + this->job_.parallel.data - 1) / this->job_.parallel.data;
    Events owned;
    for (const Event& event : gradients) {
      const std::int64_t reached =
          std::clamp<std::int64_t>((left + bytes(event) - 1) / bytes(event), 0, -event.count);
      owned.push_back({event.slot, static_cast<std::int32_t>(-reached)});
      left -= reached * bytes(event);
    }
    return owned;
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
  SlotSet made_, parameters_, master_, wide_, copied_;
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
