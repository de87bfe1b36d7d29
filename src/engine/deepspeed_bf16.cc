// DeepSpeed's BF16_Optimizer: states are cut over the ranks, gradients are not.
//
//   held       2P flat parameters + 4P flat gradient buffer + 12P/N
//   backward   2P gradients, zeroed in place between micro-batches; each is widened and added to the buffer
//   reduction  the buffer cast to 16 bits, all at once: 2P
//
// Sources: deepspeed/runtime/bf16_optimizer.py, deepspeed/runtime/engine.py, allreduce_bucket (0.19.8).
#include "engine/deepspeed.h"

namespace steelyard {

namespace {

template <class N>
class DeepSpeedBf16 final : public DeepSpeedModel<N> {
 public:
  using typename EngineModel<N>::Events;

  explicit DeepSpeedBf16(const EngineContext<N>& context) : DeepSpeedModel<N>(context) {
    accumulated_ = this->job_.training.precision.accumulated_gradients.value_or(this->stored_);
    original_ = this->whole_set("parameters, before they are joined", "deepspeed.joined-at-start",
                                Pile::kParameters, this->stored_, Of::kTrained);
    frozen_ = this->frozen_sets(this->stored_);
  }

  GradientPolicy gradient_policy(bool first_micro_batch) const override {
    return first_micro_batch ? GradientPolicy::kKeep : GradientPolicy::kAdd;
  }

  void load(const Stage<N>& stage, Events& events) override {
    const Buffers* known = buffers_.find(stage);
    const Buffers& buffers = known ? *known : buffers_.add(stage, make_buffers(stage));
    this->hold_kernel_flag(events);
    EngineModel<N>::hold(frozen_, stage, events);
    EngineModel<N>::hold(original_, stage, events);
    events.push_back({buffers.flat, 1});
    EngineModel<N>::hold(original_, stage, events, -1);
    events.push_back({buffers.master, 1});
    events.push_back({buffers.gradients, 1});
  }
  void states(const Stage<N>& stage, Events& events) override {
    this->hold(buffers_.at(stage).states, events);
  }
  void left_by_first_step(const Stage<N>&, Events& events) const override {
    this->norm_.hold(1, events);  // the norm of the step before, for whoever asks
  }
  // Gradients are widened one tensor at a time after each backward.
  void end_backward(const Stage<N>& stage, int, bool, Events& events) override {
    this->drop_scaled_loss(stage, events);
    if (accumulated_ != this->stored_) this->pass(buffers_.at(stage).widened, events);
  }
  void reduce(const Stage<N>& stage, Events& events) override {
    if (this->ranks_ > 1 && accumulated_ != this->stored_)
      this->pass(buffers_.at(stage).sent, events);
  }
  void prepare_step(const Stage<N>& stage, Events& events) override {
    const Buffers& buffers = buffers_.at(stage);
    // The norm is taken whether or not gradients are clipped.
    // Its root; finite? two flags, their union, and what stands for no.
    this->norm_.one_by_one(buffers.tensors, ElementType::kFloat32, {buffers.norm_copy}, true,
                           events, {.numbers = 5, .squares = true});
    if (this->clips())
      this->norm_.numbers(4, events);  // norm + 1e-6, its reciprocal, the factor; below one?
    if (accumulated_ != this->master_) events.push_back({buffers.stepped, 1});
  }
  void optimizer(const Stage<N>& stage, Events& events) override {
    const Buffers& buffers = buffers_.at(stage);
    this->step(buffers.states, events);
    if (accumulated_ != this->master_) events.push_back({buffers.stepped, -1});
    this->norm_.hold(-1, events);
  }

 private:
  struct Buffers {
    SlotId flat = -1, master = -1, gradients = -1, widened = -1, sent = -1, stepped = -1,
           norm_copy = -1;
    std::int64_t tensors = 0;
    typename DeepSpeedModel<N>::FlatStates states;
  };
  Buffers make_buffers(const Stage<N>& stage) {
    const N padded = this->padded_elements(stage);
    const N share = this->share_of(padded);
    Buffers buffers;
    buffers.flat = this->slot("model", "flat parameters", "deepspeed.flat-parameters",
                              Pile::kParameters, padded, this->stored_);
    buffers.master = this->slot("optimizer", "fp32 partition", "deepspeed.fp32-partition",
                                Pile::kMasterWeights, share, this->master_);
    buffers.gradients =
        this->slot("gradients", "flat accumulation buffer", "deepspeed.accumulation-buffer",
                   Pile::kGradients, padded, accumulated_);
    buffers.widened =
        this->slot("gradients", "largest gradient, widened", "deepspeed.widened-gradient",
                   Pile::kTemporary, N(this->largest_tensor(stage, Of::kTrained)), accumulated_);
    buffers.sent =
        this->slot("gradients", "accumulation buffer, cast for the all-reduce",
                   "deepspeed.all-reduce-cast", Pile::kCommunication, padded, this->stored_);
    buffers.stepped =
        this->slot("optimizer", "fp32 gradients of the partition", "deepspeed.step-gradients",
                   Pile::kTemporary, share, this->master_);
    buffers.tensors = this->trained_tensors(stage);
    if (accumulated_ != ElementType::kFloat32)
      buffers.norm_copy = this->slot(
          "optimizer", "largest gradient, fp32, for its norm", "deepspeed.norm-copy",
          Pile::kTemporary, N(this->largest_tensor(stage, Of::kTrained)), ElementType::kFloat32);
    buffers.states = this->flat_states(stage, share, share, this->master_);
    return buffers;
  }

  ElementType accumulated_ = ElementType::kFloat32;
  SlotSet original_;
  std::vector<SlotSet> frozen_;
  ByStage<N, Buffers> buffers_;
};

}  // namespace

template <class N>
std::unique_ptr<EngineModel<N>> make_deepspeed_bf16(const EngineContext<N>& context) {
  return std::make_unique<DeepSpeedBf16<N>>(context);
}
template std::unique_ptr<EngineModel<Checked>> make_deepspeed_bf16(const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_deepspeed_bf16(const EngineContext<Traced>&);

}  // namespace steelyard
