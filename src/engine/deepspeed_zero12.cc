// DeepSpeed ZeRO-1 and ZeRO-2 (DeepSpeedZeroOptimizer).
//
//   held        2P flat parameters + 12P/N
//   backward    +bucket at the first gradient (two with overlap_comm)
//     stage 1   gradients stay whole until the last micro-batch, then go through the bucket
//     stage 2   each gradient is copied into the bucket and dropped; after its reduction the owner keeps 2P/N
//               (once more for each later micro-batch, until it has been added)
//               -bucket when backward has ended
//   step        +owned gradients, joined (2P/N)  +cast to fp32 (4P/N)  -joined -owned  ...step...  -cast
//
// An owner keeps whole tensors: those that its share cuts, too. A gradient larger than the bucket does not go through
// it. Source: deepspeed/runtime/zero/stage_1_and_2.py (0.19.8).
#include <algorithm>
#include <utility>

#include "engine/deepspeed.h"
#include "job/method_choice.h"

namespace steelyard {

namespace {

template <class N>
class DeepSpeedZero12 final : public DeepSpeedModel<N> {
 public:
  using typename EngineModel<N>::Events;
  using typename DeepSpeedModel<N>::Part;

  explicit DeepSpeedZero12(const EngineContext<N>& context) : DeepSpeedModel<N>(context) {
    const Job& job = this->job_;
    pipeline_ = job.parallel.pipeline > 1;
    this->scaled_losses_ = pipeline_ ? 1 : 2;
    const bool overlaps = job.overlap_reduce.value_or(false) && !pipeline_;
    // Hooks reduce while backward runs: always in stage 2; in stage 1 only in a lone micro-batch, and when told to.
    reduces_early_ =
        job.parallel.zero_stage == 2 || (overlaps && job.training.gradient_accumulation == 1);
    bucket_ = this->slot("gradients", "bucket of the reduction (IPG)", "deepspeed.ipg-bucket",
                         Pile::kCommunication, Workbook<N>::symbol("B", job.buckets.reduce),
                         this->stored_);
    bucket_count_ = overlaps ? 2 : 1;
    beside_ = overlaps ? "deepspeed.reduced-beside" : nullptr;
    // The embedding's gradient arrives when nothing else is left; the head's arrives first.
    for (SlotId gradient : context.gradients_of_head)
      if (this->book_.program.slot_at(gradient).bytes > this->book_.program.slot_at(bucket_).bytes)
        passing_by_.push_back(gradient);
    original_ = this->whole_set("parameters, before they are joined", "deepspeed.joined-at-start",
                                Pile::kParameters, this->stored_, Of::kTrained);
    frozen_ = this->frozen_sets(this->stored_);
  }

  GradientPolicy gradient_policy(bool first_micro_batch) const override {
    return first_micro_batch && !reduces_early_ ? GradientPolicy::kKeep : GradientPolicy::kAdd;
  }
  bool keeps_gradients() const override { return false; }
  bool uses_neighbours() const override { return true; }

  void load(const Stage<N>& stage, Events& events) override {
    const Buffers* known = buffers_.find(stage);
    here_ = known ? *known : buffers_.add(stage, make_buffers(stage));
    this->hold_kernel_flag(events);
    EngineModel<N>::hold(frozen_, stage, events);
    // Parameters are joined on the device when both copies have room there, else by way of the host.
    const bool room = this->book_.program.slot_at(here_.flat).bytes * Checked(2) <=
                      this->job_.cluster.device->capacity;
    if (room) EngineModel<N>::hold(original_, stage, events);
    this->empty_cache(events);
    events.push_back({here_.flat, 1});
    if (room) EngineModel<N>::hold(original_, stage, events, -1);
    // The partition is copied before it is widened: clone().to(fp32).
    if (here_.copy >= 0) events.push_back({here_.copy, 1});
    if (here_.master >= 0) events.push_back({here_.master, 1});
    if (here_.copy >= 0) events.push_back({here_.copy, -1});
    if (here_.stepped >= 0 && here_.returned < 0)
      this->pass(here_.stepped, events);  // initialize_optimizer_states: zeros, and no step
    if (here_.returned >= 0) events.push_back({here_.returned, 1});
  }
  void states(const Stage<N>& stage, Events& events) override {
    if (!this->offloads_states()) this->hold(buffers_.at(stage).states, events);
  }
  void left_by_first_step(const Stage<N>&, Events& events) const override {
    // The norm of the step before, for whoever asks; with the optimizer on the host it is there.
    if (!this->offloads_states()) this->norm_.hold(1, events);
  }

