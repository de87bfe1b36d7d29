#include "engine/waiting_gradients.h"

#include <algorithm>
#include <string_view>

namespace steelyard {

template <class N>
WaitingGradients<N>::WaitingGradients(const EngineContext<N>& context, ElementType reduction) {
  const ModelUnits<N>& units = context.trained;
  const auto add = [&](const std::vector<SlotId>& gradients, const Unit<N>& unit) {
    for (const SlotId gradient : gradients) {
      const std::string_view owner = context.book.program.slot_at(gradient).owner;
      const auto named =
          std::find_if(unit.tensors.begin(), unit.tensors.end(),
                       [&](const TensorShare<N>& share) { return share.tensor->name == owner; });
      // A tied head's is the embedding's.
      const TensorShare<N>& share =
          named == unit.tensors.end() ? units.embedding.tensors.front() : *named;
      slots_.emplace(gradient, context.book.slot({share.tensor->name.c_str(), "gradient that waits",
                                                  "fsdp2.waiting-gradient"},
                                                 Pile::kGradients, share.elements, reduction));
    }
  };
  for (std::size_t kind = 0; kind < units.kinds.size(); ++kind)
    add(context.gradients_of_kind[kind], units.kinds[kind]);
  add(context.gradients_of_embedding, units.embedding);
  add(context.gradients_of_head, units.head);
}

template <class N>
void WaitingGradients<N>::add_to(const std::vector<SlotId>& gradients, bool first,
                                 std::vector<Event>& events) const {
  if (empty() || first) return;
  for (const SlotId gradient : gradients) events.push_back({gradient, -1});
}

template <class N>
void WaitingGradients<N>::keep(const std::vector<SlotId>& gradients, bool first,
                               std::vector<Event>& events) const {
  if (empty() || !first) return;
  for (const SlotId gradient : gradients) {
    events.push_back({reduced(gradient), 1});
    events.push_back({gradient, -1});
  }
}

template class WaitingGradients<Checked>;
template class WaitingGradients<Traced>;

}  // namespace steelyard
