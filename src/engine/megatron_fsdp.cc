// Megatron-FSDP: parameters, gradients and what is stepped lie in buckets, each padded so that its ranks have equal shards.
//
//   optim (1)                 2P + 4P gradients + 4P/N + 8P/N
//   optim_grads (2)           2P + 4P/N + 4P/N + 8P/N;  whole gradients, 4 B each, stand until their reduction is waited for
//   optim_grads_params (3)    2P/N + 4P/N + 4P/N + 8P/N;  a layer is gathered ahead of its turn and let go behind it, what
//                             stands outside of layers stays whole until the step
//   forward   gathers ahead until half a billion elements are under way
//   backward  reductions are waited for when more than a billion elements are in the queue, and when backward is done
//   step      then the first layers of the next forward are gathered at once
//
// Sources: megatron/core/distributed/fsdp/src/megatron_fsdp/{megatron_fsdp,param_and_grad_buffer}.py (megatron-core 0.16.1).
#include <algorithm>
#include <utility>

#include "engine/by_stage.h"
#include "engine/megatron_stage_buckets.h"

namespace steelyard {

namespace {

// megatron_fsdp.py: two layers are what is communicated at once, and a billion elements at least.
constexpr std::int64_t kUnitAtLeast = 1'000'000'000;
std::int64_t whole_units(std::int64_t total, std::int64_t each) {
  return (total + each - 1) / each;
}

template <class N>
class MegatronFsdp final : public MegatronStageBuckets<N> {
 public:
  using typename EngineModel<N>::Events;
  using Sharding = typename EngineModel<N>::Sharding;

  explicit MegatronFsdp(const EngineContext<N>& context) : MegatronStageBuckets<N>(context) {
    const Precision& precision = this->job_.training.precision;
    parameter_ = precision.parameters;
    const ElementType gradient = this->job_.training.gradients.value_or(
        parameter_ == ElementType::kBFloat16 ? ElementType::kFloat32 : precision.gradients);
    const ElementType master = precision.master.value_or(parameter_);
    weights_ = add("parameters", "megatron-fsdp.weights", Pile::kParameters, parameter_,
                   divides_parameters_);
    if (precision.master)
      master_ = add("main parameters", "megatron-fsdp.main-parameters", Pile::kMasterWeights,
                    master, divides_states_);
    gradients_ = add("gradient buffer", "megatron-fsdp.gradients", Pile::kGradients, gradient,
                     divides_gradients_);
    // One tensor of all buckets (buffer_all_in_one).
    this->book_.join(buffers_[static_cast<std::size_t>(gradients_)].set.slots);
    if (bits_of(gradient) < bits_of(master))
      main_gradients_ = add("gradients, as wide as what is stepped", "megatron-fsdp.main-gradients",
                            Pile::kGradients, master, divides_states_);
    if (divides_parameters_)
      gathered_ = add("gathered parameters", "megatron-fsdp.gathered", Pile::kParameters,
                      parameter_, false);
    if (divides_gradients_) {
      pending_ = add("whole gradients until they are reduced", "megatron-fsdp.pending",
                     Pile::kGradients, gradient, false);
      reduced_ =
          add("reduced shard", "megatron-fsdp.reduced", Pile::kCommunication, gradient, true);
    }
    make_states(state_type(precision, true));
  }

  // Into the bucket: by a hook, or where kernels write it there, without a tensor of its own.
  GradientPolicy gradient_policy(bool) const override {
    return this->context_.style.local_layers ? GradientPolicy::kAdd : GradientPolicy::kFused;
  }
  bool keeps_gradients() const override { return false; }
  bool uses_neighbours() const override { return true; }

