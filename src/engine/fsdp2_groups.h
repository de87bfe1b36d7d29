// What FSDP2 keeps and makes of its groups of parameters: fully_shard makes one of every layer. What is left are the ends,
// embedding, final norm and head: one group, the root's, or two where they are wrapped apart (wrap.ends).
//
//   kept       parameter shards, in the type that is stored; states
//   gather     +cast shards  +all-gather output  -cast shards;  under offload +shards from the host in their place
//   copy out   +parameters  +table  -table
//   copy in    +reduce-scatter input  +table  -table
//   reduced    +reduce-scatter output  +gradient shards  -reduce-scatter output;  without a cast the shards alone
//
// Each tensor is padded so that its rows divide evenly (torch/distributed/fsdp/_fully_shard/_fsdp_param.py).
#pragma once

#include <vector>

#include "engine/engine.h"
#include "engine/waiting_gradients.h"

namespace steelyard {

template <class N>
class Fsdp2Groups : public EngineModel<N> {
 public:
  using typename EngineModel<N>::Events;

  explicit Fsdp2Groups(const EngineContext<N>& context);

  HostMemory host(const Stage<N>& stage) const override;

 protected:
  // The group of one layer of a kind.
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
  // The groups beside the layers: all in one; or that of the embedding, and that of norm and head.
  enum class Ends : std::uint8_t { kAll, kEmbedding, kHead };
  Ends first_ends() const { return ends_apart_ ? Ends::kEmbedding : Ends::kAll; }
  Ends last_ends() const { return ends_apart_ ? Ends::kHead : Ends::kAll; }
  static bool has_embedding(Ends which, const Stage<N>& stage) {
    return stage.embedding && which != Ends::kHead;
  }
  static bool has_head(Ends which, const Stage<N>& stage) {
    return stage.head && which != Ends::kEmbedding;
  }
  // Those of them that stand on this stage.
  void ends(const SlotSet& set, Ends which, const Stage<N>& stage, Events& events,
            std::int32_t count) const;

  void gather(int kind, Events& events) const;
  void gather(Ends which, const Stage<N>& stage, Events& events) const;
  void copy_out(int kind, Events& events) const;
  void copy_out(Ends which, const Stage<N>& stage, Events& events) const;
  void copy_in(int kind, Events& events) const;
  void copy_in(Ends which, const Stage<N>& stage, Events& events) const;
  // Without a cast what has been reduced is the gradient itself.
  void keep_gradients(int kind, Events& events) const {
    if (reduction_is_cast_) one(reduce_output_, kind, 1, events);
    one(gradients_, kind, 1, events);
    if (reduction_is_cast_) one(reduce_output_, kind, -1, events);
    if (this->offloads_parameters()) one(gradients_, kind, -1, events);  // sent to the host
  }
  // Elements of the largest shard of a tensor that is trained.
  std::int64_t largest_shard(const Stage<N>& stage) const;

  const ShardRanks ranks_;
  const ElementType stored_;
  // Tied, the three are one group all the same.
  const bool ends_apart_;
  const bool gathers_once_;  // stages of a pipeline keep their parameters gathered
  const bool waits_;         // whole gradients, for the last micro-batch of a step
  bool reduction_is_cast_ = false;
  WaitingGradients<N> waiting_;
  SlotSet shards_, gathered_, parameters_, reduce_input_, reduce_output_, gradients_;
  std::vector<SlotSet> frozen_;
  typename EngineModel<N>::StateSlots states_;

 private:
  using Sharding = typename EngineModel<N>::Sharding;

  bool joins_ends() const { return this->job_.parallel.pipeline == 1 && !ends_apart_; }
  // One buffer for each group: whole, or a rank's part.
  SlotSet padded_set(const char* name, const char* rule, Pile pile, ElementType type, bool part,
                     Of of = Of::kAll);
  SlotSet shards_of(Of of);
  SlotId table(const Unit<N>& unit, std::int64_t numbers);
  // Each parameter comes by itself (FSDPParam.all_gather_inputs), `wide` one after the other.
  SlotSet arriving_set(const char* name, ElementType type, bool wide = false);
  // What the gather starts from: what the host has sent, or what has been cast; nothing: the shards themselves.
  const SlotSet& shards_to_gather() const {
    return arriving_.slots.empty() ? cast_shards_ : arriving_;
  }
  // What puts so many of a set's slots: of a layer's group, of the ends'.
  auto of_kind(int kind, Events& events) const {
    return [this, kind, &events](const SlotSet& set, std::int32_t count) {
      one(set, kind, count, events);
    };
  }
  auto of_ends(Ends which, const Stage<N>& stage, Events& events) const {
    return [this, which, &stage, &events](const SlotSet& set, std::int32_t count) {
      ends(set, which, stage, events, count);
    };
  }
  template <class Put>
  void gather_by(Put put) const;
  template <class Put>
  void copy_by(Put put, const SlotSet& made, const SlotSet& table) const;

  SlotSet cast_shards_, copy_out_, copy_in_;
  SlotSet arriving_, arriving_wide_;  // from the host, where that keeps the shards
};

extern template class Fsdp2Groups<Checked>;
extern template class Fsdp2Groups<Traced>;

}  // namespace steelyard
