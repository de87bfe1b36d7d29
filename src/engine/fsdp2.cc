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
#include "engine/fsdp2_groups.h"
#include "job/pipeline_shape.h"

namespace steelyard {

namespace {

constexpr std::int64_t kMostActiveChunks = 3;

template <class N>
class Fsdp2 final : public Fsdp2Groups<N> {
 public:
  using typename EngineModel<N>::Events;

  explicit Fsdp2(const EngineContext<N>& context)
      : Fsdp2Groups<N>(context),
        keeps_gathered_(this->job_.parallel.zero_stage == 2 || gathers_once_),
        reduces_once_(gathers_once_ && !this->job_.parallel.sync_each_micro_batch) {}

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
    this->hold(this->shards_, stage, events);
    EngineModel<N>::hold(this->frozen_, stage, events);
  }
  void states(const Stage<N>& stage, Events& events) override {
    if (this->offloads_parameters()) return;
    this->hold_states(states_, stage, events);
  }

  void begin_step(const Stage<N>& stage, Events& events) const override {
    if (!gathers_at_start()) return;
    gather_root(stage, events);
    for_each_layer(stage, [&](int kind) { gather(kind, events); });
  }
  void begin_forward(const Stage<N>& stage, bool first, Events& events) override {
    if (gathers_once_ && !first) return;  // gathered by the first micro-batch
    stage_ = stage;
    if (gathers_at_start()) return copy_out_all(stage, events);
    gather_root(stage, events);
    copy_out_root(stage, events);
  }
  void before_forward(const Neighbours& here, bool first, Events& events) override {
    if (gathers_once_ && (!first || gathers_at_start())) return;  // all is there
    gather(here.unit, events);
    copy_out(here.unit, events);
    free_previous_gather(here.previous, events);  // a local of wait_for_unshard held it
  }
  void after_forward(const Neighbours& here, bool, Events& events) override {
    if (!keeps_gathered_) one(parameters_, here.unit, -1, events);
  }
  void end_forward(const Stage<N>&, int last_unit, bool first, Events& events) override {
    last_unit_ = last_unit;
    if (gathers_once_ && (!first || gathers_at_start())) return;  // all is there
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
    for_each_layer(stage, [&](int unit) {
      const auto kind = static_cast<std::size_t>(unit);
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
    });
    if (previous >= 0)
      one(reduce_input_, previous, -1, events);
    else
      root(reduce_input_, stage, events, -1);
  }
  void optimizer(const Stage<N>& stage, Events& events) override {
    if (this->offloads_parameters()) return;  // it steps on the host
    if (this->clips()) {
      this->clip_by_foreach(stage, this->largest_shard(stage), stored_, events);
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

 private:
  using Groups = Fsdp2Groups<N>;
  using Groups::copy_in, Groups::copy_in_root, Groups::keep_gradients;
  using Groups::gather, Groups::gather_root, Groups::copy_out, Groups::copy_out_root;
  using Groups::gathered_, Groups::parameters_, Groups::reduce_input_, Groups::reduce_output_;
  using Groups::gathers_once_, Groups::waits_, Groups::reduction_is_cast_;
  using Groups::gradients_, Groups::waiting_, Groups::states_, Groups::stored_;
  using Groups::one, Groups::all_of, Groups::root;

  // torch/distributed/pipelining/schedules.py, _add_unshard_reshard: gathers start before the step that needs them, of up to
  // three chunks, and the runtime waits for all of a chunk before its first forward. Of the job as it is: a search asks on.
  bool gathers_at_start() const {
    return gathers_once_ && runs_torch_steps(this->job_) &&
           pipeline_shape(this->job_).chunks <= kMostActiveChunks;
  }
  void copy_out_all(const Stage<N>& stage, Events& events) const {
    copy_out_root(stage, events);
    root(gathered_, stage, events, -1);
    for_each_layer(stage, [&](int kind) {
      copy_out(kind, events);
      one(gathered_, kind, -1, events);
    });
  }
  template <class Visit>
  void for_each_layer(const Stage<N>& stage, Visit visit) const {
    for (std::size_t kind = 0; kind < stage.layers_of_kind.size(); ++kind)
      for (std::int64_t layer = 0; layer < stage.layers_of_kind[kind]; ++layer)
        visit(static_cast<int>(kind));
  }

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
  bool prefetches_before_loss() const {
    return !keeps_gathered_ && this->job_.implementation == Implementation::kTransformers;
  }
  void free_previous_gather(int previous, Events& events) const {
    if (previous >= 0)
      one(gathered_, previous, -1, events);
    else
      root(gathered_, stage_, events, -1);
  }
  void reduce_root(const Stage<N>& stage, bool first, Events& events) const {
    copy_in_root(stage, events);
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

  const bool keeps_gathered_;
  // Unless told, stages of a pipeline reduce gradients once, after the last micro-batch.
  const bool reduces_once_;
  bool in_last_ = false;
  Stage<N> stage_;
  int last_unit_ = -1;  // in forward's order
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
