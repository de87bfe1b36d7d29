// PyTorch FSDP2 (fully_shard on every layer, then on the model).
//
//   forward, layer i     +gather_i  +parameters_i  -gather_(i-1)  ...compute...  -parameters_i
//   loss's backward      +gather_(last)
//   backward, layer i    +parameters_i  -gather_i  +gather_(i-1)  ...gradients_i...
//                        -parameters_i  -reduce_input_(i+1)  +reduce_input_i  -gradients_i  +shard of gradients
//   before the last micro-batch, under set_requires_gradient_sync(False)
//                        -parameters_i  and gradients_i stay, in the type of their reduction: later ones are added to them
//
// Sources: torch/distributed/fsdp/_fully_shard/{_fsdp_param_group,_fsdp_collectives}.py. Embedding, final norm and head
// belong to the root, which stays gathered from its forward to the end of backward. zero_stage 2 keeps every layer
// gathered as well (reshard_after_forward=False).
#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "engine/fsdp2_copies.h"
#include "engine/waiting_gradients.h"
#include "job/pipeline_shape.h"

namespace steelyard {

namespace {

template <class N>
class Fsdp2 final : public EngineModel<N> {
 public:
  using typename EngineModel<N>::Events;
  using Sharding = typename EngineModel<N>::Sharding;

  explicit Fsdp2(const EngineContext<N>& context) : EngineModel<N>(context) {
    const Precision& precision = this->job_.training.precision;
    const std::int64_t replicas = this->job_.parallel.replicate;
    ranks_ = {this->job_.parallel.data * this->job_.parallel.context / replicas,
              expert_data_ranks(this->job_) / replicas};
    stored_ = precision.master.value_or(precision.parameters);
    const ElementType compute = precision.autocast ? precision.parameters : precision.compute;
    const ElementType reduction = precision.accumulated_gradients.value_or(precision.reduction);
    // Pipeline stages keep their parameters gathered and, unless told, reduce gradients once, after the last micro-batch.
    gathers_once_ = this->job_.parallel.gathers_once;
    keeps_gathered_ = this->job_.parallel.zero_stage == 2 || gathers_once_;
    const bool syncs_each = this->job_.parallel.sync_each_micro_batch;
    reduces_once_ = gathers_once_ && !syncs_each;
    waits_ = !gathers_once_ && !syncs_each && this->job_.training.gradient_accumulation > 1;
    // Beside adapters what is frozen has its own type; unlike what is trained it may have it within one unit.
    const bool adapts = this->job_.adapter.has_value();
    if (adapts) frozen_ = this->frozen_sets(compute, Sharding::kRows, ranks_);
    shards_ = shards_of("parameter shards", "fsdp2.shard", adapts ? Of::kTrained : Of::kAll);
    // A step of a pipeline's runtime gathers on the stream that it runs on.
    const bool in_turn = runs_torch_steps(this->job_);
    if (compute != stored_)
      cast_shards_ =
          padded_set("parameter shards, cast", in_turn ? "fsdp2.unshard-step" : "fsdp2.cast-shard",
                     Pile::kCommunication, compute, true, adapts ? Of::kTrained : Of::kAll);
    gathered_ =
        padded_set("all-gather output", in_turn ? "fsdp2.unshard-step" : "fsdp2.all-gather-output",
                   Pile::kCommunication, compute, false);
    for (const Unit<N>* unit : this->all_units(Of::kAll)) {
      parameters_.slots.push_back(this->book_.slot_of_tensors(
          {unit->name, "gathered parameters", "fsdp2.unsharded-parameters"}, Pile::kParameters,
          padded_whole_elements(*unit, ranks_), compute,
          padded_wholes(*unit, ranks_, compute, this->book_.tensor_sum())));
      copy_out_.slots.push_back(
          table(*unit, numbers_to_copy_out(*unit, ranks_, compute, context.style.multiprocessors)));
    }
    const ElementType of_gradients = context.style.gradient;
    // Other pairs of types are copied tensor by tensor.
    if (of_gradients == reduction ||
        (of_gradients == ElementType::kBFloat16 && reduction == ElementType::kFloat32))
      for (const Unit<N>* unit : this->all_units(Of::kTrained))
        copy_in_.slots.push_back(table(*unit, numbers_to_copy_in(*unit, ranks_, reduction)));
    reduce_input_ = padded_set("reduce-scatter input", "fsdp2.reduce-scatter-input",
                               Pile::kCommunication, reduction, false, Of::kTrained);
    reduce_output_ = padded_set("reduce-scatter output", "fsdp2.reduce-scatter-output",
                                Pile::kCommunication, reduction, true, Of::kTrained);
    gradients_ = padded_set("gradient shards", "fsdp2.gradient-shard", Pile::kGradients, stored_,
                            true, Of::kTrained);
    reduction_is_cast_ = reduction != stored_;
    if (waits_ && reduction != of_gradients) waiting_ = WaitingGradients<N>(context, reduction);
    if (this->offloads_parameters()) {
      arriving_ = arriving_set("parameter shards from the host", compute);
      if (compute != stored_)
        arriving_wide_ = arriving_set("shard from the host before its cast", stored_, true);
    }
    states_ = this->state_slots(Sharding::kRows, ranks_, precision.moments.value_or(stored_));
  }

