// What a training engine allocates around the model's own operators, and when.
//
//   load            parameters, gradient buffers, buckets                     held from load on
//   states          moments, and what else the first step() leaves behind     held from the first step on
//   before_forward  gather the unit's parameters        after_forward   free them
//   before_backward gather them again                   after_backward  reduce the unit's gradients
//   optimizer       temporaries of step(), zero_grad
//   checkpoint      what saving gathers
//
// One class for each engine (engine/ddp.cc, fsdp2.cc, ...); stage_program.cc calls these in the order in which the
// engine does. A unit is the embedding, one layer kind or the head; events name slots of the job's workbook.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/gradient_norm.h"
#include "engine/host_memory.h"
#include "engine/units.h"
#include "model/freeze.h"
#include "operators/graph.h"
#include "operators/style.h"

namespace steelyard {

struct QuantisationConstants;

// Where a unit stands in the order of execution.
struct Neighbours {
  int unit = -1;                 // layer kind
  int previous = -1;             // executed just before in this direction; -1: none (the root)
  int next = -1;                 // executed just after in this direction; -1: none
  bool first_gradients = false;  // backward: its first gradients of parameters arrive here
};

// One pipeline stage of one rank.
template <class N>
struct Stage {
  std::int64_t index = 0;
  bool embedding = false, head = false;
  std::vector<std::int64_t> layers_of_kind;
  std::vector<std::int64_t> units;  // how often each unit stands here, in the order of SlotSet
  // Whether what comes in and what goes out need a gradient. Where nothing before is trained they may not.
  bool input_gradient = true, output_gradient = true;
  int untouched_below = -1;  // kind of the layer below the last that backward reaches; -1: none
};

// One slot for each unit: [embedding, kinds..., head, vocabulary rows].
struct SlotSet {
  std::vector<SlotId> slots;
  SlotId root = -1;  // embedding and head in one, where an engine joins them
};

template <class N>
struct EngineContext {
  const Job& job;
  Workbook<N>& book;
  const ModelUnits<N>& units;
  const ModelUnits<N>& trained;  // without what is frozen
  const ModelUnits<N>* frozen;   // what is; null: nothing
  const Sizes<N>& sizes;
  const OperatorStyle& style;
  // Parameter gradients that a layer kind's backward makes and leaves when its policy is kKeep.
  const std::vector<std::vector<SlotId>>& gradients_of_kind;
  const std::vector<SlotId>& gradients_of_embedding;
  const std::vector<SlotId>& gradients_of_head;
};

template <class N>
class EngineModel {
 public:
  using Events = std::vector<Event>;

  explicit EngineModel(const EngineContext<N>& context);
  virtual ~EngineModel() = default;

  virtual GradientPolicy gradient_policy(bool first_micro_batch) const = 0;
  // Whether units see their neighbours (prefetching); otherwise equal layers have equal tapes.
  virtual bool uses_neighbours() const { return false; }
  // An engine that learns from its very first micro-batch is told when that is written.
  virtual bool learns_from_first() const { return false; }
  virtual void in_very_first(bool /*yes*/) {}
  // An engine whose last micro-batch of a step differs from those before it is told when that is written.
  virtual bool differs_in_last() const { return false; }
  virtual void in_last(bool /*yes*/) {}
  // Kernels that the engine launches itself: behind the backward of a micro-batch, and in the step.
  struct Launches {
    std::int64_t after_backward = 0, optimizer = 0;
  };
  virtual Launches launches(const Stage<N>&) const { return {}; }
  // The gradients that backward leaves stay until the end of the step and are then freed by zero_grad.
  virtual bool keeps_gradients() const { return gradient_policy(true) == GradientPolicy::kKeep; }

