// Megatron-LM: gradients live in one contiguous buffer that exists from load on; weight gradients are accumulated into
// it by the kernels.
//
//   no distributed optimizer   2P parameters + 4P gradient buffer + 4P main + 8P moments
//   distributed optimizer      2P + 4P + 12P/d; parameters are views of a second contiguous buffer
//   16-bit gradients           2P in the buffer, and 4P (4P/d) of fp32 copies while the optimizer steps
//   precision-aware optimizer  2P + 4P + (2 + 8)P/d: what is missing of the fp32 weights beside the bf16 ones, and moments
//                            of any type; narrow moments are widened, all at once, while the optimizer steps
//   8-bit parameters           1P or 2P in place of the 2P of layers' matrices: by rows, and by columns where that is kept
//   optimizer on the host     2P + 4P, and of a part of the shard, from its first tensors on, nothing
//   no contiguous buffers      2P of this step's gradients, 2P of the last one's, 4P fp32 copies: Megatron-LM of 2021
//
// Sources: megatron/core/distributed/param_and_grad_buffer.py, megatron/core/optimizer/distrib_optimizer.py.
// d counts data x context ranks; experts have buffers of their own, divided by the ranks that hold the same experts.
#include <algorithm>
#include <map>
#include <utility>

#include "engine/megatron_share.h"

namespace steelyard {

namespace {

template <class N>
class Megatron final : public MegatronShare<N> {
 public:
  using typename EngineModel<N>::Events;
  using Sharding = typename EngineModel<N>::Sharding;
  using Tensors = typename EngineModel<N>::Tensors;
  using typename MegatronShare<N>::Share;

  explicit Megatron(const EngineContext<N>& context) : MegatronShare<N>(context) {
    const Precision& precision = this->job_.training.precision;
    distributed_ = this->job_.parallel.zero_stage >= 1;
    const ShardRanks ranks =
        distributed_ ? ShardRanks(this->job_.parallel.data * this->job_.parallel.context /
                                      this->job_.parallel.replicate,
                                  expert_data_ranks(this->job_))
                     : ShardRanks();
    // bf16 accumulates in fp32 by default (arguments.py sets accumulate_allreduce_grads_in_fp32); fp16 does not.
    const ElementType main_gradient = this->job_.training.gradients.value_or(
        precision.parameters == ElementType::kBFloat16 ? ElementType::kFloat32
                                                       : precision.gradients);
    contiguous_ = this->job_.buckets.contiguous_gradients;
    // Buffers are made of what is trained; the rest stays as the modules have it.
    frozen_ = this->whole_set("frozen parameters", "parameters.frozen", Pile::kParameters,
                              precision.parameters, Of::kFrozen);
    parameters_ =
        this->job_.training.eight_bit_parameters ? this->beside_products(precision.parameters)
        : distributed_ ? this->flat_set("parameters", "megatron.parameter-buffer",
                                        Pile::kParameters, precision.parameters, 1, Of::kTrained)
                       : this->whole_set("parameters", "parameters.whole", Pile::kParameters,
                                         precision.parameters, Of::kTrained);
    if (!contiguous_)
      left_ = this->whole_set("gradients of the step before, then of all ranks",
                              "megatron.gradients-left", Pile::kGradients, precision.parameters);
    gradients_ = this->flat_set("gradient buffer", "megatron.gradient-buffer", Pile::kGradients,
                                main_gradient, 1);
    this->book_.join(gradients_.slots);
    if (distributed_ && !this->job_.training.eight_bit_parameters)
      this->book_.join(parameters_.slots);
    const bool master = precision.master.has_value();
    const Sharding sharding = distributed_ ? Sharding::kFlat : Sharding::kWhole;
    const bool aware = this->job_.training.precision_aware;
    if (aware)
      remainders_ = this->sharded_set("remainders of fp32 parameters", "megatron.remainders",
                                      Pile::kMasterWeights, ElementType::kInt16, sharding, ranks);
    else if (master && !offloads() && !distributed_) {
      master_ = masters(*precision.master, Tensors::kMatrices);
      vector_master_ = masters(*precision.master, Tensors::kVectors);
      copied_ = copies_beside_masters(precision.parameters, *precision.master);
    } else if (master && !offloads())
      master_ = this->sharded_set("main parameters", "megatron.main-parameters",
                                  Pile::kMasterWeights, *precision.master, sharding, ranks);
    // Without fp32 gradients the optimizer steps on fp32 copies of them.
    if (master && bits_of(main_gradient) < 32 && !aware && !offloads())
      main_gradients_ = this->sharded_set("main gradients", "megatron.main-gradients",
                                          Pile::kGradients, ElementType::kFloat32, sharding, ranks);
    if (multiplies_in_8_bits(precision)) copies_ = this->eight_bit_weights();
    // torch's foreach steps one group after the other: what decays, the matrices; then vectors, which do not.
    const ElementType stepped = state_type(precision, true);
    in_groups_ = !distributed_ && !offloads() && contiguous_ && context.style.local_layers;
    states_ = this->state_slots(sharding, ranks, stepped,
                                in_groups_ ? Tensors::kMatrices : Tensors::kAll);
    if (in_groups_) vector_states_ = this->state_slots(sharding, ranks, stepped, Tensors::kVectors);
    this->ranks_ = ranks;
    if (distributed_ && !aware && !offloads() && !this->job_.training.eight_bit_parameters)
      this->step_share(stepped, bits_of(main_gradient) < 32);
    if (this->job_.training.eight_bit_parameters && precision.float8_recipe != "mxfp8" &&
        !offloads())
      rounded_ = this->rounded_masters(precision.parameters, this->ranks_);
    if (aware) {
      const std::vector<OptimizerSlot>& slots = this->job_.training.optimizer.slots;
      for (std::size_t i = 0; i < slots.size(); ++i) {
        if (!slots[i].type || *slots[i].type == ElementType::kFloat32) continue;
        widened_.push_back(this->sharded_set("moments, widened to fp32", "megatron.widened-moments",
                                             Pile::kTemporary, ElementType::kFloat32, sharding,
                                             ranks));
        scales_.push_back(scales(bits_of(*slots[i].type) == 8 ? 3 : 1));
      }
    }
    // Until 0.5 parameters stay where the modules have them, and are gathered through the gradients' buffer. Those of 8 bits
    // have no second form that is kept.
    if (distributed_ && !this->job_.megatron_before_0_6 &&
        !this->job_.training.eight_bit_parameters) {
      before_ = moving(false);
      experts_before_ = moving(true);
    }
  }