  void begin_backward(const Stage<N>& stage, bool first, Events& events) override {
    here_ = buffers_.at(stage);
    DeepSpeedModel<N>::begin_backward(stage, first, events);
  }
  // The buckets appear with the first gradient; the owner's buffer when a full bucket has been reduced.
  void first_gradients(bool first, Events& events) override {
    if (!reduces_early_) {
      if (first) events.push_back({bucket_, bucket_count_});
      return;
    }
    events.push_back({bucket_, bucket_count_});
    for (SlotId gradient : passing_by_) this->pass(gradient, events);
    if (here_.overflows_bucket) own(1, events);
  }
  void end_backward(const Stage<N>& stage, int, bool first, Events& events) override {
    this->drop_scaled_loss(stage, events);
    if (!reduces_early_) return;
    pass_reduced(events);
    if (!here_.overflows_bucket) own(1, events);
    send_owned(events);
    events.push_back({bucket_, -bucket_count_});
    if (!first) own(-1, events);  // added to what the first micro-batch has left
  }
  // Stage 1: gradients go through the bucket one by one when the last micro-batch has run.
  void reduce(const Stage<N>& stage, Events& events) override {
    if (reduces_early_) return;
    here_ = buffers_.at(stage);
    if (pipeline_)
      events.push_back({bucket_, 1});  // reduce_gradients(pipeline_parallel=True) makes another
    send_owned(events);
    this->free_gradients(stage, events);
    pass_reduced(events);
    own(1, events);
    events.push_back({bucket_, pipeline_ ? -bucket_count_ - 1 : -bucket_count_});
  }
  void prepare_step(const Stage<N>& stage, Events& events) override {
    if (this->offloads_states()) {
      // Each gradient's norm was taken when it was sent; one flag says whether all are finite.
      this->norm_.numbers(static_cast<std::int32_t>(buffers_.at(stage).parts.size()) + 1, events);
      return;
    }
    const Buffers& buffers = buffers_.at(stage);
    this->look_for_overflow(events);
    // The norm is taken whether or not gradients are clipped.
    this->norm_.one_by_one(
        static_cast<std::int64_t>(buffers.parts.size()), ElementType::kFloat64,
        {buffers.norm_copy, buffers.largest, this->place_of(buffers.largest, buffers.parts)}, true,
        events, {.numbers = 4});     // finite? two flags, their union, and what stands for no
    this->norm_.numbers(2, events);  // of all groups: stacked, and its norm
    this->norm_.hold(1, events);     // from which the loss scale is taken off
    events.push_back({buffers.joined, 1});
    const bool casts = this->master_ != this->stored_;
    if (casts) {
      events.push_back({buffers.stepped, 1});
      events.push_back({buffers.joined, -1});
    }
    if (!holds_owned_) events.push_back({buffers.owned, -1});
    if (this->clips()) this->norm_.numbers(4, events);  // the factor, with the scale, inverted
  }
  void optimizer(const Stage<N>& stage, Events& events) override {
    if (this->offloads_states()) return;
    const Buffers& buffers = buffers_.at(stage);
    const bool casts = this->master_ != this->stored_;
    this->step(buffers.states, events);
    events.push_back({casts ? buffers.stepped : buffers.joined, -1});
    if (holds_owned_) events.push_back({buffers.owned, -1});
    this->norm_.hold(-2, events);
  }
  HostMemory host(const Stage<N>& stage) const override {
    HostMemory memory = EngineModel<N>::host(stage);
    if (!this->offloads_states()) return memory;
    const Elements share{Checked(plain(this->share_of(this->padded_elements(stage))))};
    const Elements largest{Checked(this->largest_tensor(stage, Of::kTrained))};
    const bool pinned = this->job_.offload.pinned;
    memory.add_tensors("fp32 partition", "deepspeed.offload-partition", pinned,
                       bytes_of(share, this->master_));
    memory.add_tensors("gradients of the partition", "deepspeed.offload-gradients", pinned,
                       bytes_of(share, this->master_));
    memory.add_tensors("parameters on their way back", "deepspeed.offload-returned", pinned,
                       bytes_of(share, this->stored_));
    memory.add_tensors("largest gradient", "deepspeed.offload-temporary", pinned,
                       bytes_of(largest, this->stored_));
    memory.add("optimizer states", "deepspeed.offload-states", HostPlace::kPageable,
               buffers_.at(stage).states.bytes);
    if (this->accumulates())
      memory.add("gradients of earlier micro-batches", "deepspeed.offload-accumulated",
                 pinned ? HostPlace::kPinned : HostPlace::kPageable,
                 bytes_of(share, this->stored_));
    return memory;
  }

