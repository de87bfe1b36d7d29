// DeepSpeed without ZeRO: every rank steps on all parameters.
//
//   16 bit   2P flat parameters + 4P fp32 copy + 8P moments held, 2P gradients from the first backward on;
//            step: gradients cast one by one (4P), then joined (4P more), then the casts go
//   fp32     4P parameters + 8P moments, 4P gradients
//
// Sources: deepspeed/runtime/fp16/fused_optimizer.py, unfused_optimizer.py, deepspeed/runtime/engine.py (0.19.8).
#include "engine/deepspeed.h"

namespace steelyard {

namespace {

constexpr std::int64_t kAllReduceElements = 500'000'000;  // engine.py, MEMORY_OPT_ALLREDUCE_SIZE

template <class N>
class DeepSpeedUnpartitioned final : public DeepSpeedModel<N> {
 public:
  using typename EngineModel<N>::Events;
  using Sharding = typename EngineModel<N>::Sharding;

  explicit DeepSpeedUnpartitioned(const EngineContext<N>& context) : DeepSpeedModel<N>(context) {
    reduces_ = this->ranks_ > 1;
    this->ranks_ = 1;  // nothing is divided
    wraps_ = bits_of(this->stored_) == 16;
    joins_ = form_of(this->job_.training) == OptimizerForm::kFused;
    frozen_ = this->frozen_sets(this->stored_);
    parameters_ = this->whole_set("parameters", "parameters.whole", Pile::kParameters,
                                  this->stored_, Of::kTrained);
    if (!wraps_ || !joins_) states_ = this->state_slots(Sharding::kWhole, 1, this->master_);
    if (!wraps_) return;
    master_set_ = this->whole_set("fp32 parameters", "deepspeed.whole-master", Pile::kMasterWeights,
                                  this->master_);
    casts_ = this->whole_set("gradients, cast for the step", "deepspeed.gradient-casts",
                             Pile::kTemporary, this->master_, Of::kTrained);
    zeros_ = this->whole_set("zero gradients of the first step", "deepspeed.first-zeros",
                             Pile::kTemporary, this->stored_, Of::kTrained);
  }

  GradientPolicy gradient_policy(bool first_micro_batch) const override {
    return first_micro_batch ? GradientPolicy::kKeep : GradientPolicy::kAdd;
  }

  // A plain optimizer makes its states when it first steps.
  bool makes_states_at_load() const override { return wraps_; }

  void load(const Stage<N>& stage, Events& events) override {
    const Buffers* known = buffers_.find(stage);
    const Buffers& buffers = known ? *known : buffers_.add(stage, make_buffers(stage));
    this->hold_kernel_flag(events);
    EngineModel<N>::hold(frozen_, stage, events);
    EngineModel<N>::hold(parameters_, stage, events);
    if (!wraps_) return;
    if (!joins_) return EngineModel<N>::hold(master_set_, stage, events);
    // The parameters are copied, the copies joined, and the parameters become views of the joined tensor.
    EngineModel<N>::hold(parameters_, stage, events);
    events.push_back({buffers.flat, 1});
    EngineModel<N>::hold(parameters_, stage, events, -2);
    // It is copied before it is widened: clone().float().
    events.push_back({buffers.flat_copy, 1});
    events.push_back({buffers.master, 1});
    events.push_back({buffers.flat_copy, -1});
  }
  void states(const Stage<N>& stage, Events& events) override {
    if (!wraps_) return this->hold_states(states_, stage, events);
    // initialize_optimizer_states steps on zeros: what it steps on, and where nothing is joined the parameters', too.
    if (joins_) {
      events.push_back({buffers_.at(stage).gradients, 1});
      DeepSpeedModel<N>::hold(buffers_.at(stage).states, events);
      events.push_back({buffers_.at(stage).gradients, -1});
      return;
    }
    EngineModel<N>::hold(casts_, stage, events);
    EngineModel<N>::hold(zeros_, stage, events);
    this->hold_states(states_, stage, events);
    this->step_temporaries(states_, stage, events);
    EngineModel<N>::hold(casts_, stage, events, -1);
    EngineModel<N>::hold(zeros_, stage, events, -1);
  }
  void end_backward(const Stage<N>& stage, int, bool, Events& events) override {
    this->drop_scaled_loss(stage, events);
  }
  void reduce(const Stage<N>& stage, Events& events) override {
    if (reduces_) this->pass(buffers_.at(stage).bucket, events);
  }
  void prepare_step(const Stage<N>& stage, Events& events) override {
    if (!wraps_) clip_plain(stage, events);
  }
  void optimizer(const Stage<N>& stage, Events& events) override {
    const Buffers& buffers = buffers_.at(stage);
    if (!wraps_) return step_plain(stage, events);
    if (!joins_) {
      // One after the other; the sum is a number that the host reads.
      this->pass(buffers.norm_copy, events);
      this->norm_.numbers(3, events);
    }
    EngineModel<N>::hold(casts_, stage, events);
    if (!joins_) {
      this->step_temporaries(states_, stage, events);
      EngineModel<N>::hold(casts_, stage, events, -1);
      return;
    }
    events.push_back({buffers.gradients, 1});
    EngineModel<N>::hold(casts_, stage, events, -1);
    this->free_gradients(stage, events);
    // The norm of the joined gradients, without the tensors that other tensor ranks have, too.
    if (buffers.mask >= 0) {
      events.push_back({buffers.mask, 2});
      events.push_back({buffers.mask_flags, 1});
      events.push_back({buffers.mask, -2});
      this->pass(buffers.masked, events);
    }
    this->norm_.numbers(2, events);
    if (buffers.mask >= 0) events.push_back({buffers.mask_flags, -1});
    this->step(buffers.states, events);
    events.push_back({buffers.gradients, -1});
  }
  // FP16_Optimizer drops them when it has joined them.
  bool keeps_gradients() const override { return !(wraps_ && joins_); }