  GradientPolicy gradient_policy(bool first_micro_batch) const override {
    // A hook adds each gradient into the buffer, and drops it, where no kernel has written it there.
    if (contiguous_ && this->context_.style.local_layers) return GradientPolicy::kAdd;
    if (contiguous_) return GradientPolicy::kFused;
    return first_micro_batch ? GradientPolicy::kKeep : GradientPolicy::kAdd;
  }
  bool keeps_gradients() const override { return false; }

  void load(const Stage<N>& stage, Events& events) override {
    // Each buffer takes its own in as soon as it is made, and experts have the second one: what moves into the first is gone
    // by then. Where that is most, it is what stands beside both.
    const SlotSet& moves = moves_into_experts(stage) ? experts_before_ : before_;
    this->hold(moves, stage, events);
    this->hold(parameters_, stage, events);
    this->hold(frozen_, stage, events);
    if (contiguous_) this->hold(gradients_, stage, events);
    this->hold(moves, stage, events, -1);
    this->hold_scale(events);
    // A matrix's master weights in the making: the parameter is copied, then widened.
    const std::vector<std::int64_t>& count = this->counts(stage);
    const Share* share = this->share_of(stage);
    if (share) this->hold_one(share->matrices.master, 1, events);
    for (std::size_t unit = 0; share == nullptr && unit < master_.slots.size(); ++unit) {
      if (count[unit] == 0 || master_.slots[unit] < 0) continue;
      const SlotId copy = unit < copied_.slots.size() ? copied_.slots[unit] : -1;
      if (copy >= 0) events.push_back({copy, 1});
      events.push_back({master_.slots[unit], static_cast<std::int32_t>(count[unit])});
      if (copy >= 0) events.push_back({copy, -1});
    }
    if (distributed_ && !master_.slots.empty()) copy_of_share(stage, events);
    if (share) this->hold_one(share->vectors.master, 1, events);
    this->hold(vector_master_, stage, events);
    this->hold(remainders_, stage, events);
    this->hold(copies_, stage, events);
    this->hold_gathered_tokens(stage, events);
  }
  Events states_behind_largest(const Stage<N>& stage, Events& states) const override {
    Events late = EngineModel<N>::states_behind_largest(stage, states);
    if (const Share* share = this->known_share(stage))
      for (const SlotId slot : share->vectors.states) late.push_back({slot, 1});
    if (in_groups_)
      for (const SlotSet& set : vector_states_.sets) this->hold(set, stage, late);
    return late;
  }
  void states(const Stage<N>& stage, Events& events) override {
    // Today's zero_grad drops the fp32 copies too; that of 2021 left them, and `main_grad` kept the gradients themselves
    // until the next ones were flattened for their reduction.
    if (!contiguous_) {
      this->hold(main_gradients_, stage, events);
      this->hold(left_, stage, events);
    }
    if (const Share* share = this->share_of(stage)) {
      for (const SlotId slot : share->matrices.states) events.push_back({slot, 1});
    } else if (offloads()) {
      for (SlotId slot : rest_of(stage).held) events.push_back({slot, 1});
    } else {
      this->hold_states(states_, stage, events);
    }
    for (const SlotSet& set : scales_) this->hold(set, stage, events);
  }
  void optimizer(const Stage<N>& stage, Events& events) override {
    const Share* share = this->share_of(stage);
    if (share)
      this->hold_one(share->gradients, 1, events);
    else
      this->hold(contiguous_ ? main_gradients_ : left_, stage, events, contiguous_ ? 1 : -1);
    if (this->clips()) {
      this->norm_.in_one_pass(events);
      this->norm_.hold(-1, events);  // the host has it, and computes the factor (clip_grads.py)
    }
    for (const SlotSet& set : widened_) this->hold(set, stage, events);
    for (const SlotSet& set : widened_) this->hold(set, stage, events, -1);
    if (share) {
      for (const SlotId list : {share->matrices.list, share->vectors.list}) {
        this->hold_one(list, this->job_.foreach_lists, events);
        this->hold_one(list, -this->job_.foreach_lists, events);
      }
    } else if (offloads()) {
      for (SlotId slot : rest_of(stage).passing) {
        events.push_back({slot, 1});
        events.push_back({slot, -1});
      }
    } else {
      this->step_temporaries(states_, stage, events);
      if (in_groups_) this->step_temporaries(vector_states_, stage, events);
    }
    this->hold(rounded_, stage, events);
    this->hold(rounded_, stage, events, -1);
    if (share) {
      this->hold_one(share->gradients, -1, events);
    } else if (contiguous_) {
      this->hold(main_gradients_, stage, events, -1);
    } else {
      this->free_gradients(stage, events);
      this->hold(left_, stage, events);
    }
  }

