// PyTorch FSDP2 (fully_shard on every layer, then on the model; in between, where wrap.ends says so, on the ends).
//
//   forward, layer i     +gather_i  +parameters_i  -gather_(i-1)  ...compute...  -parameters_i
//   loss's backward      +gather_(last)
//   backward, layer i    +parameters_i  -gather_i  +gather_(i-1)  ...gradients_i...
//                        -parameters_i  -reduce_input_(i+1)  +reduce_input_i  -gradients_i  +shard of gradients
//   before the last micro-batch, under set_requires_gradient_sync(False)
//                        -parameters_i  and gradients_i stay, in the type of their reduction: later ones are added to them
//
// Sources: torch/distributed/fsdp/_fully_shard/{_fsdp_param_group,_fsdp_collectives}.py. Embedding, final norm and head
// belong to the root, which stays gathered from its forward to the end of backward. Apart, the embedding is gathered for its
// forward and again for its backward, and norm and head stay from the one to the other, and are reduced before any layer.
// zero_stage 2 keeps every layer gathered as well (reshard_after_forward=False).
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
        runs_head_(this->job_.training.log_probabilities != LogProbabilities::kTiles),
        reshards_last_(this->job_.wrapping.reshards_last && !keeps_gathered_ && runs_head_),
        hooks_loss_(this->job_.implementation == Implementation::kTransformers &&
                    !this->job_.wrapping.ends_apart &&
                    this->job_.training.log_probabilities == LogProbabilities::kNone),
        reduces_once_(gathers_once_ && !this->job_.parallel.sync_each_micro_batch) {}

  GradientPolicy gradient_policy(bool first_micro_batch) const override {
    const bool adds = (reduces_once_ || waits_) && waiting_.empty() && !first_micro_batch;
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
    for_each_group(
        stage, [&](Ends which) { gather(which, stage, events); },
        [&](int kind) { gather(kind, events); });
  }
  void begin_forward(const Stage<N>& stage, bool first, Events& events) override {
    if (gathers_once_ && !first) return;  // gathered by the first micro-batch
    stage_ = stage;
    if (gathers_at_start()) return copy_out_all(stage, events);
    if (stands_whole_ && !ends_apart_) return ends(parameters_, first_ends(), stage, events, 1);
    gather(first_ends(), stage, events);
    copy_out(first_ends(), stage, events);
  }
  void after_embedding(const Stage<N>& stage, Events& events) const override {
    if (ends_apart_ && !keeps_gathered_) ends(parameters_, Ends::kEmbedding, stage, events, -1);
  }
  void before_forward(const Neighbours& here, bool first, Events& events) override {
    if (gathers_once_ && (!first || gathers_at_start())) return;  // all is there
    gather(here.unit, events);
    copy_out(here.unit, events);
    free_previous_gather(here.previous, events);  // a local of wait_for_unshard held it
  }
  void after_forward(const Neighbours& here, bool, Events& events) override {
    const bool stays = keeps_gathered_ || (here.next < 0 && keeps_last(here.unit));
    if (!stays) one(parameters_, here.unit, -1, events);
  }
  void before_head(const Stage<N>& stage, int last_unit, bool first, Events& events) override {
    if (!ends_apart_ || (gathers_once_ && (!first || gathers_at_start()))) return;
    if (stands_whole_) return ends(parameters_, Ends::kHead, stage, events, 1);
    gather(Ends::kHead, stage, events);
    copy_out(Ends::kHead, stage, events);
    free_previous_gather(last_unit, events);
  }
  void after_head(const Stage<N>& stage, Events& events) const override {
    if (ends_apart_ && reshards_last_) ends(parameters_, Ends::kHead, stage, events, -1);
  }
  void end_forward(const Stage<N>& stage, int last_unit, bool first, Events& events) override {
    last_unit_ = last_unit;
    if (gathers_once_ && (!first || gathers_at_start())) return;  // all is there
    if (!ends_apart_ && reshards_last_) ends(parameters_, Ends::kAll, stage, events, -1);
    if (ends_apart_ && stage.head && !stands_whole_)
      ends(gathered_, Ends::kHead, stage, events, -1);
    else
      free_previous_gather(last_unit, events);
  }
  // The root's hook stands at what its forward returns: the loss itself, where the model computes it. That of norm and head
  // stands at the logits. A group ends its forward, and is hooked, when all of its modules have run: of a head that is read and
  // not called it never does (_fsdp_state.py, _post_forward), and backward's first gather is the last layer's own.
  void begin_backward(const Stage<N>& stage, bool, Events& events) override {
    if (hooks_loss_) before_last_backward(stage, events);
  }
  void around_head_product(std::int32_t count, Events& events) const override {
    if (!hooks_loss_ && runs_head_ && count > 0) before_last_backward(stage_, events);
  }
  void after_head_backward(const Stage<N>& stage, bool first, Events& events) override {
    if (ends_apart_ && reduces_once_) return add_to_waiting(Ends::kHead, stage, first, events);
    if (ends_apart_) after_backward_of(Ends::kHead, stage, first, -1, events);
  }
  void before_backward(const Neighbours& here, bool, Events& events) override {
    if (keeps_gathered_) return;
    if (here.previous >= 0 || !keeps_last(here.unit)) {  // it has been prefetched, or comes now
      if (here.previous < 0 && !runs_head_) gather(here.unit, events);
      copy_out(here.unit, events);
      one(gathered_, here.unit, -1, events);
    }
    // Prefetching follows the order of forward, and goes on where backward ends.
    const int next = here.next >= 0 ? here.next : stage_.untouched_below;
    if (next >= 0)
      gather(next, events);
    else if (ends_apart_)
      gather(Ends::kEmbedding, stage_, events);
  }
  void after_backward(const Neighbours& here, bool first, Events& events) override {
    const auto kind = static_cast<std::size_t>(here.unit);
    waiting_.add_to(this->context_.gradients_of_kind[kind], first, events);
    if (reduces_once_) return waiting_.keep(this->context_.gradients_of_kind[kind], first, events);
    if (!gathers_once_) one(parameters_, here.unit, -1, events);
    if (waits_ && !in_last_)
      return waiting_.keep(this->context_.gradients_of_kind[kind], first, events);
    free_previous_input(here.previous, stage_, events);
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
  void before_embedding_backward(const Stage<N>& stage, Events& events) const override {
    if (!ends_apart_ || keeps_gathered_ || !trains_embedding()) return;
    copy_out(Ends::kEmbedding, stage, events);
    ends(gathered_, Ends::kEmbedding, stage, events, -1);
  }
  void end_backward(const Stage<N>& stage, int last_unit, bool first, Events& events) override {
    if (reduces_once_) return add_to_waiting(first_ends(), stage, first, events);
    after_backward_of(first_ends(), stage, first, last_unit, events);
    if (!waits_ || in_last_) ends(reduce_input_, first_ends(), stage, events, -1);
    if (gathers_once_) return;
    // What backward has not come to is let go at its end.
    if (!keeps_gathered_ && stage.untouched_below >= 0)
      one(gathered_, stage.untouched_below, -1, events);
    else if (!keeps_gathered_ && ends_apart_ && !trains_embedding())
      ends(gathered_, Ends::kEmbedding, stage, events, -1);
    for (std::size_t kind = 0; kind < stage.layers_of_kind.size(); ++kind)
      if (keeps_gathered_ && this->is_untouched(kind)) all_of(parameters_, stage, kind, -1, events);
  }
  // Pipeline: groups are reduced one after the other when the last micro-batch has run, the root first.
  void reduce(const Stage<N>& stage, Events& events) override {
    if (gathers_once_ && !reduces_once_) return let_all_go(stage, events);
    if (!reduces_once_) return;
    Events input;  // of the group before goes when the next one's is made
    const auto let_input_go = [&] { events.insert(events.end(), input.begin(), input.end()); };
    for_each_group(
        stage,
        [&](Ends which) {
          ends(parameters_, which, stage, events, -1);
          let_input_go();
          reduce_ends(which, stage, true, events);
          input.clear();
          ends(reduce_input_, which, stage, input, -1);
        },
        [&](int unit) {
          const auto kind = static_cast<std::size_t>(unit);
          one(parameters_, unit, -1, events);
          let_input_go();
          copy_in(unit, events);
          const SlotId last = last_gradient_of(kind);
          drop_gradients(kind, last, events);
          keep_gradients(unit, events);
          if (last >= 0) events.push_back({waiting_.reduced(last), -1});
          input.clear();
          one(reduce_input_, unit, -1, input);
        });
    let_input_go();
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
    ends(gradients_, Ends::kAll, stage, events, -1);
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
  using Ends = typename Groups::Ends;
  using Groups::copy_in, Groups::keep_gradients, Groups::gather, Groups::copy_out;
  using Groups::ends, Groups::first_ends, Groups::last_ends, Groups::ends_apart_;
  using Groups::gathered_, Groups::parameters_, Groups::reduce_input_, Groups::reduce_output_;
  using Groups::gathers_once_, Groups::waits_, Groups::reduction_is_cast_;
  using Groups::gradients_, Groups::waiting_, Groups::states_, Groups::stored_;
  using Groups::one, Groups::all_of;

  // torch/distributed/pipelining/schedules.py, _add_unshard_reshard: gathers start before the step that needs them, of up to
  // three chunks, and the runtime waits for all of a chunk before its first forward. Of the job as it is: a search asks on.
  bool gathers_at_start() const {
    return gathers_once_ && runs_torch_steps(this->job_) &&
           pipeline_shape(this->job_).chunks <= kMostActiveChunks;
  }
  void copy_out_all(const Stage<N>& stage, Events& events) const {
    for_each_group(
        stage,
        [&](Ends which) {
          copy_out(which, stage, events);
          ends(gathered_, which, stage, events, -1);
        },
        [&](int kind) {
          copy_out(kind, events);
          one(gathered_, kind, -1, events);
        });
  }
  // In the order of the modules: the model itself, what is in it as it stands there.
  template <class OfEnds, class OfLayer>
  void for_each_group(const Stage<N>& stage, OfEnds of_ends, OfLayer of_layer) const {
    of_ends(first_ends());
    for (std::size_t kind = 0; kind < stage.layers_of_kind.size(); ++kind)
      for (std::int64_t layer = 0; layer < stage.layers_of_kind[kind]; ++layer)
        of_layer(static_cast<int>(kind));
    if (ends_apart_) of_ends(Ends::kHead);
  }

  template <class Visit>
  void for_each_gradient_list(Ends which, const Stage<N>& stage, Visit visit) const {
    if (this->has_embedding(which, stage)) visit(this->context_.gradients_of_embedding);
    if (this->has_head(which, stage)) visit(this->context_.gradients_of_head);
  }
  bool trains_embedding() const { return !this->context_.gradients_of_embedding.empty(); }
  bool keeps_last(int unit) const {
    return this->job_.wrapping.keeps_last_layer &&
           !this->is_untouched(static_cast<std::size_t>(unit));
  }
  // Behind the last micro-batch of a pipeline that has reduced each.
  void let_all_go(const Stage<N>& stage, Events& events) const {
    ends(parameters_, Ends::kAll, stage, events, -1);
    for (std::size_t kind = 0; kind < stage.layers_of_kind.size(); ++kind)
      all_of(parameters_, stage, kind, -1, events);
  }
  // What computes last stands gathered, or is gathered again; then the layer before it is prefetched.
  void before_last_backward(const Stage<N>& stage, Events& events) const {
    if (keeps_gathered_) return;
    if (reshards_last_) {
      gather(last_ends(), stage, events);
      copy_out(last_ends(), stage, events);
      ends(gathered_, last_ends(), stage, events, -1);
    }
    if (last_unit_ >= 0 && !keeps_last(last_unit_)) gather(last_unit_, events);
  }
  void free_previous_gather(int previous, Events& events) const {
    if (previous >= 0)
      one(gathered_, previous, -1, events);
    else if (!stands_whole_ || ends_apart_)
      ends(gathered_, first_ends(), stage_, events, -1);
  }
  void free_previous_input(int previous, const Stage<N>& stage, Events& events) const {
    if (previous >= 0)
      one(reduce_input_, previous, -1, events);
    else if (ends_apart_)
      ends(reduce_input_, Ends::kHead, stage, events, -1);
  }
  // A pipeline's, until its last micro-batch has run; nothing where gradients wait as they are.
  void add_to_waiting(Ends which, const Stage<N>& stage, bool first, Events& events) const {
    for_each_gradient_list(which, stage, [&](const auto& gradients) {
      waiting_.add_to(gradients, first, events);
      waiting_.keep(gradients, first, events);
    });
  }
  // `previous`: the layer that was reduced before; -1: none was.
  void after_backward_of(Ends which, const Stage<N>& stage, bool first, int previous,
                         Events& events) {
    const auto for_each_list = [&](auto visit) { for_each_gradient_list(which, stage, visit); };
    for_each_list([&](const auto& gradients) { waiting_.add_to(gradients, first, events); });
    const bool is_there = keeps_gathered_ || which != Ends::kEmbedding || trains_embedding();
    if (!gathers_once_ && is_there) ends(parameters_, which, stage, events, -1);
    if (waits_ && !in_last_)
      return for_each_list([&](const auto& gradients) { waiting_.keep(gradients, first, events); });
    if (which != Ends::kHead) free_previous_input(previous, stage, events);
    reduce_ends(which, stage, first || waits_, events);
  }
  void reduce_ends(Ends which, const Stage<N>& stage, bool first, Events& events) const {
    copy_in(which, stage, events);
    const std::vector<SlotId>& of_embedding = this->context_.gradients_of_embedding;
    const std::vector<SlotId>& of_head = this->context_.gradients_of_head;
    const Architecture& model = *this->job_.model;
    SlotId last = -1;
    if (this->has_embedding(which, stage)) last = last_of(model.embedding_parameters, of_embedding);
    if (this->has_head(which, stage)) {
      const SlotId here = last_of(model.head_parameters, of_head);
      if (here >= 0) last = here;
      // The copy of a tied weight stands behind the last norm.
      if (!stage.embedding && model.tied_head && !of_head.empty()) last = of_head.back();
    }
    for_each_gradient_list(which, stage, [&](const std::vector<SlotId>& gradients) {
      for (SlotId gradient : gradients)
        if (gradient != last) events.push_back({waiting_.reduced(gradient), -1});
    });
    // Without a cast what has been reduced is the gradient itself.
    const bool is_gradient = first && !reduction_is_cast_;
    if (!is_gradient) ends(reduce_output_, which, stage, events, 1);
    if (first || reduction_is_cast_) ends(gradients_, which, stage, events, 1);
    const bool goes = this->offloads_parameters() ? is_gradient || first || reduction_is_cast_
                                                  : !first && reduction_is_cast_;
    if (goes) ends(gradients_, which, stage, events, -1);
    if (!is_gradient) ends(reduce_output_, which, stage, events, -1);
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
  const bool runs_head_;  // as a module
  // The trained model scores without its adapters, behind its own forward: what that has left whole is there.
  const bool stands_whole_ = this->context_.style.scores && this->job_.adapter.has_value();
  const bool reshards_last_;
  const bool hooks_loss_;
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
