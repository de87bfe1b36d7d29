// PyTorch FullyShardedDataParallel, the first: one flat parameter for every layer, one for the root.
//
//   forward, layer i     +whole_i            ...compute...                    -whole_i
//   backward, layer i    +whole_(i-1)        ...gradients_i...                -whole_i
//                        +flat gradient_i    -gradients_i    (+cast -flat)    +shard of gradients    -flat
//   under no_sync        +flat gradient_i    -gradients_i    -whole_i, and it stays: later ones are added to it
//
// A flat parameter is gathered straight into its whole tensor, and the parameters are views of it: there is no copy
// out, as FSDP2 has one. What is cast is also made whole as it is stored, in the first forward, and let go at once.
// limit_all_gathers keeps two of them in flight; a freed one counts as freed at once, though
// other streams may still read it. The root (embedding, final norm, head) stays whole from forward to the end of
// backward. zero_stage 2 is SHARD_GRAD_OP: every layer stays whole until its backward. `replicate` is HYBRID_SHARD.
//
// Sources: torch/distributed/fsdp/{_flat_param,_runtime_utils,_state_dict_utils}.py.
#include <algorithm>
#include <utility>

#include "engine/engine.h"

namespace steelyard {

namespace {

constexpr std::int64_t kStartAlignment =
    16;  // bytes, of each parameter within its flat one (use_orig_params)

template <class N>
class Fsdp1 final : public EngineModel<N> {
 public:
  using typename EngineModel<N>::Events;
  using Sharding = typename EngineModel<N>::Sharding;
  using Tensors = typename EngineModel<N>::Tensors;

  explicit Fsdp1(const EngineContext<N>& context) : EngineModel<N>(context) {
    const Precision& precision = this->job_.training.precision;
    const Parallel& parallel = this->job_.parallel;
    ranks_ = parallel.data * parallel.context / parallel.replicate;
    stored_ = precision.master.value_or(precision.parameters);
    compute_ = precision.autocast ? precision.parameters : precision.compute;
    reduction_ = precision.accumulated_gradients.value_or(precision.reduction);
    stays_whole_ = parallel.zero_stage == 2;
    // Micro-batches of a pipeline overlap: what one of them would free, the next one still needs.
    held_over_ = parallel.pipeline > 1;
    waits_ = !parallel.sync_each_micro_batch && this->job_.training.gradient_accumulation > 1;
    // Beside adapters a unit is two flat parameters: they have a type each, and a gradient or none.
    const bool adapts = this->job_.adapter.has_value();
    const ModelUnits<N>& units = adapts ? context.trained : context.units;
    for (const Unit<N>& kind : units.kinds) kinds_.push_back(flat_of(kind.name, {&kind}, stored_));
    if (adapts) {
      for (const Unit<N>& kind : context.frozen->kinds)
        frozen_kinds_.push_back(flat_of(kind.name, {&kind}, compute_));
      constants_ = this->constants_sets();
    }
    const Unit<N>&embedding = context.units.embedding, &head = context.units.head;
    if (parallel.pipeline == 1) {
      root_ = flat_of("root", {&embedding, &head}, adapts ? compute_ : stored_);
    } else {
      root_ = flat_of("embedding", {&embedding}, stored_);
      last_root_ = flat_of("head", {&head, &context.units.vocabulary_rows}, stored_);
    }
    const ElementType moments = precision.moments.value_or(stored_);
    // An optimizer sees the original tensors: those of which the first rank's stretch of a flat parameter has a part.
    std::vector<const Flat*> flats = {&root_, &last_root_};
    for (const Flat& flat : kinds_) flats.push_back(&flat);
    states_ = this->state_slots(Sharding::kFlat, ranks_, moments, Tensors::kAll,
                                [flats](const TensorShare<N>& share) {
                                  std::vector<std::int64_t> parts;
                                  for (const Flat* flat : flats)
                                    for (const Stretch& trained : flat->trained)
                                      if (trained.tensor == share.tensor)
                                        parts.push_back(trained.part(flat->shard_elements));
                                  return parts;
                                });
  }