 private:
  struct Buffers {
    SlotId flat = -1, master = -1, owned = -1, joined = -1, stepped = -1, norm_copy = -1,
           returned = -1, copy = -1;
    std::vector<SlotId> reduced;  // copies of a bucket's content: the largest, then the last
    std::vector<Part> parts;      // this rank's share, tensor by tensor
    std::int64_t largest = 0;     // elements of the largest of these
    bool overflows_bucket = false;
    typename DeepSpeedModel<N>::FlatStates states;
  };

  Buffers make_buffers(const Stage<N>& stage) {
    const N padded = this->padded_elements(stage);
    const N share = this->share_of(padded);
    Buffers buffers;
    // The embedding's gradient comes last: then the owner's buffer appears when backward has run.
    const std::int64_t before =
        plain(padded) -
        (stage.embedding ? plain(this->all_units(Of::kTrained).front()->elements) : 0);
    buffers.overflows_bucket = before > this->job_.buckets.reduce;
    buffers.flat = this->slot("model", "flat parameters", "deepspeed.flat-parameters",
                              Pile::kParameters, padded, this->stored_);
    if (this->master_ != this->stored_ && !this->offloads_states())
      buffers.copy = this->slot("optimizer", "partition, before it is widened",
                                "deepspeed.partition-copy", Pile::kTemporary, share, this->stored_);
    add_reduced(stage, buffers);
    buffers.states = this->flat_states(stage, share, share, this->master_);
    choose_rank(stage, plain(padded), plain(share), buffers);
    if (this->offloads_states()) {
      buffers.returned = this->slot("gradients", "largest gradient on its way to the host",
                                    "deepspeed.offload-temporary", Pile::kTemporary,
                                    N(this->largest_tensor(stage, Of::kTrained)), this->stored_);
      const N largest = this->at_most(share, buffers.largest);
      buffers.norm_copy =
          this->slot("optimizer", "largest gradient, fp64, for its norm", "deepspeed.norm-copy",
                     Pile::kTemporary, largest, ElementType::kFloat64);
      buffers.stepped =
          this->slot("optimizer", "largest gradient in fp32, for the host",
                     "deepspeed.offload-sent", Pile::kTemporary, largest, this->master_);
      return buffers;
    }
    buffers.master = this->slot("optimizer", "fp32 partition", "deepspeed.fp32-partition",
                                Pile::kMasterWeights, share, this->master_);
    const std::int64_t owned = whole_tensors(buffers.parts);
    // Accumulated in another type, the parts are copies; in their own, they keep the tensors that they are parts of.
    const ElementType accumulated =
        this->job_.training.precision.accumulated_gradients.value_or(this->stored_);
    const N kept = owned == plain(share) || accumulated != this->stored_
                       ? share
                       : Workbook<N>::counted("whole tensors of P/N", owned);
    buffers.owned = this->slot("gradients", "owned gradients",
                               beside_ != nullptr ? beside_ : "deepspeed.owned-gradients",
                               Pile::kGradients, kept, accumulated);
    buffers.joined =
        this->slot("optimizer", "owned gradients, joined", "deepspeed.joined-gradients",
                   Pile::kTemporary, share, this->stored_);
    buffers.stepped =
        this->slot("optimizer", "fp32 gradients of the partition", "deepspeed.step-gradients",
                   Pile::kTemporary, share, this->master_);
    const N largest = this->at_most(share, buffers.largest);
    buffers.norm_copy =
        this->slot("optimizer", "largest gradient, fp64, for its norm", "deepspeed.norm-copy",
                   Pile::kTemporary, largest, ElementType::kFloat64);
    return buffers;
  }