  // HybridDeviceOptimizer: fp32 parameters and their gradients of the part that it takes, and the states.
  HostMemory host(const Stage<N>& stage) const override {
    HostMemory memory = EngineModel<N>::host(stage);
    if (!offloads()) return memory;
    const Elements taken{Checked(taken_by_host(stage))};
    memory.add("fp32 parameters", "megatron.offload-optimizer", HostPlace::kPageable,
               bytes_of(taken, ElementType::kFloat32));
    memory.add("gradients of the step", "megatron.offload-optimizer",
               this->job_.offload.pinned ? HostPlace::kPinned : HostPlace::kPageable,
               bytes_of(taken, ElementType::kFloat32));
    const std::int64_t states = static_cast<std::int64_t>(states_.sets.size());
    memory.add("optimizer states", "megatron.offload-optimizer", HostPlace::kPageable,
               bytes_of(taken, ElementType::kFloat32) * Checked(states));
    return memory;
  }

 private:
  // Parameters in tensors of their own, before they move into a buffer: those of experts, or all others.
  SlotSet moving(bool experts) {
    const ElementType type = this->job_.training.precision.parameters;
    SlotSet set;
    for (const Unit<N>* unit : this->all_units(Of::kTrained)) {
      Unit<N> part;
      part.name = unit->name;
      for (const TensorShare<N>& share : unit->tensors) {
        if (share.of_experts() != experts) continue;
        part.tensors.push_back(share);
        part.elements = part.elements + N(share.copies) * share.elements;
        part.tensor_count += share.copies;
      }
      set.slots.push_back(part.tensor_count == 0
                              ? SlotId{-1}
                              : this->book_.slot_of_tensors(
                                    {unit->name, "parameters, before they move into the buffer",
                                     "megatron.parameter-buffer"},
                                    Pile::kParameters, part.elements, type,
                                    whole_tensors(part, type, this->book_.tensor_sum())));
    }
    return set;
  }
  // Of both buffers, 2 + 4 bytes a parameter, and the 2 that move, the sum is highest beside the experts' where they are a third
  // of the others or more.
  bool moves_into_experts(const Stage<N>& stage) const {
    const std::vector<const Unit<N>*> units = this->all_units(Of::kTrained);
    const std::vector<std::int64_t>& count = this->counts(stage);
    std::int64_t experts = 0, others = 0;
    for (std::size_t unit = 0; unit < units.size(); ++unit)
      for (const TensorShare<N>& share : units[unit]->tensors)
        (share.of_experts() ? experts : others) +=
            count[unit] * share.copies * plain(share.elements);
    return experts >= others / 3 && experts > 0;
  }
  // Weight decay is of matrices: their master weights are made first.
  SlotSet masters(ElementType type, Tensors which) {
    SlotSet set;
    for (const Unit<N>* unit : this->all_units(Of::kTrained)) {
      N elements{};
      TensorSum sum = this->book_.tensor_sum();
      std::int64_t place = 0;
      for (const TensorShare<N>& share : unit->tensors) {
        place += share.copies;
        if (!this->is_meant(share, which)) continue;
        elements = elements + N(share.copies) * share.elements;
        sum.add(allocated_size(bytes_of(Elements(Checked(plain(share.elements))), type)),
                share.copies, place - share.copies);
      }
      set.slots.push_back(plain(elements) == 0
                              ? SlotId{-1}
                              : this->book_.slot_of_tensors(
                                    {unit->name, "main parameters", "megatron.main-parameters"},
                                    Pile::kMasterWeights, elements, type, std::move(sum)));
    }
    return set;
  }
  // Of each unit what stands beyond its master weights at most: of the matrices, in order, the copy of one less what is made
  // behind it.
  SlotSet copies_beside_masters(ElementType type, ElementType master) {
    SlotSet set;
    for (const Unit<N>* unit : this->all_units(Of::kTrained)) {
      std::int64_t behind = 0, most = 0;  // elements of `type`
      for (auto share = unit->tensors.rbegin(); share != unit->tensors.rend(); ++share) {
        if (!this->is_meant(*share, Tensors::kMatrices)) continue;
        const std::int64_t elements = plain(share->elements);
        // The head's own weight stands behind those of modules that predict further tokens.
        const bool last = share->tensor->role == TensorRole::kHead;
        most = last ? elements : std::max(most, elements - behind);
        behind += share->copies * elements * bits_of(master) / bits_of(type);
        if (last) break;
      }
      set.slots.push_back(
          most == 0
              ? SlotId{-1}
              : this->book_.slot(
                    {unit->name, "parameter, copied to be widened", "megatron.main-parameters"},
                    Pile::kTemporary, Workbook<N>::counted("a matrix", most), type));
    }
    return set;
  }
  void copy_of_share(const Stage<N>& stage, Events& events) {
    const std::int64_t copied = this->last_matrix_of_share(stage);
    if (copied == 0) return;
    SlotId& slot = copies_of_share_.try_emplace(copied, -1).first->second;
    if (slot < 0)
      slot = this->book_.slot(
          {"optimizer", "parameter, copied to be widened", "megatron.main-parameters"},
          Pile::kTemporary, Workbook<N>::counted("the share's last matrix", copied),
          this->job_.training.precision.parameters);
    events.push_back({slot, 1});
    events.push_back({slot, -1});
  }
  bool offloads() const { return this->offloads_optimizer(); }
  // One number, or three where it has 8 bits, in a block of its own for each tensor and narrow moment.
  SlotSet scales(std::int64_t each) {
    SlotSet set;
    for (const Unit<N>* unit : this->all_units(Of::kTrained)) {
      TensorSum numbers = this->book_.tensor_sum();
      numbers.add(Bytes(kAllocationGranularity), unit->tensor_count * each, 0);
      set.slots.push_back(this->book_.slot_of_tensors(
          {unit->name, "scales of narrow moments", "megatron.moment-scales"},
          Pile::kOptimizerMoments, N(unit->tensor_count * each), ElementType::kFloat32,
          std::move(numbers)));
    }
    return set;
  }
  // Tensors are taken in the order of the groups, matrices and then vectors, until their share is reached.
  std::int64_t taken_by_host(const Stage<N>& stage) const {
    std::int64_t all = 0, taken = 0;
    const auto visit = [&](auto act) {
      const std::vector<std::int64_t>& count = this->counts(stage);
      const std::vector<const Unit<N>*> units = this->all_units(Of::kTrained);
      for (const bool matrices : {true, false})
        for (std::size_t u = 0; u < units.size(); ++u)
          for (const TensorShare<N>& share : units[u]->tensors)
            if (count[u] > 0 && (share.shape.size() > 1) == matrices)
              act(plain(flat_shard(share, this->ranks_)), count[u] * share.copies);
    };
    visit([&](std::int64_t elements, std::int64_t times) { all += elements * times; });
    const double threshold = static_cast<double>(all) * this->job_.offload.fraction;
    visit([&](std::int64_t elements, std::int64_t times) {
      for (std::int64_t i = 0; i < times && static_cast<double>(taken) < threshold; ++i)
        taken += elements;
    });
    return taken;
  }
  // What stays on the device of master weights and states, and what it needs to step.
  struct Rest {
    std::vector<std::int64_t> units;
    std::vector<SlotId> held, passing;
  };
  const Rest& rest_of(const Stage<N>& stage) {
    for (const Rest& known : rests_)
      if (known.units == stage.units) return known;
    std::int64_t all = 0;
    this->for_each_shard(
        stage, Of::kTrained, Sharding::kFlat, this->ranks_,
        [&](Elements elements, std::int64_t times) { all += plain(elements.value()) * times; });
    Rest rest{stage.units, {}, {}};
    const std::int64_t left = all - taken_by_host(stage);
    if (left > 0) {
      const auto slot = [&](const char* name, Pile pile) {
        return this->book_.slot({"optimizer", name, "megatron.offload-rest"}, pile, N(left),
                                ElementType::kFloat32);
      };
      rest.held.push_back(slot("main parameters that stay", Pile::kMasterWeights));
      for (std::size_t i = 0; i < states_.sets.size(); ++i)
        rest.held.push_back(slot("states that stay", Pile::kOptimizerMoments));
      if (this->job_.training.gradients.value_or(ElementType::kFloat32) != ElementType::kFloat32)
        rest.passing.push_back(slot("gradients of what stays, in fp32", Pile::kGradients));
    }
    rests_.push_back(std::move(rest));
    return rests_.back();
  }
  bool distributed_ = false;
  bool in_groups_ = false;
  SlotSet before_, experts_before_, vector_master_, copied_;
  typename EngineModel<N>::StateSlots vector_states_;
  bool contiguous_ = true;
  SlotSet parameters_, frozen_, gradients_, master_, remainders_, main_gradients_, left_;
  SlotSet copies_, rounded_;
  std::vector<SlotSet> widened_, scales_;
  std::vector<Rest> rests_;
  std::map<std::int64_t, SlotId> copies_of_share_;  // by its elements
  typename EngineModel<N>::StateSlots states_;
};

}  // namespace

template <class N>
std::unique_ptr<EngineModel<N>> make_megatron(const EngineContext<N>& context) {
  if (context.job.parallel.megatron_fsdp) return make_megatron_fsdp(context);
  return std::make_unique<Megatron<N>>(context);
}
template std::unique_ptr<EngineModel<Checked>> make_megatron(const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_megatron(const EngineContext<Traced>&);

}  // namespace steelyard