  GradientPolicy gradient_policy(bool) const override { return GradientPolicy::kKeep; }
  bool keeps_gradients() const override { return false; }
  bool uses_neighbours() const override { return true; }
  bool differs_in_last() const override { return waits_; }
  void in_last(bool yes) override { in_last_ = yes; }

  void load(const Stage<N>& stage, Events& events) override {
    load_with_buffers(stage, {}, events);
  }
  void load_with_buffers(const Stage<N>& stage, const Events& buffers, Events& events) override {
    // One layer after the other is wrapped, the root last: its parameters on the device, joined, and the shard of that. Buffers
    // are the root's.
    const Flat* root = root_of(stage);
    for_each(stage, [&](const Flat& flat, std::int32_t count) {
      if (&flat != root) wrap(flat, count, events);
    });
    events.insert(events.end(), buffers.begin(), buffers.end());
    if (root) wrap(*root, 1, events);
    this->hold(constants_, stage, events);
  }
  void states(const Stage<N>& stage, Events& events) override {
    if (this->offloads_parameters()) return;
    this->hold_states(states_, stage, events);
    if (this->clips()) this->norm_.hold(1, events);  // the zero that stands for no gradient
  }

  bool learns_from_first() const override { return ranks_ > 1 && compute_ != stored_; }
  void before_first_forward(const Stage<N>& stage, Events& events) const override {
    for_each(stage, [&](const Flat& flat, std::int32_t) {
      if (flat.cast_shard < 0) return;
      events.push_back({flat.full_precision, 1});
      events.push_back({flat.full_precision, -1});
    });
  }
  void begin_forward(const Stage<N>& stage, bool first, Events& events) override {
    if (const Flat* root = root_of(stage); root && (first || !held_over_)) gather(*root, events);
  }
  void before_forward(const Neighbours& here, bool first, Events& events) override {
    if (first || !(stays_whole_ && held_over_)) gather_unit(here.unit, events);
  }
  void after_forward(const Neighbours& here, bool, Events& events) override {
    if (stays_whole_) return;
    events.push_back({kind(here.unit).whole, -1});
    if (const Flat* frozen = frozen_kind(here.unit)) events.push_back({frozen->whole, -1});
  }
  void end_forward(const Stage<N>&, int last_unit, bool, Events&) override {
    last_unit_ = last_unit;
  }
  // The root's backward starts by fetching the layer that comes next.
  void begin_backward(const Stage<N>&, bool, Events& events) override {
    if (!stays_whole_ && last_unit_ >= 0 &&
        !this->is_untouched(static_cast<std::size_t>(last_unit_)))
      gather_unit(last_unit_, events);
  }
  // BackwardPrefetch.BACKWARD_PRE: the next layer is fetched before this one computes.
  void before_backward(const Neighbours& here, bool, Events& events) override {
    if (!stays_whole_ && here.next >= 0) gather_unit(here.next, events);
  }
  void after_backward(const Neighbours& here, bool first, Events& events) override {
    const Flat& flat = kind(here.unit);
    reduce_flat(flat, this->context_.gradients_of_kind[static_cast<std::size_t>(here.unit)], {},
                !(stays_whole_ && held_over_), first, events);
    if (const Flat* frozen = frozen_kind(here.unit)) events.push_back({frozen->whole, -1});
  }
  void end_backward(const Stage<N>& stage, int, bool first, Events& events) override {
    static const std::vector<SlotId> none;
    if (const Flat* root = root_of(stage))
      reduce_flat(*root, stage.embedding ? this->context_.gradients_of_embedding : none,
                  stage.head ? this->context_.gradients_of_head : none, !held_over_, first, events);
    free_untouched(stage, events);
    // The final callback gives the optimizer what the host has, and lets the device's go.
    if (this->offloads_parameters()) free_gradient_shards(stage, events);
  }
  void reduce(const Stage<N>& stage, Events& events) override {
    if (!held_over_) return;
    if (const Flat* root = root_of(stage)) events.push_back({root->whole, -1});
    if (!stays_whole_) return;
    for (std::size_t unit = 0; unit < kinds_.size(); ++unit)
      if (stage.layers_of_kind[unit] > 0)
        events.push_back(
            {kinds_[unit].whole, static_cast<std::int32_t>(-stage.layers_of_kind[unit])});
  }
  void optimizer(const Stage<N>& stage, Events& events) override {
    if (this->offloads_parameters()) return;  // it steps on the host
    if (this->clips()) {
      this->norm_.one_by_one(tensors_of_first(stage), ElementType::kFloat32, {}, false, events);
      this->norm_.numbers(2, events);  // its square, summed over the ranks, and the root of that
      this->norm_.numbers(3, events);  // norm + 1e-6, its reciprocal, the factor
      this->norm_.hold(-1, events);
    }
    this->step_temporaries(states_, stage, events);
    free_gradient_shards(stage, events);
  }
  // CPUOffload: the shards of flat parameters and their gradients are pinned, the states are not.
  HostMemory host(const Stage<N>& stage) const override {
    HostMemory memory = EngineModel<N>::host(stage);
    if (!this->offloads_parameters()) return memory;
    const bool pinned = this->job_.offload.pinned;
    for_each(stage, [&](const Flat& flat, std::int32_t count) {
      memory.add_tensors("parameter shards", "fsdp.offload", pinned, bytes(flat.shard), count);
      if (flat.has_gradient)
        memory.add_tensors("gradient shards", "fsdp.offload", pinned, bytes(flat.gradient_shard),
                           count);
    });
    memory.add("optimizer states", "fsdp.offload", HostPlace::kPageable,
               this->state_bytes(states_, stage));
    return memory;
  }
  // FULL_STATE_DICT on rank 0, offloaded: the root is gathered in its stored type, then one layer after the other.
  void checkpoint(const Stage<N>& stage, Events& events) override {
    if (this->job_.checkpoint != CheckpointSave::kFullRankZero) return;
    const Flat* root = root_of(stage);
    if (root) events.push_back({root->saved, 1});
    SlotId largest = -1;
    for (std::size_t unit = 0; unit < kinds_.size(); ++unit)
      if (stage.layers_of_kind[unit] > 0) {
        const Flat* frozen = frozen_kind(static_cast<int>(unit));
        const SlotId saved = frozen ? frozen->saved : kinds_[unit].saved;
        if (largest < 0 || bytes(saved) > bytes(largest)) largest = saved;
      }
    if (largest >= 0) {
      events.push_back({largest, 1});
      events.push_back({largest, -1});
    }
    if (root) events.push_back({root->saved, -1});
  }

