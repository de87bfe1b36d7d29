// A graph played backwards, as autograd does: gradients that meet, what is saved and freed, regions that run again.
#include <algorithm>

#include "operators/graph.h"

namespace steelyard {

namespace {

// A gradient on its way: how many readers still hold it.
struct Carried {
  SlotId slot = -1;
  int holders = 0;
};

}  // namespace

template <class N>
bool Graph<N>::is_deferred(const Operator& operation) const {
  return operation.recorded && (operation.arithmetic.some() || keeps_graph_) &&
         std::any_of(operation.backward.begin(), operation.backward.end(),
                     [](const BackwardStep& step) {
                       return step.kind == BackwardStep::kParameterGradient;
                     });
}

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
        overwritten_(graph.storages_.size(), false) {
    tapes_.input.reserve(graph.operators_.size() * 6);
    carried_.reserve(graph.values_.size());
    if (split) find_weight_users();
  }

  SplitTapes play() {
    for (std::size_t value = 0; value < graph_.values_.size(); ++value)
      if (((storage_of(value).result && graph_.values_[value].gradient >= 0) ||
           graph_.values_[value].waits) &&
          graph_.values_[value].needs_gradient) {
        carried_.push_back(
            {graph_.values_[value].gradient, graph_.borrows_result_gradient_ ? 2 : 1});
        gradient_[value] = static_cast<int>(carried_.size()) - 1;
      }
    for (int i = graph_.size() - 1; i >= 0; --i) play_back(i);
    if (!product_ran_) tapes_.before_products = tapes_.input.size();
    hand_over();
    if (split_ && graph_.keeps_graph_) {
      let_graph_go(true);
      events_ = &tapes_.weight;
      play_weights_of_graph();
      let_graph_go(false);
      return std::move(tapes_);
    }
    events_ = &tapes_.weight;
    for (const Deferred& deferred : deferred_) play_weights(deferred);
    return std::move(tapes_);
  }