 private:
  struct Buffers {
    SlotId flat = -1, flat_copy = -1, master = -1, gradients = -1, bucket = -1, norm_copy = -1,
           mask = -1, masked = -1, mask_flags = -1;
    typename DeepSpeedModel<N>::FlatStates states;
  };
  // Of all gradients, or of a part that ends with the tensor that makes it large enough.
  N bucket_of(const Stage<N>& stage, const N& elements) const {
    if (plain(elements) <= kAllReduceElements) return elements;
    return N(
        this->largest_bucket(stage, kAllReduceElements, EngineModel<N>::InBuckets::kAsTheyCome));
  }
  Buffers make_buffers(const Stage<N>& stage) {
    const N elements = this->trained_elements(stage);
    Buffers buffers;
    buffers.bucket =
        this->slot("gradients", "bucket of the all-reduce", "deepspeed.all-reduce-bucket",
                   Pile::kCommunication, bucket_of(stage, elements), this->stored_);
    if (wraps_ && !joins_)
      buffers.norm_copy = this->slot(
          "optimizer", "largest gradient, fp32, for its norm", "deepspeed.norm-copy",
          Pile::kTemporary, N(this->largest_tensor(stage, Of::kTrained)), ElementType::kFloat32);
    if (!wraps_ || !joins_) return buffers;
    if (this->job_.parallel.tensor > 1) {
      buffers.mask =
          this->slot("optimizer", "what other tensor ranks have, marked and summed up",
                     "deepspeed.norm-mask", Pile::kTemporary, elements + N(1), this->master_);
      buffers.masked = this->slot("optimizer", "flat fp32 gradients, with zeros there",
                                  "deepspeed.norm-mask", Pile::kTemporary, elements, this->master_);
      buffers.mask_flags =
          this->slot("optimizer", "what other tensor ranks have", "deepspeed.norm-mask",
                     Pile::kTemporary, elements + N(1), ElementType::kBool);
    }
    buffers.flat = this->slot("model", "flat parameters", "deepspeed.flat-parameters",
                              Pile::kParameters, elements, this->stored_);
    buffers.flat_copy = this->slot("model", "flat parameters, copied", "deepspeed.flat-parameters",
                                   Pile::kTemporary, elements, this->stored_);
    buffers.master = this->slot("optimizer", "flat fp32 parameters", "deepspeed.whole-master",
                                Pile::kMasterWeights, elements, this->master_);
    buffers.gradients = this->slot("optimizer", "flat fp32 gradients", "deepspeed.step-gradients",
                                   Pile::kTemporary, elements, this->master_);
    buffers.states = this->flat_states(stage, elements, elements, this->master_);
    return buffers;
  }

  // fp32: the given optimizer, and the engine clips before it steps.
  void clip_plain(const Stage<N>& stage, Events& events) {
    if (this->clips()) {
      // the limit, the factor, one, and the smaller of both
      this->norm_.one_by_one(this->trained_tensors(stage), ElementType::kFloat32, {}, true, events,
                             {.numbers = 4});
    }
  }
  void step_plain(const Stage<N>& stage, Events& events) {
    this->step_temporaries(states_, stage, events);
    if (this->clips()) this->norm_.hold(-1, events);
  }

  bool reduces_ = false;
  bool wraps_ = false;  // 16 bit: an fp32 copy is stepped
  bool joins_ = false;  // FP16_Optimizer, around a fused optimizer: one flat tensor
  SlotSet parameters_, master_set_, casts_, zeros_;
  std::vector<SlotSet> frozen_;
  typename EngineModel<N>::StateSlots states_;
  ByStage<N, Buffers> buffers_;
};

}  // namespace

template <class N>
std::unique_ptr<EngineModel<N>> make_deepspeed_unpartitioned(const EngineContext<N>& context) {
  return std::make_unique<DeepSpeedUnpartitioned<N>>(context);
}
template std::unique_ptr<EngineModel<Checked>> make_deepspeed_unpartitioned(
    const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_deepspeed_unpartitioned(
    const EngineContext<Traced>&);

}  // namespace steelyard