 private:
  // Where a trained tensor lies in its flat parameter.
  struct Stretch {
    const ParameterTensor* tensor = nullptr;
    std::int64_t from = 0, until = 0;
    // Of it, what the first rank has.
    std::int64_t part(std::int64_t shard) const {
      return std::max<std::int64_t>(0, std::min(until, shard) - from);
    }
  };
  // Everything that one flat parameter allocates. -1: not needed.
  struct Flat {
    SlotId shard = -1, cast_shard = -1, whole = -1, gradient = -1, cast_gradient = -1, reduced = -1,
           gradient_shard = -1, saved = -1, joined = -1, full_precision = -1;
    bool has_gradient = false;  // one for all that it joins, or none
    std::vector<Stretch> trained;
    std::int64_t shard_elements = 0;
  };

  Flat flat_of(const char* owner, const std::vector<const Unit<N>*>& units, ElementType stored) {
    const std::int64_t start = kStartAlignment * 8 / bits_of(stored);
    N elements{};
    Flat flat;
    for (const Unit<N>* unit : units)
      for (const TensorShare<N>& share : unit->tensors) {
        flat.has_gradient = flat.has_gradient || share.tensor->gradient;
        const std::int64_t from = plain(elements);
        const bool aligned = plain(share.elements) % start == 0;
        elements = elements + N(share.copies) *
                                  (aligned ? share.elements : round_up(share.elements, N(start)));
        if (!share.trainable) continue;
        const std::int64_t step = (plain(elements) - from) / share.copies;
        for (std::int64_t copy = 0; copy < share.copies; ++copy)
          flat.trained.push_back(
              {share.tensor, from + copy * step, from + copy * step + plain(share.elements)});
      }
    const N world = Workbook<N>::symbol("W", ranks_);
    if (plain(elements) % ranks_ != 0) elements = round_up(elements, world);
    const N shard = ranks_ > 1 ? elements / world : elements;
    flat.shard_elements = plain(shard);
    auto slot = [&](const char* name, const char* rule, Pile pile, const N& count,
                    ElementType type) {
      return this->book_.slot({owner, name, rule}, pile, count, type);
    };
    flat.shard = slot("flat parameter, shard", "fsdp1.shard", Pile::kParameters, shard, stored);
    if (compute_ != stored)
      flat.cast_shard = slot("flat parameter, shard, cast", "fsdp1.cast-shard",
                             Pile::kCommunication, shard, compute_);
    flat.whole = slot("flat parameter, gathered", "fsdp1.whole-parameter", Pile::kParameters,
                      elements, compute_);
    const ElementType computed = this->context_.style.gradient;
    flat.gradient =
        slot("flat gradient", "fsdp1.flat-gradient", Pile::kGradients, elements, computed);
    if (reduction_ != computed)
      flat.cast_gradient = slot("flat gradient, cast for the reduction", "fsdp1.cast-gradient",
                                Pile::kCommunication, elements, reduction_);
    flat.gradient_shard =
        slot("gradient shard", "fsdp1.gradient-shard", Pile::kGradients, shard, stored);
    if (reduction_ != stored)
      flat.reduced = slot("reduce-scatter output", "fsdp1.reduce-scatter-output",
                          Pile::kCommunication, shard, reduction_);
    flat.joined = slot("parameters while they are wrapped", "fsdp1.wrapping", Pile::kParameters,
                       elements, stored);
    flat.full_precision = slot("flat parameter, whole, in full precision", "fsdp1.full-precision",
                               Pile::kTemporary, elements, stored);
    flat.saved = slot("flat parameter, gathered to be saved", "fsdp1.full-state-dict",
                      Pile::kTemporary, elements, stored);
    return flat;
  }