  virtual void load(const Stage<N>& stage, Events& events) = 0;
  // The same with the model's own buffers, which come to the device with its parameters.
  virtual void load_with_buffers(const Stage<N>& stage, const Events& buffers, Events& events) {
    events.insert(events.end(), buffers.begin(), buffers.end());
    load(stage, events);
  }
  // Of an engine that learns from its first micro-batch: the batch is there, and nothing else that forward makes.
  virtual void before_first_forward(const Stage<N>&, Events&) const {}
  // What the first forward makes and nothing lets go.
  virtual void held_from_first_forward(const Stage<N>&, Events&) const {}
  virtual void states(const Stage<N>&, Events&) {}
  // An optimizer may make a tensor's state when its first step comes to it: what it makes after the largest tensor.
  virtual Events states_behind_largest(const Stage<N>& stage, Events& states) const;
  // Whether the states are there before the first step: made on construction, not by the first step().
  virtual bool makes_states_at_load() const { return false; }
  // Or each by the hook that steps its tensor in the first backward (GradientPolicy::kFirstStep).
  virtual bool makes_states_in_backward() const { return false; }
  // Of each chunk on a rank, before its first micro-batch of a step (schedules that torch's runtime plays).
  virtual void begin_step(const Stage<N>&, Events&) const {}
  virtual void begin_forward(const Stage<N>&, bool /*first_micro_batch*/, Events&) {}
  // Behind the embedding's forward, before the last norm's, and behind the head's, which may be that of the loss.
  virtual void after_embedding(const Stage<N>&, Events&) const {}
  virtual void before_head(const Stage<N>&, int /*last_unit*/, bool /*first_micro_batch*/,
                           Events&) {}
  virtual void after_head(const Stage<N>&, Events&) const {}
  virtual void before_forward(const Neighbours&, bool /*first_micro_batch*/, Events&) {}
  virtual void after_forward(const Neighbours&, bool /*first_micro_batch*/, Events&) {}
  // The model has returned: its loss, or the logits where the loss is the caller's.
  virtual void end_forward(const Stage<N>&, int /*last_unit*/, bool /*first_micro_batch*/,
                           Events&) {}
  virtual void begin_backward(const Stage<N>&, bool /*first_micro_batch*/, Events&) {}
  // What the head's matrix product needs in backward comes before it (1) and goes behind it (-1).
  virtual void around_head_product(std::int32_t /*count*/, Events&) const {}
  virtual void after_head_backward(const Stage<N>&, bool /*first_micro_batch*/, Events&) {}
  // Within backward: its first gradient of a parameter stands. Where there is none, when backward has run.
  virtual void first_gradients(bool /*first_micro_batch*/, Events&) {}
  virtual void before_backward(const Neighbours&, bool /*first_micro_batch*/, Events&) {}
  virtual void after_backward(const Neighbours&, bool /*first_micro_batch*/, Events&) {}
  // Before the embedding's backward, and behind all of it.
  virtual void before_embedding_backward(const Stage<N>&, Events&) const {}
  virtual void end_backward(const Stage<N>&, int /*last_unit*/, bool /*first_micro_batch*/,
                            Events&) {}
  // After the last micro-batch, before the optimizer (phase backward).
  virtual void reduce(const Stage<N>&, Events&) {}
  // Of a step, what comes before the first one makes its states: norms, casts. Then the step itself.
  virtual void prepare_step(const Stage<N>&, Events&) {}
  virtual void optimizer(const Stage<N>&, Events&) {}
  // Workspaces of matrix products, from the first one on: of the thread of forward, and of autograd's.
  void hold_forward_workspaces(Events& events) const;
  void hold_backward_workspaces(Events& events) const;
  // torch.cuda.empty_cache(): what is cached goes back to the device (allocator/slot_streams.h).
  void empty_cache(Events& events);
  // What the very first backward leaves for good.
  virtual void left_by_first_backward(const Stage<N>&, Events&) const {}
  // Where states are made at load: what else the first step leaves behind.
  virtual void left_by_first_step(const Stage<N>&, Events&) const {}
  virtual void checkpoint(const Stage<N>&, Events&) {}
  // What this rank keeps beside the device: offloaded states, parameters and gradients.
  virtual HostMemory host(const Stage<N>& stage) const;

 protected:
  // How a tensor is cut over the ranks that share its states.
  enum class Sharding { kWhole, kRows, kFlat };
  struct StateSlots {
    std::vector<SlotSet> sets;  // one for each slot of the optimizer
    SlotSet second_moment;      // the set that foreach's temporary list copies; empty if none
    SlotId value_table = -1;    // by which 8-bit states are read: one for each of `quantised`
    std::vector<std::size_t> quantised;  // of sets
  };