  void load(const Stage<N>& stage, Events& events) override {
    const Plan* known = plans_.find(stage);
    here_ = known ? *known : plans_.add(stage, make_plan(stage));
    if (moves_by_unit(stage)) {
      move_by_unit(stage, events);
    } else {
      if (here_.moving >= 0) events.push_back({here_.moving, 1});
      hold_all(weights_, stage, 1, events);
      hold_all(master_, stage, 1, events);
      if (here_.moving >= 0) events.push_back({here_.moving, -1});
    }
    hold_all(gradients_, stage, 1, events);
    this->empty_cache(events);  // the last line of _init_each_parameter_group_buffers
    this->hold_scale(events);
    this->hold_gathered_tokens(stage, events);
  }
  void states(const Stage<N>& stage, Events& events) override {
    if (moments_.empty()) return this->hold_states(states_, stage, events);
    for (const int moment : moments_) hold_all(moment, stage, 1, events);
  }
  // What the step gathers for the forward behind it, the very first one gathers itself.
  void held_from_first_forward(const Stage<N>& stage, Events& events) const override {
    MegatronLoop<N>::held_from_first_forward(stage, events);
    gather_for_next(stage, events);
    hold_all(main_gradients_, stage, 1, events);
    hold_turns(gathered_, stage, events);
  }
  void left_by_first_backward(const Stage<N>& stage, Events& events) const override {
    hold_turns(pending_, stage, events);
  }
  void begin_forward(const Stage<N>& stage, bool first, Events& events) override {
    MegatronLoop<N>::begin_forward(stage, first, events);
    here_ = plans_.at(stage);
    if (first) hold_all(main_gradients_, stage, -1, events);  // zero_grad
    if (!first) hold_layers(here_.ahead_of_step, 1, events);
  }
  void before_forward(const Neighbours& here, bool, Events& events) override {
    if (here.previous >= 0) return;
    // What the step's end has gathered stays.
    for (std::size_t unit = 0; unit < here_.at_once.size(); ++unit)
      push(gathered_, unit, here_.at_once[unit] - here_.ahead_of_step[unit], events);
  }
  void after_forward(const Neighbours& here, bool, Events& events) override {
    let_go(here, events);
  }
  void before_backward(const Neighbours& here, bool, Events& events) override {
    if (here.previous < 0) {
      hold_layers(here_.at_once, 1, events);
      if (here_.head > 0) fill(here_.head, this->context_.gradients_of_head, events);
      if (here_.queue >= 0) events.push_back({here_.queue, 1});
    }
    if (here_.queue < 0 && unit_of(here) != here_.in_turns)
      push(pending_, unit_of(here), 1, events);
    // A small embedding shares a bucket with what stands beside it: the head, or the lowest layer.
    if (here_.joined && (divides_parameters_ ? here.previous < 0 : here.next < 0))
      push(pending_, 0, 1, events);
  }
  void after_backward(const Neighbours& here, bool, Events& events) override {
    push(reduced_, unit_of(here), 1, events);
    push(reduced_, unit_of(here), -1, events);
    let_go(here, events);
  }
  void end_backward(const Stage<N>& stage, int last_unit, bool first, Events& events) override {
    if (divides_gradients_ && last_unit >= 0) empty_queue(stage, events);
    MegatronLoop<N>::end_backward(stage, last_unit, first, events);
  }
  // finish_grad_sync: nothing is gathered any more.
  void reduce(const Stage<N>& stage, Events& events) override {
    MegatronLoop<N>::reduce(stage, events);
    hold_all(main_gradients_, stage, 1, events);
    hold_outside(gathered_, stage, -1, events);
  }
  void optimizer(const Stage<N>& stage, Events& events) override {
    if (this->clips()) {
      this->norm_.in_one_pass(events);
      this->norm_.hold(-1, events);  // the host has it, and computes the factor (clip_grads.py)
    }
    if (roots_ >= 0) {
      hold_all(roots_, stage, 1, events);
      hold_all(roots_, stage, -1, events);
    } else {
      this->step_temporaries(states_, stage, events);
    }
    gather_for_next(stage, events);
  }

 private:
  using Buckets = MegatronStageBuckets<N>;
  using Buckets::bucket_size, Buckets::buckets_of, Buckets::ranks_;
  using Buckets::divided_over, Buckets::is_layer, Buckets::padding_of, Buckets::whole_layer;
  using Buckets::divides_gradients_, Buckets::divides_parameters_, Buckets::divides_states_;

  // One pile in buckets: of each layer, and of what stands outside of layers; padding beyond that is the stage's.
  struct Buffer {
    SlotName name;
    Pile pile = Pile::kParameters;
    ElementType type = ElementType::kFloat32;
    bool divided = false;
    SlotSet set;
  };
  // What is gathered and what waits at once; layers by kind, in the order of units.
  struct Plan {
    std::vector<std::int64_t> at_once;        // layers that are whole while one runs
    std::vector<std::int64_t> ahead_of_step;  // those that the step's end gathers
    bool keeps_all = true;                    // all layers fit into what is gathered ahead
    bool joined = false;                      // the embedding has no bucket of its own
    SlotId queue = -1;                        // gradients in the queue; -1: all of them fit
    SlotId moving = -1;
    std::size_t in_turns = 0;     // the unit whose layers two buffers take turns for; 0: none
    std::size_t head = 0;         // the unit; 0: not here
    std::vector<SlotId> padding;  // by buffer
  };