  void wrap(const Flat& flat, std::int32_t count, Events& events) const {
    const bool leaves = this->offloads_parameters();  // for the host, before the next is wrapped
    events.push_back({flat.shard, leaves ? 1 : count});
    events.push_back({flat.joined, 2});
    events.push_back({flat.joined, -2});
    if (leaves) events.push_back({flat.shard, -1});
  }
  void free_gradient_shards(const Stage<N>& stage, Events& events) const {
    for_each(stage, [&](const Flat& flat, std::int32_t count) {
      if (flat.has_gradient) events.push_back({flat.gradient_shard, -count});
    });
  }
  // What is frozen beside adapters; null: no flat parameter of its own.
  const Flat* frozen_kind(int unit) const {
    return frozen_kinds_.empty() ? nullptr : &frozen_kinds_[static_cast<std::size_t>(unit)];
  }
  void gather_unit(int unit, Events& events) const {
    gather(kind(unit), events);
    if (const Flat* frozen = frozen_kind(unit)) gather(*frozen, events);
  }
  const Flat& kind(int unit) const { return kinds_[static_cast<std::size_t>(unit)]; }
  Bytes bytes(SlotId slot) const { return this->book_.program.slot_at(slot).bytes; }
  // Middle stages of a pipeline have none.
  const Flat* root_of(const Stage<N>& stage) const {
    if (stage.embedding) return &root_;
    return stage.head ? &last_root_ : nullptr;
  }
  template <class Visit>
  void for_each(const Stage<N>& stage, Visit visit) const {
    if (const Flat* root = root_of(stage)) visit(*root, 1);
    for (std::size_t unit = 0; unit < kinds_.size(); ++unit)
      if (stage.layers_of_kind[unit] > 0) {
        const auto layers = static_cast<std::int32_t>(stage.layers_of_kind[unit]);
        visit(kinds_[unit], layers);
        if (const Flat* frozen = frozen_kind(static_cast<int>(unit))) visit(*frozen, layers);
      }
  }