  // Gradients and optimizer state exist for what is trained; parameters are there in any case.
  static Of of_pile(Pile pile) {
    return pile == Pile::kGradients || pile == Pile::kMasterWeights ||
                   pile == Pile::kOptimizerMoments
               ? Of::kTrained
               : Of::kAll;
  }
  std::vector<const Unit<N>*> all_units(Of of = Of::kAll) const;
  // No gradient comes as far as these layers.
  bool is_untouched(std::size_t kind) const {
    return steelyard::is_untouched(job_.model->kinds[kind]);
  }
  const std::vector<std::int64_t>& counts(const Stage<N>& stage) const { return stage.units; }
  void hold(const SlotSet& set, const Stage<N>& stage, Events& events,
            std::int32_t times = 1) const;
  // Gradients that backward has left on the tape (GradientPolicy::kKeep).
  void free_gradients(const Stage<N>& stage, Events& events) const;
  // Of one unit, in the order of SlotSet.
  void free_gradients_of(std::size_t unit, const Stage<N>& stage, Events& events) const;
  // One unit alone.
  Event event(const SlotSet& set, int kind, std::int32_t count) const {
    return {set.slots[static_cast<std::size_t>(kind + 1)], count};
  }

  // Of what `pile` says, or of what is said.
  SlotSet whole_set(const char* name, const char* rule, Pile pile, ElementType type) {
    return whole_set(name, rule, pile, type, of_pile(pile));
  }
  SlotSet whole_set(const char* name, const char* rule, Pile pile, ElementType type, Of of);
  SlotSet sharded_set(const char* name, const char* rule, Pile pile, ElementType type,
                      Sharding sharding, const ShardRanks& ranks);
  // One flat tensor for each unit: a single rounding.
  SlotSet flat_set(const char* name, const char* rule, Pile pile, ElementType type,
                   const ShardRanks& divided_by) {
    return flat_set(name, rule, pile, type, divided_by, of_pile(pile));
  }
  SlotSet flat_set(const char* name, const char* rule, Pile pile, ElementType type,
                   const ShardRanks& divided_by, Of of);
  // Where gradients are joined to be reduced, unit by unit.
  SlotSet bucket_set(ElementType type);
  // What DistributedDataParallel allocates (engine/reducer_buckets.cc): while it starts, for gradients in the first step, in one
  // bucket, as long as it has not seen in what order they come, and for those of later steps.
  void send_from_first_rank(const Stage<N>& stage, ElementType type, Events& events);
  SlotId first_bucket(const Stage<N>& stage, ElementType type);
  SlotId rebuilt_buckets(const Stage<N>& stage, ElementType type);
  std::vector<const TensorShare<N>*> as_gradients_come(std::size_t unit, const Unit<N>& of) const;
  // What is frozen, in the recipe's type or, beside adapters, in its own (engine/frozen_parameters.cc).
  std::vector<SlotSet> frozen_sets(ElementType otherwise, Sharding sharding = Sharding::kWhole,
                                   const ShardRanks& ranks = 1);
  // The constants of quantised weights: no part of the parameter, and whole on every rank.
  std::vector<SlotSet> constants_sets();
  void hold(const std::vector<SlotSet>& sets, const Stage<N>& stage, Events& events,
            std::int32_t times = 1) const {
    for (const SlotSet& set : sets) hold(set, stage, events, times);
  }
  // The model's own, where matrices in few bits are quantised as they come (engine/quantised_load.cc).
  void hold_as_quantised(const std::vector<const SlotSet*>& sets, const Stage<N>& stage,
                         Events& events);
  // Optimizers may take matrices and vectors in groups of their own.
  enum class Tensors : std::uint8_t { kAll, kMatrices, kVectors };
  static bool is_meant(const TensorShare<N>& share, Tensors which) {
    return which == Tensors::kAll || (share.shape.size() > 1) == (which == Tensors::kMatrices);
  }
  // Of each copy of a tensor, what stands on this rank, where that is not an equal share of every one.
  using PartsOf = std::function<std::vector<std::int64_t>(const TensorShare<N>&)>;
  // `stepped`: state_type() of the recipe, or what the engine makes of it.
  StateSlots state_slots(Sharding sharding, const ShardRanks& ranks, ElementType stepped,
                         Tensors which = Tensors::kAll, const PartsOf& parts_of = {});
  void hold_states(const StateSlots& states, const Stage<N>& stage, Events& events) const;
  // Gradients that appear in backward and go at once leave nothing to clip.
  bool clips() const { return job_.training.gradient_clip && !steps_in_backward(); }
  // A gradient dies as soon as it is applied: LOMO, and any optimizer that hooks call.
  bool steps_in_backward() const {
    return job_.training.optimizer.fused_into_backward || job_.training.optimizer_in_backward;
  }
  // A loop that reports the norm holds it until the step is done: torchtitan's.
  bool loop_keeps_norm() const {
    return clips() && job_.implementation == Implementation::kTorchtitan;
  }
  // Elements of all parameters that are trained here.
  N trained_elements(const Stage<N>& stage) const;
  // Tensors that are trained here. `tied_copy`: the head's copy of the embedding on another stage counts, too.
  std::int64_t trained_tensors(const Stage<N>& stage, bool tied_copy = true) const;
  // Elements of the largest bucket, where a bucket is whole gradients until they are more than `size`.
  enum class InBuckets { kAsTheyCome, kNormsFirst };  // within a unit
  std::int64_t largest_bucket(const Stage<N>& stage, std::int64_t size, InBuckets order) const;
  // Elements of the largest tensor here.
  std::int64_t largest_tensor(const Stage<N>& stage, Of of) const;
  // torch.nn.utils.clip_grad_norm_ on `largest` elements at most.
  void clip_by_foreach(const Stage<N>& stage, std::int64_t largest, ElementType type,
                       Events& events);
  // The temporaries of step() on states cut as `states`: foreach lists, or the largest tensor.
  void step_temporaries(const StateSlots& states, const Stage<N>& stage, Events& events);
  // Paged optimizers keep their large states in managed memory.
  Bytes paged_states(const Stage<N>& stage) const;
  // States that the host keeps: what the sets of `states` would hold on the device.
  Bytes state_bytes(const StateSlots& states, const Stage<N>& stage) const;
  // Calls visit(elements of this rank's shard, times) for each tensor on the stage.
  template <class Visit>
  void for_each_shard(const Stage<N>& stage, Of of, Sharding sharding, const ShardRanks& ranks,
                      Visit visit) const {
    const std::vector<std::int64_t>& count = counts(stage);
    const std::vector<const Unit<N>*> units = all_units(of);
    for (std::size_t u = 0; u < units.size(); ++u)
      for (const TensorShare<N>& share : units[u]->tensors) {
        if (count[u] == 0) continue;
        const N cut = sharding == Sharding::kWhole  ? share.elements
                      : sharding == Sharding::kRows ? padded_shard(share, ranks)
                                                    : flat_shard(share, ranks);
        visit(Elements(Checked(plain(cut))), count[u] * share.copies);
      }
  }
  bool offloads_parameters() const { return job_.offload.parameters != OffloadTarget::kNone; }
  bool offloads_optimizer() const { return job_.offload.optimizer != OffloadTarget::kNone; }