  int add(const char* name, const char* rule, Pile pile, ElementType type, bool divided) {
    Buffer buffer{{"", name, rule}, pile, type, divided, {}};
    for (const Unit<N>* unit : this->all_units(Of::kAll)) {
      N elements{};
      for (const bool experts : {false, true}) {
        N part = experts ? unit->expert_elements : unit->elements - unit->expert_elements;
        if (plain(part) == 0) continue;
        if (const std::int64_t padding = padding_of(*unit, experts); padding > 0)
          part = part + Workbook<N>::counted("padding", padding);
        elements = elements + (divided ? divided_over(part, experts) : part);
      }
      buffer.set.slots.push_back(this->book_.slot({unit->name, name, rule}, pile, elements, type));
    }
    buffers_.push_back(std::move(buffer));
    return static_cast<int>(buffers_.size()) - 1;
  }
  // Of the first rank's shards: all that lies there is real.
  void make_states(ElementType stepped) {
    const Optimizer& optimizer = this->job_.training.optimizer;
    states_ =
        this->state_slots(divides_states_ ? Sharding::kFlat : Sharding::kWhole, ranks_, stepped);
    const bool in_buckets =
        !optimizer.slots.empty() && !optimizer.paged &&
        std::all_of(optimizer.slots.begin(), optimizer.slots.end(), [](const OptimizerSlot& slot) {
          return slot.extent == SlotExtent::kParameter && slot.applies_to == SlotAppliesTo::kAll;
        });
    if (!in_buckets) return;
    for (const OptimizerSlot& slot : optimizer.slots)
      moments_.push_back(add(slot.name.c_str(), "optimizer.state", Pile::kOptimizerMoments,
                             slot.type.value_or(stepped), divides_states_));
    if (!states_.second_moment.slots.empty())
      roots_ = add("square roots of the second moment", "optimizer.foreach-list", Pile::kTemporary,
                   optimizer.slots[1].type.value_or(stepped), divides_states_);
  }

  void hold_all(int buffer, const Stage<N>& stage, std::int32_t times, Events& events) const {
    if (buffer < 0) return;
    this->hold(buffers_[static_cast<std::size_t>(buffer)].set, stage, events, times);
    hold_padding(buffer, stage, times, events);
  }
  void hold_padding(int buffer, const Stage<N>& stage, std::int32_t times, Events& events) const {
    const SlotId padding = plans_.at(stage).padding[static_cast<std::size_t>(buffer)];
    if (padding >= 0) events.push_back({padding, times});
  }
  void hold_outside(int buffer, const Stage<N>& stage, std::int32_t times, Events& events) const {
    if (buffer < 0) return;
    const std::vector<std::int64_t>& count = this->counts(stage);
    for (std::size_t unit = 0; unit < count.size(); ++unit)
      if (!is_layer(stage, unit)) push(buffer, unit, times * count[unit], events);
    hold_padding(buffer, stage, times, events);
  }
  void push(int buffer, std::size_t unit, std::int64_t count, Events& events) const {
    if (buffer >= 0 && count != 0)
      events.push_back({buffers_[static_cast<std::size_t>(buffer)].set.slots[unit],
                        static_cast<std::int32_t>(count)});
  }
  static std::size_t unit_of(const Neighbours& here) {
    return static_cast<std::size_t>(here.unit + 1);
  }
  void hold_layers(const std::vector<std::int64_t>& layers, std::int64_t times,
                   Events& events) const {
    for (std::size_t unit = 0; unit < layers.size(); ++unit)
      push(gathered_, unit, times * layers[unit], events);
  }
  void gather_for_next(const Stage<N>& stage, Events& events) const {
    hold_outside(gathered_, stage, 1, events);
    hold_layers(plans_.at(stage).ahead_of_step, 1, events);
  }
  void let_go(const Neighbours& here, Events& events) const {
    if (unit_of(here) == here_.in_turns) return;
    if (here_.keeps_all)
      push(gathered_, unit_of(here), -1, events);
    else if (here.next < 0)
      hold_layers(here_.at_once, -1, events);
  }
  // fsdp_double_buffer: made by the first two layers, and never let go.
  void hold_turns(int buffer, const Stage<N>& stage, Events& events) const {
    const std::size_t unit = plans_.at(stage).in_turns;
    if (unit > 0) push(buffer, unit, std::min<std::int64_t>(2, this->counts(stage)[unit]), events);
  }
  // The gradients of what stands outside of layers are there while their bucket takes them in.
  void fill(std::size_t unit, const std::vector<SlotId>& gradients, Events& events) const {
    push(pending_, unit, 1, events);
    if (!divides_gradients_) return;
    for (const std::int32_t times : {1, -1})
      for (const SlotId gradient : gradients) events.push_back({gradient, times});
  }
  void empty_queue(const Stage<N>& stage, Events& events) const {
    const std::vector<std::int64_t>& count = this->counts(stage);
    hold_padding(pending_, stage, 1, events);
    if (stage.embedding) {
      if (!here_.joined) fill(0, this->context_.gradients_of_embedding, events);
      push(reduced_, 0, 1, events);
      push(reduced_, 0, -1, events);
    }
    for (std::size_t unit = 0; unit < count.size(); ++unit)
      if (!is_layer(stage, unit) || (here_.queue < 0 && unit != here_.in_turns))
        push(pending_, unit, -count[unit], events);
    hold_padding(pending_, stage, -1, events);
    if (here_.queue >= 0) events.push_back({here_.queue, -1});
  }