  // SHARD_GRAD_OP: what backward has not come to is resharded when it has ended.
  void free_untouched(const Stage<N>& stage, Events& events) const {
    if (!stays_whole_ || held_over_) return;
    for (std::size_t unit = 0; unit < kinds_.size(); ++unit)
      if (stage.layers_of_kind[unit] > 0 && this->is_untouched(unit)) {
        const auto layers = static_cast<std::int32_t>(stage.layers_of_kind[unit]);
        events.push_back({kinds_[unit].whole, -layers});
        if (const Flat* frozen = frozen_kind(static_cast<int>(unit)))
          events.push_back({frozen->whole, -layers});
      }
  }
  // Trained tensors of which the first rank has a part.
  std::int64_t tensors_of_first(const Stage<N>& stage) const {
    std::int64_t tensors = 0;
    for_each(stage, [&](const Flat& flat, std::int32_t count) {
      for (const Stretch& trained : flat.trained)
        if (trained.part(flat.shard_elements) > 0) tensors += count;
    });
    return tensors;
  }
  void gather(const Flat& flat, Events& events) const {
    // From the host comes the shard as it is stored; a cast takes its place.
    const bool arrives = this->offloads_parameters();
    const SlotId sent = flat.cast_shard >= 0 ? flat.cast_shard : arrives ? flat.shard : SlotId{-1};
    if (sent >= 0) events.push_back({sent, 1});
    if (arrives && sent != flat.shard) {
      events.push_back({flat.shard, 1});
      events.push_back({flat.shard, -1});
    }
    events.push_back({flat.whole, 1});
    if (sent >= 0) events.push_back({sent, -1});
  }
  // Autograd joins the gradients of the views into one flat tensor; the parameter goes before its gradient is reduced.
  void reduce_flat(const Flat& flat, const std::vector<SlotId>& gradients,
                   const std::vector<SlotId>& more_gradients, bool frees_parameter, bool first,
                   Events& events) const {
    if (!flat.has_gradient) {  // resharded, and that is all
      if (frees_parameter) events.push_back({flat.whole, -1});
      return;
    }
    events.push_back({flat.gradient, 1});
    for (const std::vector<SlotId>* slots : {&gradients, &more_gradients})
      for (SlotId gradient : *slots) events.push_back({gradient, -1});
    if (waits_ && !first) events.push_back({flat.gradient, -1});  // added to the one that waits
    if (frees_parameter) events.push_back({flat.whole, -1});
    if (waits_ && !in_last_) return;
    const SlotId sent = flat.cast_gradient >= 0 ? flat.cast_gradient : flat.gradient;
    if (flat.cast_gradient >= 0) {
      events.push_back({flat.cast_gradient, 1});
      events.push_back({flat.gradient, -1});
    }
    const SlotId received = flat.reduced >= 0 ? flat.reduced : flat.gradient_shard;
    events.push_back({received, 1});
    events.push_back({sent, -1});
    if (received != flat.gradient_shard) {
      events.push_back({flat.gradient_shard, 1});
      events.push_back({received, -1});
    }
    if (!first && !waits_ && !this->offloads_parameters())
      events.push_back(
          {flat.gradient_shard, -1});  // added to the shard that the first micro-batch has left
  }

  std::int64_t ranks_ = 1;
  ElementType stored_ = ElementType::kFloat32, compute_ = ElementType::kFloat32,
              reduction_ = ElementType::kFloat32;
  bool stays_whole_ = false, held_over_ = false;
  bool waits_ = false, in_last_ = false;  // gradients, for the last micro-batch of a step
  int last_unit_ = -1;
  std::vector<Flat> kinds_, frozen_kinds_;
  std::vector<SlotSet> constants_;  // of quantised weights
  Flat root_, last_root_;
  typename EngineModel<N>::StateSlots states_;
};

}  // namespace

template <class N>
std::unique_ptr<EngineModel<N>> make_fsdp1(const EngineContext<N>& context) {
  return std::make_unique<Fsdp1<N>>(context);
}
template std::unique_ptr<EngineModel<Checked>> make_fsdp1(const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_fsdp1(const EngineContext<Traced>&);

}  // namespace steelyard
