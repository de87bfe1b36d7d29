#include "engine/megatron_share.h"

#include <algorithm>
#include <utility>

namespace steelyard {

namespace {

template <class N>
struct Buffer {
  const std::vector<const Unit<N>*>& units;
  const std::vector<std::int64_t>& count;
  bool shares_table;

  bool is_in(std::size_t unit, const TensorShare<N>& share, bool experts, bool table) const {
    const bool of_table =
        unit + 1 == units.size() || (shares_table && share.tensor->role == TensorRole::kEmbedding);
    return share.trainable && share.of_experts() == experts && of_table == table;
  }
  // From the last tensor to the first, until visit(tensor) says that it has enough. The head's own weight stands behind modules
  // that predict further tokens.
  template <class Visit>
  void each(bool experts, bool table, Visit visit) const {
    for (std::size_t unit = units.size(); unit-- > 0;)
      for (std::int64_t time = 0; time < count[unit]; ++time)
        for (const bool head : {true, false})
          for (auto share = units[unit]->tensors.rbegin(); share != units[unit]->tensors.rend();
               ++share)
            if ((share->tensor->role == TensorRole::kHead) == head &&
                is_in(unit, *share, experts, table) && visit(*share))
              return;
  }
  void cut(bool experts, bool table, const ShardRanks& ranks, BufferShare<N>& result) const {
    N all{};
    const TensorShare<N>* any = nullptr;
    for (std::size_t unit = 0; unit < units.size(); ++unit)
      for (const TensorShare<N>& share : units[unit]->tensors)
        if (count[unit] > 0 && is_in(unit, share, experts, table)) {
          all = all + N(count[unit] * share.copies) * share.elements;
          any = &share;
        }
    if (any == nullptr) return;
    const N part = any->ranks(ranks) > 1 ? ceil_divide(all, shard_symbol("N", *any, ranks)) : all;
    result.elements = result.elements + part;
    std::int64_t left = plain(part), of_vectors = 0;
    each(experts, table, [&](const TensorShare<N>& share) {
      const std::int64_t elements = plain(share.elements);
      const std::int64_t whole = std::min(share.copies, left / elements);
      const std::int64_t rest = whole < share.copies ? left - whole * elements : 0;
      if (whole > 0) result.pieces.push_back({&share, elements, whole});
      if (rest > 0) result.pieces.push_back({&share, rest, 1});
      if (share.shape.size() < 2) of_vectors += whole * elements + rest;
      left -= whole * elements + rest;
      return left == 0;
    });
    if (of_vectors > 0)
      result.of_vectors =
          result.of_vectors + Workbook<N>::counted("vectors of the share", of_vectors);
  }
};

}  // namespace

template <class N>
const BufferShare<N>& MegatronShare<N>::pieces_of(const Stage<N>& stage) {
  if (const BufferShare<N>* known = pieces_.find(stage)) return *known;
  const std::vector<const Unit<N>*> units = this->all_units(Of::kTrained);
  const bool shares_table = this->job_.model->tied_head && this->job_.parallel.pipeline > 1;
  const Buffer<N> buffer{units, this->counts(stage), shares_table};
  BufferShare<N> result;
  buffer.cut(false, false, ranks_, result);
  buffer.cut(false, true, ranks_, result);
  buffer.cut(true, false, ranks_, result);
  return pieces_.add(stage, std::move(result));
}

template <class N>
std::int64_t MegatronShare<N>::last_matrix_of_share(const Stage<N>& stage) {
  std::int64_t last = 0;
  for (const SharePiece<N>& piece : pieces_of(stage).pieces)
    if (!piece.of->of_experts() && piece.of->shape.size() > 1) last = piece.elements;
  return last;
}

template <class N>
void MegatronShare<N>::step_share(ElementType stepped, bool widens_gradients) {
  const Optimizer& optimizer = this->job_.training.optimizer;
  steps_share_ =
      !optimizer.paged && form_of(this->job_.training) != OptimizerForm::kLoop &&
      std::all_of(optimizer.slots.begin(), optimizer.slots.end(), [](const OptimizerSlot& slot) {
        return slot.extent == SlotExtent::kParameter && slot.applies_to == SlotAppliesTo::kAll;
      });
  stepped_ = stepped;
  widens_gradients_ = widens_gradients;
}

template <class N>
const typename MegatronShare<N>::Share* MegatronShare<N>::share_of(const Stage<N>& stage) {
  if (!steps_share_of(stage)) return nullptr;
  if (const Share* known = shares_.find(stage)) return known;
  const BufferShare<N>& pieces = pieces_of(stage);
  Share share{group_of(pieces, Tensors::kMatrices), group_of(pieces, Tensors::kVectors), -1};
  if (widens_gradients_ && this->job_.training.precision.master)
    share.gradients = slot_of_pieces(pieces, Tensors::kAll,
                                     {"optimizer", "main gradients", "megatron.main-gradients"},
                                     Pile::kGradients, ElementType::kFloat32);
  return &shares_.add(stage, std::move(share));
}

template <class N>
typename MegatronShare<N>::Share::Group MegatronShare<N>::group_of(const BufferShare<N>& share,
                                                                   Tensors which) {
  const Precision& precision = this->job_.training.precision;
  const Optimizer& optimizer = this->job_.training.optimizer;
  const std::vector<OptimizerSlot>& states = optimizer.slots;
  typename Share::Group group;
  if (precision.master)
    group.master =
        slot_of_pieces(share, which, {"optimizer", "main parameters", "megatron.main-parameters"},
                       Pile::kMasterWeights, *precision.master);
  for (const OptimizerSlot& state : states)
    for (std::int64_t i = 0; i < state.count; ++i)
      if (const SlotId slot =
              slot_of_pieces(share, which, {"optimizer", state.name.c_str(), "optimizer.state"},
                             Pile::kOptimizerMoments, state.type.value_or(stepped_));
          slot >= 0)
        group.states.push_back(slot);
  this->book_.weave(group.states);
  if (form_of(this->job_.training) == OptimizerForm::kForeach &&
      optimizer.foreach_list_of_second_moment > 0 && states.size() >= 2)
    group.list = slot_of_pieces(
        share, which, {"optimizer", "square roots of the second moment", "optimizer.foreach-list"},
        Pile::kTemporary, states[1].type.value_or(stepped_));
  return group;
}

// -1: the share has none of these.
template <class N>
SlotId MegatronShare<N>::slot_of_pieces(const BufferShare<N>& share, Tensors which,
                                        const SlotName& name, Pile pile, ElementType type) {
  TensorSum tensors = this->book_.tensor_sum();
  std::int64_t place = 0;
  for (const SharePiece<N>& piece : share.pieces) {
    if (this->is_meant(*piece.of, which))
      tensors.add(allocated_size(bytes_of(Elements(Checked(piece.elements)), type)), piece.count,
                  place);
    place += piece.count;
  }
  if (tensors.bytes() == Bytes{}) return -1;
  const N elements = which == Tensors::kAll       ? share.elements
                     : which == Tensors::kVectors ? share.of_vectors
                                                  : share.elements - share.of_vectors;
  return this->book_.slot_of_tensors(name, pile, elements, type, std::move(tensors));
}

template class MegatronShare<Checked>;
template class MegatronShare<Traced>;

}  // namespace steelyard
