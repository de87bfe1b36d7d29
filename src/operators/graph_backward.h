// Plays a graph backwards, as autograd does: gradients that meet, what is saved and freed, regions that run again.
//
//   whole   for each operator, last first:   rerun its region · gradients of weights and inputs · let go what it saved
//   split   the same without weights;        then, in the order in which they were put off: gradients of weights
#pragma once

#include <utility>
#include <vector>

#include "operators/graph.h"

namespace steelyard {

// Plays operators in reverse. Split, what makes gradients of weights is put off: it holds its incoming gradient and what
// it saved until its turn comes, in the order in which it was put off.
template <class N>
class BackwardPlayer {
 public:
  BackwardPlayer(const Graph<N>& graph, GradientPolicy policy, bool split)
      : graph_(graph),
        policy_(policy),
        split_(split),
        gradient_(graph.values_.size(), -1),
        overwritten_(graph.storages_.size(), false),
        brought_back_(graph.returned_before_) {
    tapes_.input.reserve(graph.operators_.size() * 6);
    carried_.reserve(graph.values_.size());
    if (split) find_weight_users();
  }

  SplitTapes play();

 private:
  // A gradient on its way: how many readers still hold it.
  struct Carried {
    SlotId slot = -1;
    int holders = 0;
  };
  struct Deferred {
    int operation = 0;
    Few<int, 8> incoming;
  };
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  const typename Graph<N>::Storage& storage_of(std::size_t value) const {
    return graph_.storages_[at(graph_.values_[value].storage)];
  }
  void put(SlotId slot, std::int32_t count) { events_->push_back({slot, count}); }

  // The operators whose weights are the last to need a storage, of the first run and of a second one; -1: none.
  void find_weight_users();
  // Non-reentrant checkpoints (torch/utils/checkpoint.py) compute a region again for every call of autograd: once for the
  // input's gradient, which reads all of it, and once for each operator with parameters. What such a call does not read stays
  // until the operator that saved it has run.
  void rerun_for(const Deferred& deferred);
  bool is_rerun_of(std::size_t index, int region) const;
  void let_copies_go(std::size_t index);
  // What stands above the last operator with parameters goes with the roots of the input's backward; the rest when the
  // weights have been.
  void let_graph_go(bool above);
  // Kept by nobody but operators with parameters: goes with the last of them.
  bool is_of_weights_alone(std::size_t storage) const;
  // stage_backward_weight goes through the parameters: of a layer's modules first those of attention and MLP, then the
  // norms. Its names hold what the turn before had: the gradient, its sum and the weight's own.
  void play_weights_of_graph();
  template <class Do>
  void for_parameters(const Deferred& deferred, Do act) {
    if (policy_ == GradientPolicy::kFused) return;
    for (const BackwardStep& step : graph_.operators_[at(deferred.operation)].backward)
      if (step.kind == BackwardStep::kParameterGradient) act(step.index);
  }
  void drop_all(const Few<int, 8>& buffers) {
    for (int buffer : buffers)
      if (buffer >= 0) drop(buffer);
  }
  // sum() of the one gradient that has arrived is a new tensor.
  void put_all(const Few<int, 8>& buffers, std::int32_t count) {
    for (int buffer : buffers)
      if (buffer >= 0) put(carried_[at(buffer)].slot, count);
  }
  // What was kept goes with the operator that kept it, unless a gradient was written over it: that goes as gradients do.
  bool goes_with_saver(std::size_t index) const {
    const auto& storage = graph_.storages_[index];
    return storage.released && !storage.outlives && !overwritten_[index];
  }
  // What a region has back from the host before it runs again.
  void fetch_inputs(std::size_t region) {
    for (const auto& input : graph_.region_inputs_[region])
      put(graph_.storages_[at(input.storage)].slot, 1);
  }
  // Inputs go with the operator `last` that saved them; -1: nobody has, and they go when the region has run.
  void drop_inputs(std::size_t region, int last) {
    if (last < 0 && graph_.returns_late_) return;
    for (const auto& input : graph_.region_inputs_[region])
      if (input.until == last) put(graph_.storages_[at(input.storage)].slot, -1);
  }
  // What an operator kept goes once it has run backward.
  void release(int operation);
  bool is_given(const typename Graph<N>::Storage& storage) const {
    const int made_in = graph_.region_at(storage.made_by);
    return made_in >= 0 && graph_.is_given_by(graph_.regions_[at(made_in)], storage);
  }
  // A reentrant region begins: the gradients that have come are its arguments.
  void enter(const Region& region);
  void return_from(int region);
  void let_go_of_copies(int operation);
  void drop(int index) {
    Carried& buffer = carried_[at(index)];
    if (--buffer.holders == 0) put(buffer.slot, -1);
  }
  // A gradient arrives where one may be waiting: added in place when its holder is alone.
  void arrive(ValueId value, int buffer);
  void make_parameter_gradient(int parameter) {
    const GradientSlots& slots = graph_.parameters_[at(parameter)];
    put(slots.computed >= 0 ? slots.computed : slots.kept, 1);
  }
  // What becomes of a gradient of a parameter once its operator has run.
  void settle(int parameter);
  // Where a gradient is not kept: it is added, or an optimizer's step is made with it.
  void use(const GradientSlots& slots, SlotId gradient);

  void play_back(int i);

  void play_weights(const Deferred& deferred);

  // The gradient that leaves may have been passed on from inside; the next graph knows it under the slot of the input.
  void hand_over();

  const Graph<N>& graph_;
  const GradientPolicy policy_;
  const bool split_;
  SplitTapes tapes_;
  std::vector<Event>* events_ = &tapes_.input;
  std::vector<Carried> carried_;
  std::vector<int> gradient_;  // by value: index into `carried_`
  std::vector<int> weight_user_, first_user_, second_user_;
  std::vector<bool> kept_by_others_, has_run_;
  std::vector<bool> overwritten_;     // by storage: a gradient stands in it, or it has gone as one
  std::vector<SlotId> brought_back_;  // from the host, and not gone yet (Graph::return_late)
  std::vector<std::int32_t> copies_;  // of what was computed again, by storage
  std::vector<Deferred> deferred_;
  std::vector<int> arguments_;  // gradients that a reentrant region was given
  int returned_ = -1;           // the operator that has let go of what was computed again for it
  bool product_ran_ = false;
};

}  // namespace steelyard