  Plan make_plan(const Stage<N>& stage) {
    const std::vector<const Unit<N>*> units = this->all_units(Of::kAll);
    const std::vector<std::int64_t>& count = this->counts(stage);
    Plan plan;
    plan.head = stage.head ? stage.layers_of_kind.size() + 1 : 0;
    plan.at_once.assign(units.size(), 0);
    plan.ahead_of_step = plan.at_once;
    const BucketFiller filler = buckets_of(stage);
    std::int64_t layers = 0, of_layers = 0, largest = 0, outside = 0, of_units = 0;
    std::size_t kind = 0;
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      const std::int64_t of_unit = padding_of(*units[unit], false) + padding_of(*units[unit], true);
      const std::int64_t padded = plain(units[unit]->elements) + of_unit;
      of_units += count[unit] * of_unit;
      if (!is_layer(stage, unit)) {
        if (unit > 0) outside += count[unit] * padded;
        continue;
      }
      layers += count[unit];
      of_layers += count[unit] * padded;
      if (count[unit] > 0 && padded > largest) {
        largest = padded;
        kind = unit;
      }
    }
    add_padding(filler.padding() - of_units, plan);
    plan.joined = stage.embedding && divides_gradients_ &&
                  plain(units[0]->elements) < bucket_size() && layers > 0;
    plan.moving = moving(stage, filler);
    if (layers == 0) return plan;
    const std::int64_t unit_size = std::max(kUnitAtLeast, of_layers / layers * 2);
    if (divides_parameters_ && this->job_.buckets.double_buffer) {
      plan.in_turns = kind;
      return plan;
    }
    if (divides_parameters_)
      count_gathered(stage, layers, largest, unit_size / 2, outside, kind, plan);
    // In the queue: what has not gone when its capacity is passed, one more, and the one that is filled.
    const std::int64_t at_most = unit_size / largest + 2;
    if (divides_gradients_ && layers > at_most) {
      const Buffer& pending = buffers_[static_cast<std::size_t>(pending_)];
      plan.queue =
          this->book_.slot({"gradients", "whole gradients in the queue", pending.name.rule},
                           pending.pile, N(at_most) * whole_layer(*units[kind]), pending.type);
    }
    return plan;
  }
  void count_gathered(const Stage<N>& stage, std::int64_t layers, std::int64_t largest,
                      std::int64_t ahead, std::int64_t outside, std::size_t kind,
                      Plan& plan) const {
    const std::int64_t at_once = 1 + whole_units(ahead, largest);
    plan.keeps_all = layers <= at_once;
    if (plan.keeps_all)
      for (std::size_t unit = 1; unit <= stage.layers_of_kind.size(); ++unit)
        plan.at_once[unit] = this->counts(stage)[unit];
    else
      plan.at_once[kind] = at_once;
    // The embedding is gathered, then what follows it: the head first.
    const std::int64_t left = stage.embedding ? std::max<std::int64_t>(0, ahead - outside) : ahead;
    const std::int64_t after_step = whole_units(left, largest) + (stage.embedding ? 0 : 1);
    if (after_step >= std::min(layers, at_once))
      plan.ahead_of_step = plan.at_once;
    else
      plan.ahead_of_step[kind] = after_step;
  }
  // Of what is no layer, or of all where buckets are not of layers.
  void add_padding(std::int64_t elements, Plan& plan) {
    for (const Buffer& buffer : buffers_) {
      plan.padding.push_back(-1);
      if (elements <= 0) continue;
      const N padding = Workbook<N>::counted("padding", elements);
      plan.padding.back() =
          this->book_.slot({"buckets", buffer.name.name, buffer.name.rule}, buffer.pile,
                           buffer.divided ? divided_over(padding, false) : padding, buffer.type);
    }
  }
  // Every unit has a bucket of its own, and the model stands before.
  bool moves_by_unit(const Stage<N>& stage) const {
    if (!divides_parameters_ || this->job_.parallel.meta_device) return false;
    const std::vector<const Unit<N>*> units = this->all_units(Of::kAll);
    const std::vector<std::int64_t>& count = this->counts(stage);
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      if (count[unit] == 0) continue;
      if (plain(units[unit]->expert_elements) > 0) return false;
      if (!is_layer(stage, unit) && plain(units[unit]->elements) < bucket_size()) return false;
    }
    return true;
  }
  // One after the other, what stands outside of layers first: this rank's part, the whole bucket, the main parameters; then
  // the unit's own tensors and the bucket go.
  void move_by_unit(const Stage<N>& stage, Events& events) {
    const std::vector<const Unit<N>*> units = this->all_units(Of::kAll);
    const std::vector<std::int64_t>& count = this->counts(stage);
    if (own_.slots.empty()) {
      own_ = this->whole_set("parameters that move into buckets", "megatron-fsdp.buckets",
                             Pile::kTemporary, parameter_);
      for (const Unit<N>* unit : units)
        first_buckets_.slots.push_back(
            this->book_.slot({unit->name, "first bucket", "megatron-fsdp.buckets"},
                             Pile::kTemporary, whole_layer(*unit), parameter_));
    }
    this->hold(own_, stage, events);
    for (const bool layers : {false, true})
      for (std::size_t unit = 0; unit < units.size(); ++unit)
        for (std::int64_t i = 0; i < count[unit] && is_layer(stage, unit) == layers; ++i) {
          push(weights_, unit, 1, events);
          events.push_back({first_buckets_.slots[unit], 1});
          push(master_, unit, 1, events);
          events.push_back({own_.slots[unit], -1});
          events.push_back({first_buckets_.slots[unit], -1});
        }
    hold_padding(weights_, stage, 1, events);
    if (master_ >= 0) hold_padding(master_, stage, 1, events);
  }
  // The model's tensors, as far as they stand when most is there, and what is gathered beside them.
  SlotId moving(const Stage<N>& stage, const BucketFiller& filler) {
    const auto bytes = [](ElementType type) { return bits_of(type) / 8; };
    MoveIntoBuckets move;
    move.parameter_bytes = bytes(parameter_);
    if (master_ >= 0) move.main_bytes = bytes(buffers_[static_cast<std::size_t>(master_)].type);
    move.divides_parameters = divides_parameters_;
    move.divides_main = divides_states_;
    move.whole_model = !this->job_.parallel.meta_device;
    const std::int64_t most = most_beside_buckets(filler.buckets, move);
    if (most == 0) return -1;
    TensorSum pieces = this->book_.tensor_sum();
    const Bytes all = allocated_size(Bytes(most));
    const std::vector<const Unit<N>*> units = this->all_units(Of::kAll);
    for (std::size_t unit = 0; unit < units.size() && move.whole_model; ++unit)
      for (std::int64_t times = 0; times < this->counts(stage)[unit]; ++times)
        for (const TensorShare<N>& share : units[unit]->tensors) {
          const Bytes piece =
              allocated_size(bytes_of(Elements(Checked(plain(share.elements))), parameter_));
          if (pieces.bytes() + piece * Checked(share.copies) <= all)
            pieces.add(piece, share.copies, 0);
        }
    if (pieces.bytes() < all) pieces.add(all - pieces.bytes(), 1, 0);
    return this->book_.slot_of_tensors(
        {"model", "parameters that move into buckets", "megatron-fsdp.buckets"}, Pile::kTemporary,
        Workbook<N>::counted("moving", most / move.parameter_bytes), parameter_, std::move(pieces));
  }

  ElementType parameter_ = ElementType::kBFloat16;
  std::vector<Buffer> buffers_;
  SlotSet own_, first_buckets_;
  int weights_ = -1, master_ = -1, gradients_ = -1, main_gradients_ = -1, gathered_ = -1,
      pending_ = -1, reduced_ = -1, roots_ = -1;
  std::vector<int> moments_;
  typename EngineModel<N>::StateSlots states_;
  Plan here_;
  ByStage<N, Plan> plans_;
};

}  // namespace

template <class N>
std::unique_ptr<EngineModel<N>> make_megatron_fsdp(const EngineContext<N>& context) {
  return std::make_unique<MegatronFsdp<N>>(context);
}
template std::unique_ptr<EngineModel<Checked>> make_megatron_fsdp(const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_megatron_fsdp(const EngineContext<Traced>&);

}  // namespace steelyard
