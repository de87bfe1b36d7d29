// Megatron-LM: gradients live in one contiguous buffer that exists from load on; weight gradients are accumulated into
// it by the kernels.
//
//   no distributed optimizer   2P parameters + 4P gradient buffer + 4P main + 8P moments
//   distributed optimizer      2P + 4P + 12P/d; parameters are views of a second contiguous buffer
//   16-bit gradients           2P in the buffer, and 4P (4P/d) of fp32 copies while the optimizer steps
//   no contiguous buffers      2P of this step's gradients, 2P of the last one's, 4P fp32 copies: Megatron-LM of 2021
//
// Sources: megatron/core/distributed/param_and_grad_buffer.py, megatron/core/optimizer/distrib_optimizer.py.
// d counts data x context ranks; experts have buffers of their own, divided by the ranks that hold the same experts.
#include "engine/engine.h"

namespace steelyard {

namespace {

template <class N>
class Megatron final : public EngineModel<N> {
 public:
  using typename EngineModel<N>::Events;
  using Sharding = typename EngineModel<N>::Sharding;

  explicit Megatron(const EngineContext<N>& context) : EngineModel<N>(context) {
    const Precision& precision = this->job_.training.precision;
    distributed_ = this->job_.parallel.zero_stage >= 1;
    const ShardRanks ranks =
        distributed_ ? ShardRanks(this->job_.parallel.data * this->job_.parallel.context,
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
    parameters_ = distributed_
                      ? this->flat_set("parameters", "megatron.parameter-buffer", Pile::kParameters,
                                       precision.parameters, 1, Of::kTrained)
                      : this->whole_set("parameters", "parameters.whole", Pile::kParameters,
                                        precision.parameters, Of::kTrained);
    if (!contiguous_)
      left_ = this->whole_set("gradients of the step before, then of all ranks",
                              "megatron.gradients-left", Pile::kGradients, precision.parameters);
    gradients_ = this->flat_set("gradient buffer", "megatron.gradient-buffer", Pile::kGradients,
                                main_gradient, 1);
    const bool master = precision.master.has_value();
    const Sharding sharding = distributed_ ? Sharding::kFlat : Sharding::kWhole;
    if (master)
      master_ = this->sharded_set("main parameters", "megatron.main-parameters",
                                  Pile::kMasterWeights, *precision.master, sharding, ranks);
    // Without fp32 gradients the optimizer steps on fp32 copies of them.
    if (master && bits_of(main_gradient) < 32)
      main_gradients_ = this->sharded_set("main gradients", "megatron.main-gradients",
                                          Pile::kGradients, ElementType::kFloat32, sharding, ranks);
    states_ = this->state_slots(sharding, ranks, state_type(precision, true));
    const OperatorStyle& style = context.style;
    const std::int64_t gathering =
        style.expert * (style.sequence_parallel || style.tensor == 1 ? style.expert_tensor : 1);
    if (style.experts.dispatcher == ExpertDispatcher::kAllGather && gathering > 1)
      gathered_tokens_ = this->book_.slot(
          {"mlp.experts", "tokens of all ranks", "dispatch.gathered-buffer"}, Pile::kCommunication,
          context.sizes.shard_tokens * context.sizes.hidden * N(gathering), style.compute);
  }

  GradientPolicy gradient_policy(bool first_micro_batch) const override {
    if (contiguous_) return GradientPolicy::kFused;
    return first_micro_batch ? GradientPolicy::kKeep : GradientPolicy::kAdd;
  }
  bool keeps_gradients() const override { return false; }

  void load(const Stage<N>& stage, Events& events) override {
    this->hold(parameters_, stage, events);
    this->hold(frozen_, stage, events);
    if (contiguous_) this->hold(gradients_, stage, events);
    this->hold(master_, stage, events);
    if (gathered_tokens_ >= 0 && has_experts(stage)) events.push_back({gathered_tokens_, 1});
  }
  void states(const Stage<N>& stage, Events& events) override {
    // Today's zero_grad drops the fp32 copies too; that of 2021 left them, and `main_grad` kept the gradients themselves
    // until the next ones were flattened for their reduction.
    if (!contiguous_) {
      this->hold(main_gradients_, stage, events);
      this->hold(left_, stage, events);
    }
    this->hold_states(states_, stage, events);
    if (this->clips()) this->norm_.hold(1, events);  // of the step before, until the next is there
  }
  void optimizer(const Stage<N>& stage, Events& events) override {
    this->hold(contiguous_ ? main_gradients_ : left_, stage, events, contiguous_ ? 1 : -1);
    if (this->clips()) {
      this->norm_.in_one_pass(events);
      this->norm_.numbers(3, events);  // norm + 1e-6, its reciprocal, the factor; a flag
    }
    this->step_temporaries(states_, stage, events);
    if (this->clips()) this->norm_.hold(-1, events);
    if (contiguous_) {
      this->hold(main_gradients_, stage, events, -1);
    } else {
      this->free_gradients(stage, events);
      this->hold(left_, stage, events);
    }
  }

 private:
  bool has_experts(const Stage<N>& stage) const {
    for (std::size_t kind = 0; kind < stage.layers_of_kind.size(); ++kind)
      if (stage.layers_of_kind[kind] > 0 &&
          std::holds_alternative<ExpertMlp>(this->job_.model->kinds[kind].mlp))
        return true;
    return false;
  }

  bool distributed_ = false;
  SlotId gathered_tokens_ = -1;  // made by the first layer that gathers, and never let go
  bool contiguous_ = true;
  SlotSet parameters_, frozen_, gradients_, master_, main_gradients_, left_;
  typename EngineModel<N>::StateSlots states_;
};

}  // namespace

template <class N>
std::unique_ptr<EngineModel<N>> make_megatron(const EngineContext<N>& context) {
  return std::make_unique<Megatron<N>>(context);
}
template std::unique_ptr<EngineModel<Checked>> make_megatron(const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_megatron(const EngineContext<Traced>&);

}  // namespace steelyard