 private:
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
  void find_weight_users() {
    const std::size_t storages = graph_.storages_.size();
    weight_user_.assign(storages, -1);
    first_user_.assign(storages, -1);
    second_user_.assign(storages, -1);
    kept_by_others_.assign(storages, false);
    has_run_.assign(storages, false);
    copies_.assign(storages, 0);
    for (int i = graph_.size() - 1; i >= 0; --i) {
      const Operator& operation = graph_.operators_[at(i)];
      const int here = graph_.region_at(i);
      for (ValueId value : operation.saved) {
        const std::size_t index = at(graph_.values_[at(value)].storage);
        if (!graph_.is_deferred(operation)) {
          kept_by_others_[index] = kept_by_others_[index] || operation.recorded;
          continue;
        }
        weight_user_[index] = i;
        const int made_in = graph_.region_at(graph_.storages_[index].made_by);
        const bool of_second =
            made_in >= 0 &&
            (made_in == here || (here < 0 && graph_.regions_[at(made_in)].discards_output));
        (of_second ? second_user_ : first_user_)[index] = i;
      }
    }
  }
  // Non-reentrant checkpoints (torch/utils/checkpoint.py) compute a region again for every call of autograd: once for the
  // input's gradient, which reads all of it, and once for each operator with parameters. What such a call does not read stays
  // until the operator that saved it has run.
  void rerun_for(const Deferred& deferred) {
    const int region = graph_.region_of_[at(deferred.operation)];
    if (region < 0 || !graph_.is_recorded(graph_.regions_[at(region)])) return;
    graph_.play_again(graph_.regions_[at(region)], graph_.reruns_[at(region)], *events_);
    for (std::size_t index = 0; index < copies_.size(); ++index) {
      if (!is_rerun_of(index, region)) continue;
      if (has_run_[index])
        put(graph_.storages_[index].slot, -1);  // nobody can ask for it any more
      else
        ++copies_[index];
    }
  }
  bool is_rerun_of(std::size_t index, int region) const {
    const auto& storage = graph_.storages_[index];
    return storage.rerun_first_saver >= 0 && storage.released && !storage.outlives &&
           graph_.region_of_[at(storage.rerun_first_saver)] == region;
  }
  void let_copies_go(std::size_t index) {
    if (copies_[index] > 0) put(graph_.storages_[index].slot, -copies_[index]);
    copies_[index] = 0;
  }
  // What stands above the last operator with parameters goes with the roots of the input's backward; the rest when the
  // weights have been.
  void let_graph_go(bool above) {
    int top = -1;
    for (const Deferred& deferred : deferred_) top = std::max(top, deferred.operation);
    for (std::size_t index = 0; index < graph_.storages_.size(); ++index) {
      const auto& storage = graph_.storages_[index];
      if (!goes_with_saver(index)) continue;
      const bool alone = is_of_weights_alone(index);
      if (storage.first_saver >= 0 && !alone && (storage.first_saver > top) == above)
        put(storage.slot, -1);
      if (!above) let_copies_go(index);
    }
  }
  // Kept by nobody but operators with parameters: goes with the last of them.
  bool is_of_weights_alone(std::size_t storage) const {
    return weight_user_[storage] >= 0 && graph_.storages_[storage].rerun_first_saver < 0 &&
           !kept_by_others_[storage];
  }
  // stage_backward_weight goes through the parameters: of a layer's modules first those of attention and MLP, then the
  // norms. Its names hold what the turn before had: the gradient, its sum and the weight's own.
  void play_weights_of_graph() {
    std::reverse(deferred_.begin(), deferred_.end());
    const auto is_product = [&](const Deferred& deferred) {
      return graph_.operators_[at(deferred.operation)].arithmetic.some();
    };
    if (std::count_if(deferred_.begin(), deferred_.end(), is_product) > 1)
      std::stable_partition(deferred_.begin(), deferred_.end(), is_product);
    for (std::size_t storage = 0; storage < weight_user_.size(); ++storage)
      weight_user_[storage] = -1;
    for (const Deferred& deferred : deferred_)
      for (ValueId value : graph_.operators_[at(deferred.operation)].saved)
        weight_user_[at(graph_.values_[at(value)].storage)] = deferred.operation;
    const Deferred* before = nullptr;
    for (const Deferred& deferred : deferred_) {
      if (before != nullptr) drop_all(before->incoming);
      put_all(deferred.incoming, 1);
      if (before != nullptr) put_all(before->incoming, -1);
      rerun_for(deferred);
      for_parameters(deferred, [&](int parameter) { make_parameter_gradient(parameter); });
      for (std::size_t index = 0; index < graph_.storages_.size(); ++index)
        if (weight_user_[index] == deferred.operation && is_of_weights_alone(index) &&
            goes_with_saver(index) && graph_.storages_[index].first_saver >= 0)
          put(graph_.storages_[index].slot, -1);
      for (std::size_t index = 0; index < copies_.size(); ++index)
        if (weight_user_[index] == deferred.operation && !kept_by_others_[index]) {
          has_run_[index] = true;
          let_copies_go(index);
        }
      if (before != nullptr) for_parameters(*before, [&](int parameter) { settle(parameter); });
      before = &deferred;
    }
    if (before == nullptr) return;
    drop_all(before->incoming);
    put_all(before->incoming, -1);
    for_parameters(*before, [&](int parameter) { settle(parameter); });
  }
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
    for (const auto& input : graph_.region_inputs_[region])
      if (input.until == last) put(graph_.storages_[at(input.storage)].slot, -1);
  }
  // What an operator kept goes once it has run backward.
  void release(int operation) {
    for (std::size_t index = 0; index < graph_.storages_.size(); ++index) {
      const auto& storage = graph_.storages_[index];
      if (!goes_with_saver(index)) continue;
      const bool first_waits = split_ && (graph_.keeps_graph_ || first_user_[index] >= 0);
      const bool second_waits = split_ && !graph_.keeps_graph_ && second_user_[index] >= 0;
      if (storage.first_saver == operation && !first_waits && !graph_.waits_on_host(storage))
        put(storage.slot, -1);
      if (storage.rerun_first_saver == operation && !second_waits && !is_given(storage) &&
          returned_ != operation)
        put(storage.slot, -1);
    }
    const int region = graph_.region_at(operation);
    if (region >= 0 && graph_.regions_[at(region)].begin == operation) return_from(region);
    if (region >= 0) drop_inputs(at(region), operation);
    // What the second run did not come to goes with the region's graph.
    if (region >= 0 && graph_.regions_[at(region)].begin == operation)
      for (const auto& storage : graph_.storages_)
        if (graph_.stays_unread(storage) && graph_.region_at(storage.made_by) == region)
          put(storage.slot, -1);
  }
  bool is_given(const typename Graph<N>::Storage& storage) const {
    const int made_in = graph_.region_at(storage.made_by);
    return made_in >= 0 && graph_.is_given_by(graph_.regions_[at(made_in)], storage);
  }
  // A reentrant region begins: the gradients that have come are its arguments.
  void enter(const Region& region) {
    for (std::size_t value = 0; value < graph_.values_.size(); ++value)
      if (gradient_[value] >= 0 && graph_.is_given_by(region, storage_of(value))) {
        ++carried_[at(gradient_[value])].holders;
        arguments_.push_back(gradient_[value]);
      }
  }
  void return_from(int region) {
    const Region& returning = graph_.regions_[at(region)];
    if (!returning.reentrant || !graph_.is_recorded(returning)) return;
    for (const auto& storage : graph_.storages_)
      if (graph_.is_given_by(returning, storage)) put(storage.slot, -1);
    for (int argument : arguments_) drop(argument);
    arguments_.clear();
  }
  void let_go_of_copies(int operation) {
    const int region = graph_.region_at(operation);
    if (region < 0 || graph_.regions_[at(region)].reentrant ||
        graph_.regions_[at(region)].discards_output)
      return;
    returned_ = operation;
    for (std::size_t index = 0; index < graph_.storages_.size(); ++index)
      if (graph_.storages_[index].rerun_first_saver == operation && goes_with_saver(index))
        put(graph_.storages_[index].slot, -1);
  }
  void drop(int index) {
    Carried& buffer = carried_[at(index)];
    if (--buffer.holders == 0) put(buffer.slot, -1);
  }
  // A gradient arrives where one may be waiting: added in place when its holder is alone.
  void arrive(ValueId value, int buffer) {
    int& waiting = gradient_[at(value)];
    if (waiting < 0) {
      waiting = buffer;
      return;
    }
    if (carried_[at(waiting)].holders == 1) {
      drop(buffer);
      return;
    }
    const SlotId slot = graph_.values_[at(value)].gradient;
    carried_.push_back({slot >= 0 ? slot : carried_[at(waiting)].slot, 1});
    put(carried_.back().slot, 1);
    drop(waiting);
    drop(buffer);
    waiting = static_cast<int>(carried_.size()) - 1;
  }
  void make_parameter_gradient(int parameter) {
    const GradientSlots& slots = graph_.parameters_[at(parameter)];
    put(slots.computed >= 0 ? slots.computed : slots.kept, 1);
  }
  // What becomes of a gradient of a parameter once its operator has run.
  void settle(int parameter) {
    const GradientSlots& slots = graph_.parameters_[at(parameter)];
    if (slots.computed >= 0) {
      put(slots.kept, 1);
      if (slots.waiting < 0) put(slots.computed, -1);
    }
    if (slots.waiting >= 0) {
      // What a cast has made is the engine's alone and takes the sum; the product's is a transposed view, and the sum
      // is a new tensor, under the name of its first part.
      if (!slots.waiting_was_cast) {
        put(slots.waiting, 1);
        put(slots.waiting, -1);
      }
      put(slots.kept, -1);
      if (slots.computed >= 0) put(slots.computed, -1);
      if (slots.waits) return;  // for one more
      if (policy_ == GradientPolicy::kAdd && slots.stepped >= 0) {
        put(slots.stepped, 1);
        put(slots.stepped, -1);
      }
      if (policy_ == GradientPolicy::kAdd) put(slots.waiting, -1);
    } else if (policy_ == GradientPolicy::kAdd && !slots.waits) {
      if (slots.stepped >= 0) {
        put(slots.stepped, 1);
        put(slots.stepped, -1);
      }
      put(slots.kept, -1);
    }
  }

  void play_back(int i) {
    for (std::size_t r = 0; r < graph_.regions_.size(); ++r)
      if (graph_.reruns_[r].trigger == i && graph_.is_recorded(graph_.regions_[r])) {
        fetch_inputs(r);
        graph_.play_again(graph_.regions_[r], graph_.reruns_[r], *events_);
        drop_inputs(r, -1);
        if (graph_.regions_[r].reentrant) enter(graph_.regions_[r]);
      }
    const Operator& operation = graph_.operators_[at(i)];
    if (!product_ran_ && operation.arithmetic.some() && operation.recorded) {
      product_ran_ = true;
      tapes_.before_products = events_->size();
    }
    if (!operation.recorded) {
      release(i);
      return;
    }
    for (SlotId copy : graph_.copies_[at(i)]) put(copy, 1);
    Few<int, 8> incoming;
    for (ValueId output : operation.outputs) incoming.push_back(gradient_[at(output)]);
    const bool deferred = split_ && graph_.is_deferred(operation);
    Few<int, 6> made;  // gradient buffers by position in `made_for`
    Few<ValueId, 6> made_for;
    Few<int, 6> parameters;
    Few<SlotId, 14> temporaries;
    for (const BackwardStep& step : operation.backward) {
      switch (step.kind) {
        case BackwardStep::kTemporary:
          put(step.slot, 1);
          temporaries.push_back(step.slot);
          break;
        case BackwardStep::kPassing:
          put(step.slot, 1);
          put(step.slot, -1);
          break;
        case BackwardStep::kInputGradient: {
          const ValueId input = operation.inputs[at(step.index)];
          if (!graph_.values_[at(input)].needs_gradient) break;
          carried_.push_back({graph_.values_[at(input)].gradient, 1});
          put(carried_.back().slot, 1);
          made.push_back(static_cast<int>(carried_.size()) - 1);
          made_for.push_back(input);
          break;
        }
        case BackwardStep::kAliasGradient: {
          const ValueId input = operation.inputs[at(step.index)];
          if (!graph_.values_[at(input)].needs_gradient || incoming.empty() || incoming[0] < 0)
            break;
          ++carried_[at(incoming[0])].holders;
          made.push_back(incoming[0]);
          made_for.push_back(input);
          break;
        }
        case BackwardStep::kInPlaceGradient: {
          const ValueId input = operation.inputs[at(step.index)];
          if (!graph_.values_[at(input)].needs_gradient) break;
          const std::size_t storage = at(graph_.values_[at(input)].storage);
          overwritten_[storage] = true;
          // What the caller owns stays his: one holder more.
          const bool ours =
              graph_.storages_[storage].released && !graph_.storages_[storage].outlives;
          carried_.push_back({graph_.storages_[storage].slot, ours ? 1 : 2});
          made.push_back(static_cast<int>(carried_.size()) - 1);
          made_for.push_back(input);
          break;
        }
        case BackwardStep::kParameterGradient:
          if (policy_ == GradientPolicy::kFused || deferred) break;
          make_parameter_gradient(step.index);
          parameters.push_back(step.index);
          break;
        case BackwardStep::kReturned:
          if (!split_) let_go_of_copies(i);
          break;
        case BackwardStep::kFreeOutputGradient:
          if (incoming[at(step.index)] >= 0 && !deferred) {
            drop(incoming[at(step.index)]);
            incoming[at(step.index)] = -1;
          }
          break;
      }
    }
    for (SlotId slot : temporaries) put(slot, -1);
    for (SlotId copy : graph_.copies_[at(i)]) put(copy, -1);
    if (deferred)
      deferred_.push_back({i, incoming});
    else
      for (int buffer : incoming)
        if (buffer >= 0) drop(buffer);
    release(i);
    for (int parameter : parameters) settle(parameter);
    for (std::size_t k = 0; k < made.size(); ++k) arrive(made_for[k], made[k]);
  }

  void play_weights(const Deferred& deferred) {
    const Operator& operation = graph_.operators_[at(deferred.operation)];
    Few<SlotId, 14> temporaries;
    for (const BackwardStep& step : operation.backward) {
      if (step.kind == BackwardStep::kTemporary) {
        put(step.slot, 1);
        temporaries.push_back(step.slot);
      } else if (step.kind == BackwardStep::kParameterGradient &&
                 policy_ != GradientPolicy::kFused) {
        make_parameter_gradient(step.index);
      }
    }
    for (SlotId slot : temporaries) put(slot, -1);
    drop_all(deferred.incoming);
    for (std::size_t index = 0; index < graph_.storages_.size(); ++index) {
      const auto& storage = graph_.storages_[index];
      if (!goes_with_saver(index)) continue;
      if (storage.first_saver >= 0 && first_user_[index] == deferred.operation)
        put(storage.slot, -1);
      if (storage.rerun_first_saver >= 0 && second_user_[index] == deferred.operation)
        put(storage.slot, -1);
    }
    if (policy_ == GradientPolicy::kFused) return;
    for (const BackwardStep& step : operation.backward)
      if (step.kind == BackwardStep::kParameterGradient) settle(step.index);
  }

  // The gradient that leaves may have been passed on from inside; the next graph knows it under the slot of the input.
  void hand_over() {
    for (std::size_t value = 0; value < graph_.values_.size(); ++value) {
      if (!storage_of(value).external || graph_.values_[value].gradient < 0 || gradient_[value] < 0)
        continue;
      const Carried& leaving = carried_[at(gradient_[value])];
      if (leaving.slot == graph_.values_[value].gradient) continue;
      put(leaving.slot, -1);
      put(graph_.values_[value].gradient, 1);
    }
  }

  const Graph<N>& graph_;
  const GradientPolicy policy_;
  const bool split_;
  SplitTapes tapes_;
  std::vector<Event>* events_ = &tapes_.input;
  std::vector<Carried> carried_;
  std::vector<int> gradient_;  // by value: index into `carried_`
  std::vector<int> weight_user_, first_user_, second_user_;
  std::vector<bool> kept_by_others_, has_run_;
  std::vector<bool> overwritten_;     // by storage: a gradient stands in it
  std::vector<std::int32_t> copies_;  // of what was computed again, by storage
  std::vector<Deferred> deferred_;
  std::vector<int> arguments_;  // gradients that a reentrant region was given
  int returned_ = -1;           // the operator that has let go of what was computed again for it
  bool product_ran_ = false;
};

template <class N>
std::vector<Event> Graph<N>::backward(GradientPolicy policy, std::size_t* before_products) const {
  SplitTapes tapes = BackwardPlayer<N>(*this, policy, false).play();
  if (before_products != nullptr) *before_products = tapes.before_products;
  return std::move(tapes.input);
}

template <class N>
SplitTapes Graph<N>::split_backward(GradientPolicy policy) const {
  return BackwardPlayer<N>(*this, policy, true).play();
}

template class Graph<Checked>;
template class Graph<Traced>;

}  // namespace steelyard