  GradientPolicy gradient_policy(bool first_micro_batch) const override {
    const bool adds = (reduces_once_ || (waits_ && waiting_.empty())) && !first_micro_batch;
    return adds ? GradientPolicy::kAdd : GradientPolicy::kKeep;
  }
  bool differs_in_last() const override { return waits_; }
  void in_last(bool yes) override { in_last_ = yes; }
  bool keeps_gradients() const override { return false; }
  bool uses_neighbours() const override { return true; }

  void load(const Stage<N>& stage, Events& events) override {
    if (this->offloads_parameters()) return;
    this->hold(shards_, stage, events);
    EngineModel<N>::hold(frozen_, stage, events);
  }
  void states(const Stage<N>& stage, Events& events) override {
    if (this->offloads_parameters()) return;
    this->hold_states(states_, stage, events);
  }

  void begin_forward(const Stage<N>& stage, bool first, Events& events) override {
    if (gathers_once_ && !first) return;  // gathered by the first micro-batch
    root(shards_to_gather(), stage, events, 1);
    root(arriving_wide_, stage, events, 1);
    root(arriving_wide_, stage, events, -1);
    root(gathered_, stage, events, 1);
    root(shards_to_gather(), stage, events, -1);
    root(parameters_, stage, events, 1);
    root(copy_out_, stage, events, 1);
    root(copy_out_, stage, events, -1);
    stage_ = stage;
  }
  void before_forward(const Neighbours& here, bool first, Events& events) override {
    if (gathers_once_ && !first) return;  // gathered by the first micro-batch
    gather(here.unit, events);
    copy_out(here.unit, events);
    free_previous_gather(here.previous, events);  // a local of wait_for_unshard held it
  }
  void after_forward(const Neighbours& here, bool, Events& events) override {
    if (!keeps_gathered_) one(parameters_, here.unit, -1, events);
  }
  void end_forward(const Stage<N>&, int last_unit, bool first, Events& events) override {
    last_unit_ = last_unit;
    if (gathers_once_ && !first) return;  // gathered by the first micro-batch
    free_previous_gather(last_unit, events);
  }
  // The root's hook stands at what its forward returns: the loss itself, where the model computes it.
  void begin_backward(const Stage<N>&, bool, Events& events) override {
    if (prefetches_before_loss() && last_unit_ >= 0) gather(last_unit_, events);
  }
  void before_backward(const Neighbours& here, bool, Events& events) override {
    if (keeps_gathered_) return;
    // Later ones have been prefetched.
    if (here.previous < 0 && !prefetches_before_loss()) gather(here.unit, events);
    copy_out(here.unit, events);
    one(gathered_, here.unit, -1, events);
    // Prefetching follows the order of forward, and goes on where backward ends.
    const int next = here.next >= 0 ? here.next : stage_.untouched_below;
    if (next >= 0) gather(next, events);
  }
  void after_backward(const Neighbours& here, bool first, Events& events) override {
    if (reduces_once_) return;
    const auto kind = static_cast<std::size_t>(here.unit);
    waiting_.add_to(this->context_.gradients_of_kind[kind], first, events);
    if (!gathers_once_) one(parameters_, here.unit, -1, events);
    if (waits_ && !in_last_)
      return waiting_.keep(this->context_.gradients_of_kind[kind], first, events);
    if (here.previous >= 0) one(reduce_input_, here.previous, -1, events);
    copy_in(here.unit, events);
    const SlotId last = last_gradient_of(kind);
    drop_gradients(kind, last, events);
    if (first || waits_ || this->offloads_parameters()) {
      keep_gradients(here.unit, events);
    } else {
      one(reduce_output_, here.unit, 1, events);
      if (reduction_is_cast_) {
        one(gradients_, here.unit, 1, events);
        one(gradients_, here.unit, -1, events);
      }
      one(reduce_output_, here.unit, -1, events);  // added in place to the shards that exist
    }
    if (last >= 0) events.push_back({waiting_.reduced(last), -1});
  }
  void end_backward(const Stage<N>& stage, int last_unit, bool first, Events& events) override {
    if (reduces_once_) return;
    for_each_of_root(stage, [&](const std::vector<SlotId>& gradients) {
      waiting_.add_to(gradients, first, events);
    });
    if (!gathers_once_) root(parameters_, stage, events, -1);
    if (waits_ && !in_last_) {
      for_each_of_root(stage, [&](const std::vector<SlotId>& gradients) {
        waiting_.keep(gradients, first, events);
      });
    } else {
      if (last_unit >= 0) one(reduce_input_, last_unit, -1, events);
      reduce_root(stage, first || waits_, events);
      root(reduce_input_, stage, events, -1);
    }
    if (gathers_once_) return;
    // What backward has not come to is let go at its end.
    if (!keeps_gathered_ && (last_unit >= 0 || prefetches_before_loss()) &&
        stage.untouched_below >= 0)
      one(gathered_, stage.untouched_below, -1, events);
    for (std::size_t kind = 0; kind < stage.layers_of_kind.size(); ++kind)
      if (keeps_gathered_ && this->is_untouched(kind)) all_of(parameters_, stage, kind, -1, events);
  }
  // Pipeline: units are reduced one after the other when the last micro-batch has run, the root first.
  void reduce(const Stage<N>& stage, Events& events) override {
    if (gathers_once_ && !reduces_once_) return let_all_go(stage, events);
    if (!reduces_once_) return;
    const bool has_root = stage.embedding || stage.head;
    root(parameters_, stage, events, -1);
    if (has_root) reduce_root(stage, true, events);
    int previous = -1;
    for (std::size_t kind = 0; kind < stage.layers_of_kind.size(); ++kind)
      for (std::int64_t layer = 0; layer < stage.layers_of_kind[kind]; ++layer) {
        const int unit = static_cast<int>(kind);
        one(parameters_, unit, -1, events);
        if (previous >= 0)
          one(reduce_input_, previous, -1, events);
        else
          root(reduce_input_, stage, events, -1);
        copy_in(unit, events);
        const SlotId last = last_gradient_of(kind);
        drop_gradients(kind, last, events);
        keep_gradients(unit, events);
        if (last >= 0) events.push_back({last, -1});
        previous = unit;
      }
    if (previous >= 0)
      one(reduce_input_, previous, -1, events);
    else
      root(reduce_input_, stage, events, -1);
  }
  void optimizer(const Stage<N>& stage, Events& events) override {
    if (this->offloads_parameters()) return;  // it steps on the host
    if (this->clips()) {
      this->clip_by_foreach(stage, largest_shard(stage), stored_, events);
      this->norm_.numbers(3, events);  // summed over the ranks: its square, the sum, the root
    }
    this->step_temporaries(states_, stage, events);
    if (this->loop_keeps_norm()) this->norm_.hold(-1, events);
    for (std::size_t kind = 0; kind < stage.layers_of_kind.size(); ++kind)
      all_of(gradients_, stage, kind, -1, events);
    root(gradients_, stage, events, -1);
  }
  // get_model_state_dict(full_state_dict=True, cpu_offload=True) gathers one tensor at a time.
  void checkpoint(const Stage<N>& stage, Events& events) override {
    if (this->job_.checkpoint != CheckpointSave::kFullRankZero) return;
    const SlotId largest =
        this->book_.slot({"checkpoint", "largest tensor, gathered", "checkpoint.gathered-tensor"},
                         Pile::kTemporary, N(this->largest_tensor(stage, Of::kAll)), stored_);
    events.push_back({largest, 1});
    events.push_back({largest, -1});
  }

