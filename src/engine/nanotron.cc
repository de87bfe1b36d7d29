// nanotron: bf16 parameters, a contiguous fp32 gradient buffer, fp32 master weights.
//
//   held from step 2 on   18P (one rank) · 20P (ZeRO-0: + bf16 DDP buckets) · 6P + 12P/N (ZeRO-1)
//   backward              + bf16 .grad of each layer, added into fp32 and freed when the micro-batch is through
//   step, ZeRO-1          + 4P + 2P/N: all parameters are gathered in one call, flattened twice
//
// Sources: optim/gradient_accumulator.py, optim/zero.py, trainer.py of nanotron (2025-02).
#include "engine/engine.h"

namespace steelyard {

namespace {

template <class N>
class Nanotron final : public EngineModel<N> {
 public:
  using typename EngineModel<N>::Events;
  using typename EngineModel<N>::Launches;
  using Sharding = typename EngineModel<N>::Sharding;

  explicit Nanotron(const EngineContext<N>& context) : EngineModel<N>(context) {
    const Precision& precision = this->job_.training.precision;
    const std::int64_t data = this->job_.parallel.data;
    accumulates_ = precision.accumulated_gradients.has_value();
    sharded_ = this->job_.parallel.zero_stage >= 1 && data > 1;
    const std::int64_t ranks = sharded_ ? data : 1;
    parameters_ =
        this->whole_set("parameters", "parameters.whole", Pile::kParameters, precision.parameters);
    if (accumulates_) {
      accumulated_ = this->flat_set("fp32 gradient buffer", "nanotron.gradient-buffer",
                                    Pile::kGradients, *precision.accumulated_gradients, 1);
      master_ = this->flat_set("master weights", "nanotron.master", Pile::kMasterWeights,
                               ElementType::kFloat32, ranks);
    }
    if (data > 1 && !(accumulates_ && sharded_)) buckets_ = this->bucket_set(precision.gradients);
    states_ = this->state_slots(sharded_ ? Sharding::kFlat : Sharding::kWhole, ranks,
                                accumulates_ ? ElementType::kFloat32 : state_type(precision, true));
    if (context.style.gathers_into_buffers) {
      const N whole = context.sizes.tokens * context.sizes.hidden;
      gather_buffers_ = {
          this->book_.slot({"tensor parallel", "all-gather buffer", "nanotron.gather-buffer"},
                           Pile::kCommunication, whole, context.style.compute),
          this->book_.slot(
              {"tensor parallel", "gradient all-gather buffer", "nanotron.gather-buffer"},
              Pile::kCommunication, whole, context.style.compute)};
    }
  }

  GradientPolicy gradient_policy(bool first_micro_batch) const override {
    // With fp32 accumulation every micro-batch starts without .grad.
    return accumulates_ || first_micro_batch ? GradientPolicy::kKeep : GradientPolicy::kAdd;
  }
  // Each gradient is added into the buffer; then norm, scaling, step count, update and the copy into 16 bits of each.
  Launches launches(const Stage<N>& stage) const override {
    const std::int64_t tensors = this->trained_tensors(stage);
    return {accumulates_ ? tensors : 0, tensors * (accumulates_ ? 5 : 4)};
  }
  bool keeps_gradients() const override { return !accumulates_; }

  void load(const Stage<N>& stage, Events& events) override {
    this->hold(parameters_, stage, events);
    this->hold(accumulated_, stage, events);
    this->hold(master_, stage, events);
    this->hold(buckets_, stage, events);
  }
  void states(const Stage<N>& stage, Events& events) override {
    this->hold_states(states_, stage, events);
    for (SlotId buffer : gather_buffers_) events.push_back({buffer, 1});
    if (this->clips()) this->norm_.hold(1, events);  // of the step before, until the next is there
  }
  void end_backward(const Stage<N>& stage, int, bool, Events& events) override {
    if (!accumulates_) return;
    for (std::size_t kind = 0; kind < stage.layers_of_kind.size(); ++kind)
      for (SlotId gradient : this->context_.gradients_of_kind[kind])
        if (stage.layers_of_kind[kind] > 0)
          events.push_back({gradient, static_cast<std::int32_t>(-stage.layers_of_kind[kind])});
    if (stage.head)
      for (SlotId gradient : this->context_.gradients_of_head) events.push_back({gradient, -1});
    if (stage.embedding)
      for (SlotId gradient : this->context_.gradients_of_embedding)
        events.push_back({gradient, -1});
  }
  void optimizer(const Stage<N>& stage, Events& events) override {
    if (this->clips()) {
      // A copy of the tied embedding is left to the rank that has the first.
      this->norm_.one_by_one(this->trained_tensors(stage, false), ElementType::kFloat32, {}, false,
                             events);
      this->norm_.numbers(1, events);  // its square, summed over the ranks
      this->norm_.numbers(3, events);  // norm + 1e-6, its reciprocal, the factor
      this->norm_.hold(-1, events);
    }
    this->step_temporaries(states_, stage, events);
    if (!sharded_) return;
    // All parameters of the stage in one call: this rank's slices, flattened; a flat copy for the slices of each rank; and
    // what ProcessGroupNCCL gathers into before it copies.
    N elements{};
    const std::vector<const Unit<N>*> units = this->all_units(Of::kTrained);
    for (std::size_t unit = 0; unit < units.size(); ++unit)
      elements = elements + N(this->counts(stage)[unit]) * units[unit]->elements;
    const ElementType type = this->job_.training.precision.parameters;
    const std::int64_t ranks = this->job_.parallel.data;
    const SlotId slices = this->book_.slot(
        {"optimizer", "slices of one rank, flattened", "nanotron.zero-gather"},
        Pile::kCommunication, ceil_divide(elements, Workbook<N>::symbol("N", ranks)), type);
    const SlotId output =
        this->book_.slot({"optimizer", "gathered parameters, flattened", "nanotron.zero-gather"},
                         Pile::kCommunication, elements, type);
    events.push_back({slices, static_cast<std::int32_t>(1 + ranks)});
    events.push_back({output, 1});
    events.push_back({output, -1});
    events.push_back({slices, static_cast<std::int32_t>(-1 - ranks)});
  }

 private:
  bool accumulates_ = false, sharded_ = false;
  SlotSet parameters_, accumulated_, master_, buckets_;
  std::vector<SlotId> gather_buffers_;
  typename EngineModel<N>::StateSlots states_;
};

}  // namespace

template <class N>
std::unique_ptr<EngineModel<N>> make_nanotron(const EngineContext<N>& context) {
  return std::make_unique<Nanotron<N>>(context);
}
template std::unique_ptr<EngineModel<Checked>> make_nanotron(const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_nanotron(const EngineContext<Traced>&);

}  // namespace steelyard