  const EngineContext<N>& context_;
  const Job& job_;
  Workbook<N>& book_;
  GradientNorm<N> norm_;

 private:
  SlotSet constants_set(const QuantisationConstants& constants);
  N constant_elements(const QuantisationConstants& constants, const TensorShare<N>& share) const;
  int last_quantised_kind(const Stage<N>& stage) const;
  SlotId loop_temporary(const Unit<N>& unit, Sharding sharding, const ShardRanks& ranks,
                        ElementType stepped, const PartsOf& parts_of);
  // The unit whose temporaries of the loop are largest; -1: none has any.
  int largest_loop_unit(const Stage<N>& stage) const;
  bool has_float8() const {  // torchao's products
    return context_.style.eight_bits == EightBitCode::kFloat8Linear;
  }
  SlotId workspace_ = -1, lt_workspace_ = -1, emptied_ = -1;
  SlotSet loop_temporary_;
  std::map<Bytes, SlotId> broadcast_;  // from 1 on, by size
  std::vector<Bytes> paged_;           // by unit
};

template <class N>
std::unique_ptr<EngineModel<N>> make_engine(const EngineContext<N>& context);

// One factory for each engine of job/engines.def.
#define ENGINE(id, name, make, ...) \
  template <class N>                \
  std::unique_ptr<EngineModel<N>> make(const EngineContext<N>& context);
#include "job/engines.def"
#undef ENGINE

}  // namespace steelyard