  // CPUOffloadPolicy: shards of parameters and gradients are pinned one by one, the states are not.
  HostMemory host(const Stage<N>& stage) const override {
    HostMemory memory = EngineModel<N>::host(stage);
    if (!this->offloads_parameters()) return memory;
    const bool pinned = this->job_.offload.pinned;
    const auto add = [&](const char* name, Of of, ElementType type) {
      this->for_each_shard(
          stage, of, Sharding::kRows, ranks_, [&](Elements elements, std::int64_t times) {
            memory.add_tensors(name, "fsdp.offload", pinned, bytes_of(elements, type), times);
          });
    };
    add("parameter shards", Of::kAll, stored_);
    add("gradient shards", Of::kTrained, stored_);
    memory.add("optimizer states", "fsdp.offload", HostPlace::kPageable,
               this->state_bytes(states_, stage));
    return memory;
  }

 private:
  template <class Visit>
  void for_each_of_root(const Stage<N>& stage, Visit visit) const {
    if (stage.embedding) visit(this->context_.gradients_of_embedding);
    if (stage.head) visit(this->context_.gradients_of_head);
  }
  // Behind the last micro-batch of a pipeline that has reduced each.
  void let_all_go(const Stage<N>& stage, Events& events) const {
    root(parameters_, stage, events, -1);
    for (std::size_t kind = 0; kind < stage.layers_of_kind.size(); ++kind)
      all_of(parameters_, stage, kind, -1, events);
  }
  // What the gather starts from: what the host has sent, or what has been cast; nothing: the shards themselves.
  const SlotSet& shards_to_gather() const {
    return arriving_.slots.empty() ? cast_shards_ : arriving_;
  }
  // Each parameter comes by itself (FSDPParam.all_gather_inputs), `wide` one after the other.
  SlotSet arriving_set(const char* name, ElementType type, bool wide = false) {
    const auto slot = [&](const char* owner, const std::vector<const Unit<N>*>& units) {
      N elements{}, largest{};
      TensorSum tensors = this->book_.tensor_sum();
      for (const Unit<N>* unit : units) {
        elements = elements + padded_shard_elements(*unit, ranks_);
        if (!wide) tensors = padded_shards(*unit, ranks_, type, std::move(tensors));
        for (const TensorShare<N>& share : unit->tensors)
          if (const N cut = padded_shard(share, ranks_); plain(cut) > plain(largest)) largest = cut;
      }
      if (plain(elements) == 0) return SlotId{-1};
      const SlotName what{owner, name, "fsdp2.from-host"};
      return wide ? this->book_.slot(what, Pile::kCommunication, largest, type)
                  : this->book_.slot_of_tensors(what, Pile::kCommunication, elements, type,
                                                std::move(tensors));
    };
    SlotSet set;
    const std::vector<const Unit<N>*> units = this->all_units(Of::kAll);
    for (const Unit<N>* unit : units) set.slots.push_back(slot(unit->name, {unit}));
    if (this->job_.parallel.pipeline == 1)
      set.root = slot("root", {units.front(), units[units.size() - 2]});
    return set;
  }
  bool prefetches_before_loss() const {
    return !keeps_gathered_ && this->job_.implementation == Implementation::kTransformers;
  }
  SlotSet padded_set(const char* name, const char* rule, Pile pile, ElementType type, bool part,
                     Of of = Of::kAll) {
    SlotSet set;
    // A unit that is not trained has no such buffer.
    const auto slot = [&](const char* owner, const N& elements) {
      return plain(elements) == 0 ? -1
                                  : this->book_.slot({owner, name, rule}, pile, elements, type);
    };
    const auto elements = [&](const Unit<N>& unit) {
      return part ? padded_shard_elements(unit, ranks_) : padded_whole_elements(unit, ranks_);
    };
    const std::vector<const Unit<N>*> units = this->all_units(of);
    for (const Unit<N>* unit : units) set.slots.push_back(slot(unit->name, elements(*unit)));
    // The root is one group: its parameters are gathered and reduced in one piece.
    if (this->job_.parallel.pipeline == 1)
      set.root = slot("root", elements(*units.front()) + elements(*units[units.size() - 2]));
    return set;
  }
  SlotSet shards_of(const char* name, const char* rule, Of of) {
    SlotSet set;
    for (const Unit<N>* unit : this->all_units(of))
      set.slots.push_back(this->book_.slot_of_tensors(
          {unit->name, name, rule}, Pile::kParameters, padded_shard_elements(*unit, ranks_),
          stored_, padded_shards(*unit, ranks_, stored_, this->book_.tensor_sum())));
    return set;
  }
  SlotId table(const Unit<N>& unit, std::int64_t numbers) {
    return this->book_.slot({unit.name, "table of a copy", "fsdp2.copy-table"}, Pile::kTemporary,
                            N(numbers), ElementType::kInt64);
  }
  void one(const SlotSet& set, int kind, std::int32_t count, Events& events) const {
    if (set.slots.empty()) return;
    const Event event = this->event(set, kind, count);
    if (event.slot >= 0) events.push_back(event);
  }
  // The layers of a kind on this stage.
  void all_of(const SlotSet& set, const Stage<N>& stage, std::size_t kind, std::int64_t times,
              Events& events) const {
    if (const std::int64_t layers = stage.layers_of_kind[kind]; layers > 0)
      one(set, static_cast<int>(kind), static_cast<std::int32_t>(times * layers), events);
  }
  void root(const SlotSet& set, const Stage<N>& stage, Events& events, std::int32_t count) const {
    if (set.slots.empty()) return;
    const auto put = [&](SlotId slot) {
      if (slot >= 0) events.push_back({slot, count});
    };
    if (set.root >= 0) return put(set.root);
    if (stage.embedding) put(set.slots.front());
    if (stage.head) put(set.slots[set.slots.size() - 2]);
    if (stage.head && !stage.embedding && this->job_.model->tied_head) put(set.slots.back());
  }
  void gather(int kind, Events& events) const {
    one(shards_to_gather(), kind, 1, events);
    one(arriving_wide_, kind, 1, events);
    one(arriving_wide_, kind, -1, events);
    one(gathered_, kind, 1, events);
    one(shards_to_gather(), kind, -1, events);
  }
  void copy_out(int kind, Events& events) const {
    one(parameters_, kind, 1, events);
    one(copy_out_, kind, 1, events);
    one(copy_out_, kind, -1, events);
  }
  void copy_in(int kind, Events& events) const {
    one(reduce_input_, kind, 1, events);
    one(copy_in_, kind, 1, events);
    one(copy_in_, kind, -1, events);
  }
  // Without a cast what has been reduced is the gradient itself.
  void keep_gradients(int kind, Events& events) const {
    if (reduction_is_cast_) one(reduce_output_, kind, 1, events);
    one(gradients_, kind, 1, events);
    if (reduction_is_cast_) one(reduce_output_, kind, -1, events);
    if (this->offloads_parameters()) one(gradients_, kind, -1, events);  // sent to the host
  }
  void free_previous_gather(int previous, Events& events) const {
    if (previous >= 0)
      one(gathered_, previous, -1, events);
    else
      root(gathered_, stage_, events, -1);
  }
  void reduce_root(const Stage<N>& stage, bool first, Events& events) const {
    root(reduce_input_, stage, events, 1);
    root(copy_in_, stage, events, 1);
    root(copy_in_, stage, events, -1);
    const std::vector<SlotId>& of_embedding = this->context_.gradients_of_embedding;
    const std::vector<SlotId>& of_head = this->context_.gradients_of_head;
    const Architecture& model = *this->job_.model;
    SlotId last = -1;
    if (stage.embedding) last = last_of(model.embedding_parameters, of_embedding);
    if (stage.head) {
      const SlotId here = last_of(model.head_parameters, of_head);
      if (here >= 0) last = here;
      // The copy of a tied weight stands behind the last norm.
      if (!stage.embedding && model.tied_head && !of_head.empty()) last = of_head.back();
    }
    for_each_of_root(stage, [&](const std::vector<SlotId>& gradients) {
      for (SlotId gradient : gradients)
        if (gradient != last) events.push_back({waiting_.reduced(gradient), -1});
    });
    // Without a cast what has been reduced is the gradient itself.
    const bool is_gradient = first && !reduction_is_cast_;
    if (!is_gradient) root(reduce_output_, stage, events, 1);
    if (first || reduction_is_cast_) root(gradients_, stage, events, 1);
    const bool goes = this->offloads_parameters() ? is_gradient || first || reduction_is_cast_
                                                  : !first && reduction_is_cast_;
    if (goes) root(gradients_, stage, events, -1);
    if (!is_gradient) root(reduce_output_, stage, events, -1);
    if (last >= 0) events.push_back({waiting_.reduced(last), -1});
  }
  // The last gradient in the order of the parameters: a name in foreach_reduce holds it until that returns. Equal tensors
  // share a slot; there it goes with the others.
  SlotId last_of(const std::vector<ParameterTensor>& tensors,
                 const std::vector<SlotId>& gradients) const {
    for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
      if (!tensor->gradient) continue;
      if (tensor->copies > 1) return -1;
      for (SlotId gradient : gradients)
        if (this->book_.program.slot_at(gradient).owner == tensor->name) return gradient;
      return -1;
    }
    return -1;
  }
  SlotId last_gradient_of(std::size_t kind) const {
    return last_of(this->job_.model->kinds[kind].parameters,
                   this->context_.gradients_of_kind[kind]);
  }
  void drop_gradients(std::size_t kind, SlotId last, Events& events) const {
    for (SlotId gradient : this->context_.gradients_of_kind[kind])
      if (gradient != last) events.push_back({waiting_.reduced(gradient), -1});
  }
  // Elements of the largest shard of a tensor that is trained.
  std::int64_t largest_shard(const Stage<N>& stage) const {
    const std::vector<std::int64_t>& count = this->counts(stage);
    const std::vector<const Unit<N>*> units = this->all_units(Of::kTrained);
    std::int64_t largest = 0;
    for (std::size_t u = 0; u < units.size(); ++u)
      if (count[u] > 0) largest = std::max(largest, largest_padded_shard(*units[u], ranks_));
    return largest;
  }

  ShardRanks ranks_;
  ElementType stored_ = ElementType::kFloat32;
  bool keeps_gathered_ = false, gathers_once_ = false, reduces_once_ = false,
       reduction_is_cast_ = false;
  bool waits_ = false, in_last_ = false;  // whole gradients, for the last micro-batch of a step
  WaitingGradients<N> waiting_;
  Stage<N> stage_;
  int last_unit_ = -1;  // in forward's order
  SlotSet shards_, cast_shards_, gathered_, parameters_, reduce_input_, reduce_output_, gradients_;
  SlotSet copy_out_, copy_in_;
  SlotSet arriving_, arriving_wide_;  // from the host, where that keeps the shards
  std::vector<SlotSet> frozen_;
  typename EngineModel<N>::StateSlots states_;
};

}  // namespace

template <class N>
std::unique_ptr<EngineModel<N>> make_fsdp2(const EngineContext<N>& context) {
  if (is_unsharded_fsdp2(context.job)) return make_ddp(context);
  return std::make_unique<Fsdp2<N>>(context);
}
template std::unique_ptr<EngineModel<Checked>> make_fsdp2(const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_fsdp2(const EngineContext<Traced>&);

}  // namespace steelyard
