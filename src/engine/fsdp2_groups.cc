#include "engine/fsdp2_groups.h"

#include <algorithm>
#include <utility>

#include "engine/fsdp2_copies.h"
#include "job/pipeline_shape.h"

namespace steelyard {

namespace {

ElementType stored_type(const Precision& precision) {
  return precision.master.value_or(precision.parameters);
}

// Of all units.
template <class N>
std::vector<const Unit<N>*> ends_of(const std::vector<const Unit<N>*>& units) {
  return {units.front(), units[units.size() - 2]};
}

}  // namespace

template <class N>
Fsdp2Groups<N>::Fsdp2Groups(const EngineContext<N>& context)
    : EngineModel<N>(context),
      ranks_{this->job_.parallel.data * this->job_.parallel.context / this->job_.parallel.replicate,
             expert_data_ranks(this->job_) / this->job_.parallel.replicate},
      stored_(stored_type(this->job_.training.precision)),
      ends_apart_(this->job_.wrapping.ends_apart &&
                  (this->job_.parallel.pipeline > 1 || !this->job_.model->tied_head)),
      gathers_once_(this->job_.parallel.gathers_once),
      waits_(!gathers_once_ && !this->job_.parallel.sync_each_micro_batch &&
             this->job_.training.gradient_accumulation > 1) {
  const Precision& precision = this->job_.training.precision;
  const ElementType compute = precision.autocast ? precision.parameters : precision.compute;
  const ElementType reduction = precision.accumulated_gradients.value_or(precision.reduction);
  // Beside adapters what is frozen has its own type; unlike what is trained it may have it within one unit.
  const bool adapts = this->job_.adapter.has_value();
  if (adapts) frozen_ = this->frozen_sets(compute, Sharding::kRows, ranks_);
  shards_ = shards_of(adapts ? Of::kTrained : Of::kAll);
  // A step of a pipeline's runtime gathers on the stream that it runs on.
  const bool in_turn = runs_torch_steps(this->job_);
  if (compute != stored_)
    cast_shards_ =
        padded_set("parameter shards, cast", in_turn ? "fsdp2.unshard-step" : "fsdp2.cast-shard",
                   Pile::kCommunication, compute, true, adapts ? Of::kTrained : Of::kAll);
  gathered_ =
      padded_set("all-gather output", in_turn ? "fsdp2.unshard-step" : "fsdp2.all-gather-output",
                 Pile::kCommunication, compute, false);
  const std::vector<const Unit<N>*> units = this->all_units(Of::kAll);
  const auto copy_out = [&](const Unit<N>& unit) {
    return table(unit, numbers_to_copy_out(unit, ranks_, compute, context.style.multiprocessors));
  };
  for (const Unit<N>* unit : units) {
    parameters_.slots.push_back(this->book_.slot_of_tensors(
        {unit->name, "gathered parameters", "fsdp2.unsharded-parameters"}, Pile::kParameters,
        padded_whole_elements(*unit, ranks_), compute,
        padded_wholes(*unit, ranks_, compute, this->book_.tensor_sum())));
    copy_out_.slots.push_back(copy_out(*unit));
  }
  if (joins_ends()) copy_out_.root = copy_out(joined("root", ends_of(units)));
  const ElementType of_gradients = context.style.gradient;
  // Other pairs of types are copied tensor by tensor.
  if (of_gradients == reduction ||
      (of_gradients == ElementType::kBFloat16 && reduction == ElementType::kFloat32)) {
    const std::vector<const Unit<N>*> trained = this->all_units(Of::kTrained);
    const auto copy_in = [&](const Unit<N>& unit) {
      return table(unit, numbers_to_copy_in(unit, ranks_, reduction));
    };
    for (const Unit<N>* unit : trained) copy_in_.slots.push_back(copy_in(*unit));
    if (joins_ends()) copy_in_.root = copy_in(joined("root", ends_of(trained)));
  }
  reduce_input_ = padded_set("reduce-scatter input", "fsdp2.reduce-scatter-input",
                             Pile::kCommunication, reduction, false, Of::kTrained);
  reduce_output_ = padded_set("reduce-scatter output", "fsdp2.reduce-scatter-output",
                              Pile::kCommunication, reduction, true, Of::kTrained);
  gradients_ = padded_set("gradient shards", "fsdp2.gradient-shard", Pile::kGradients, stored_,
                          true, Of::kTrained);
  reduction_is_cast_ = reduction != stored_;
  // Stages of a pipeline that reduce once have theirs wait in the same way, where backward runs whole.
  const bool waits_in_pipeline = gathers_once_ && !this->job_.parallel.sync_each_micro_batch &&
                                 !pipeline_order(this->job_).splits_backward;
  if ((waits_ || waits_in_pipeline) && reduction != of_gradients)
    waiting_ = WaitingGradients<N>(context, reduction);
  if (this->offloads_parameters()) {
    arriving_ = arriving_set("parameter shards from the host", compute);
    if (compute != stored_)
      arriving_wide_ = arriving_set("shard from the host before its cast", stored_, true);
  }
  states_ = this->state_slots(Sharding::kRows, ranks_, precision.moments.value_or(stored_));
}

template <class N>
SlotSet Fsdp2Groups<N>::padded_set(const char* name, const char* rule, Pile pile, ElementType type,
                                   bool part, Of of) {
  SlotSet set;
  // A unit that is not trained has no such buffer.
  const auto slot = [&](const char* owner, const N& elements) {
    return plain(elements) == 0 ? -1 : this->book_.slot({owner, name, rule}, pile, elements, type);
  };
  const auto elements = [&](const Unit<N>& unit) {
    return part ? padded_shard_elements(unit, ranks_) : padded_whole_elements(unit, ranks_);
  };
  const std::vector<const Unit<N>*> units = this->all_units(of);
  for (const Unit<N>* unit : units) set.slots.push_back(slot(unit->name, elements(*unit)));
  // One group's parameters are gathered and reduced in one piece.
  if (joins_ends()) {
    const std::vector<const Unit<N>*> ends = ends_of(units);
    set.root = slot("root", elements(*ends.front()) + elements(*ends.back()));
  }
  return set;
}

template <class N>
SlotSet Fsdp2Groups<N>::shards_of(Of of) {
  SlotSet set;
  for (const Unit<N>* unit : this->all_units(of))
    set.slots.push_back(this->book_.slot_of_tensors(
        {unit->name, "parameter shards", "fsdp2.shard"}, Pile::kParameters,
        padded_shard_elements(*unit, ranks_), stored_,
        padded_shards(*unit, ranks_, stored_, this->book_.tensor_sum())));
  return set;
}

template <class N>
SlotId Fsdp2Groups<N>::table(const Unit<N>& unit, std::int64_t numbers) {
  return this->book_.slot({unit.name, "table of a copy", "fsdp2.copy-table"}, Pile::kTemporary,
                          N(numbers), ElementType::kInt64);
}

template <class N>
SlotSet Fsdp2Groups<N>::arriving_set(const char* name, ElementType type, bool wide) {
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
  if (joins_ends()) set.root = slot("root", ends_of(units));
  return set;
}

template <class N>
void Fsdp2Groups<N>::ends(const SlotSet& set, Ends which, const Stage<N>& stage, Events& events,
                          std::int32_t count) const {
  if (set.slots.empty()) return;
  const auto put = [&](SlotId slot) {
    if (slot >= 0) events.push_back({slot, count});
  };
  if (set.root >= 0) return put(set.root);
  if (has_embedding(which, stage)) put(set.slots.front());
  if (!has_head(which, stage)) return;
  put(set.slots[set.slots.size() - 2]);
  if (!stage.embedding && this->job_.model->tied_head) put(set.slots.back());
}

// `put`(set, count): of one group.
template <class N>
template <class Put>
void Fsdp2Groups<N>::gather_by(Put put) const {
  put(shards_to_gather(), 1);
  put(arriving_wide_, 1);
  put(arriving_wide_, -1);
  put(gathered_, 1);
  put(shards_to_gather(), -1);
}
template <class N>
void Fsdp2Groups<N>::gather(int kind, Events& events) const {
  gather_by(of_kind(kind, events));
}
template <class N>
void Fsdp2Groups<N>::gather(Ends which, const Stage<N>& stage, Events& events) const {
  gather_by(of_ends(which, stage, events));
}

// What is made by a table of pointers, which goes at once.
template <class N>
template <class Put>
void Fsdp2Groups<N>::copy_by(Put put, const SlotSet& made, const SlotSet& table) const {
  put(made, 1);
  put(table, 1);
  put(table, -1);
}
template <class N>
void Fsdp2Groups<N>::copy_out(int kind, Events& events) const {
  copy_by(of_kind(kind, events), parameters_, copy_out_);
}
template <class N>
void Fsdp2Groups<N>::copy_out(Ends which, const Stage<N>& stage, Events& events) const {
  copy_by(of_ends(which, stage, events), parameters_, copy_out_);
}
template <class N>
void Fsdp2Groups<N>::copy_in(int kind, Events& events) const {
  copy_by(of_kind(kind, events), reduce_input_, copy_in_);
}
template <class N>
void Fsdp2Groups<N>::copy_in(Ends which, const Stage<N>& stage, Events& events) const {
  copy_by(of_ends(which, stage, events), reduce_input_, copy_in_);
}

template <class N>
std::int64_t Fsdp2Groups<N>::largest_shard(const Stage<N>& stage) const {
  const std::vector<std::int64_t>& count = this->counts(stage);
  const std::vector<const Unit<N>*> units = this->all_units(Of::kTrained);
  std::int64_t largest = 0;
  for (std::size_t u = 0; u < units.size(); ++u)
    if (count[u] > 0) largest = std::max(largest, largest_padded_shard(*units[u], ranks_));
  return largest;
}

// CPUOffloadPolicy: shards of parameters and gradients are pinned one by one, the states are not.
template <class N>
HostMemory Fsdp2Groups<N>::host(const Stage<N>& stage) const {
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

template class Fsdp2Groups<Checked>;
template class Fsdp2Groups<Traced>;

}  // namespace steelyard