  // A bucket is reduced when the next gradient finds no room, and when all have come: its slices, one for each owner, are
  // joined (average_tensor, allreduce_bucket).
  void add_reduced(const Stage<N>& stage, Buffers& buffers) {
    const std::vector<std::int64_t>& count = this->counts(stage);
    const std::vector<const Unit<N>*> units = this->all_units(Of::kTrained);
    const std::int64_t size = this->job_.buckets.reduce;
    const std::int64_t share_of_rank = plain(this->share_of(this->padded_elements(stage)));
    std::int64_t filled = 0, largest = 0;
    // Slices are joined until they are more than a bucket holds; a slice alone is reduced as it is.
    const auto joined = [&](std::int64_t content) {
      if (content <= size) return content;
      const std::int64_t slices = size / share_of_rank + 1;
      return slices > 1 ? std::min(content, slices * share_of_rank) : 0;
    };
    const auto enter = [&](const TensorShare<N>& share) {
      const std::int64_t elements = plain(share.elements);
      for (std::int64_t copy = 0; copy < share.copies; ++copy) {
        if (filled + elements > size) largest = std::max(largest, joined(std::exchange(filled, 0)));
        filled += elements;
      }
    };
    // Hooks see the last tensor first; otherwise the parameters' order counts.
    for (std::size_t i = 0; i < units.size(); ++i) {
      const std::size_t unit = reduces_early_ ? units.size() - 1 - i : i;
      const std::vector<TensorShare<N>>& shares = units[unit]->tensors;
      for (std::int64_t times = 0; times < count[unit]; ++times) {
        if (reduces_early_)
          std::for_each(shares.rbegin(), shares.rend(), enter);
        else
          std::for_each(shares.begin(), shares.end(), enter);
      }
    }
    for (const std::int64_t content : {largest, joined(filled)})
      if (content > 0)
        buffers.reduced.push_back(this->slot(
            "gradients", "content of a bucket, joined",
            beside_ != nullptr ? beside_ : "deepspeed.reduced-copy", Pile::kCommunication,
            Workbook<N>::counted("content of a bucket", content), this->stored_));
  }
  void pass_reduced(Events& events) const {
    for (const SlotId slot : here_.reduced) this->pass(slot, events);
  }

  // An owner keeps whole tensors, and copies the largest part for its norm: the first rank (the embedding's) or the last one
  // (the most tensors), whichever has more of the two at once.
  void choose_rank(const Stage<N>& stage, std::int64_t padded, std::int64_t share,
                   Buffers& buffers) const {
    std::int64_t most = -1;
    for (const std::int64_t from : {std::int64_t{0}, padded - share}) {
      std::vector<Part> parts = this->parts_within(stage, from, from + share);
      std::int64_t largest = 0;
      for (const Part& part : parts) largest = std::max(largest, part.elements);
      const std::int64_t bits =
          whole_tensors(parts) * bits_of(this->stored_) + largest * bits_of(ElementType::kFloat64);
      if (bits <= most) continue;
      most = bits;
      buffers.parts = std::move(parts);
      buffers.largest = largest;
    }
  }
  static std::int64_t whole_tensors(const std::vector<Part>& parts) {
    std::int64_t sum = 0;
    for (const Part& part : parts) sum += part.whole;
    return sum;
  }

  // Each owned gradient: its norm, and its copy in fp32 on the way to the host.
  void send_owned(Events& events) const {
    if (here_.stepped < 0 || here_.returned < 0) return;
    this->pass(here_.norm_copy, events);
    this->pass(here_.stepped, events);
  }
  void own(std::int32_t count, Events& events) const {
    if (here_.owned >= 0) events.push_back({here_.owned, count});
  }
  bool pipeline_ = false, reduces_early_ = false;
  std::int32_t bucket_count_ = 1;
  // Gradients of all groups of parameters lie in one buffer, which the last group's hold while the others are stepped.
  const bool holds_owned_ = has_two_groups(this->job_);
  SlotId bucket_ = -1;
  const char* beside_ = nullptr;    // the rule of what a reduction allocates beside computation
  std::vector<SlotId> passing_by_;  // gradients of the head that are larger than the bucket
  SlotSet original_;
  std::vector<SlotSet> frozen_;
  Buffers here_;  // of the stage whose load was asked for last
  ByStage<N, Buffers> buffers_;
};

}  // namespace

template <class N>
std::unique_ptr<EngineModel<N>> make_deepspeed_zero12(const EngineContext<N>& context) {
  return std::make_unique<DeepSpeedZero12<N>>(context);
}
template std::unique_ptr<EngineModel<Checked>> make_deepspeed_zero12(const EngineContext<Checked>&);
template std::unique_ptr<EngineModel<Traced>> make_deepspeed_zero12(const EngineContext<Traced>&);

}  // namespace steelyard
