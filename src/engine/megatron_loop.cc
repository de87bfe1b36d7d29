#include "engine/megatron_loop.h"

#include <algorithm>
#include <variant>

namespace steelyard {

template <class N>
MegatronLoop<N>::MegatronLoop(const EngineContext<N>& context) : EngineModel<N>(context) {
  const OperatorStyle& style = context.style;
  const std::int64_t gathering =
      style.expert * (style.sequence_parallel || style.tensor == 1 ? style.expert_tensor : 1);
  if (style.experts.dispatcher == ExpertDispatcher::kAllGather && gathering > 1)
    gathered_tokens_ = this->book_.slot(
        {"mlp.experts", "tokens of all ranks", "dispatch.gathered-buffer"}, Pile::kCommunication,
        context.sizes.shard_tokens * context.sizes.hidden * N(gathering), style.compute);
  if (style.local_layers) shared_buffer_ = shared_buffer();
  std::int64_t width = 0;
  for (const Layer& kind : this->job_.model->kinds)
    width =
        std::max(width, std::visit([](const auto& a) { return a.rotary_width; }, kind.attention));
  if (width > 0)
    rotary_table_ = this->book_.slot(
        {"rotary embedding", "frequencies by position", "megatron.rotary-cache"},
        Pile::kCommunication,
        context.sizes.sequence * context.sizes.context * Workbook<N>::symbol("d", width),
        ElementType::kFloat32);
  positions_ = this->book_.slot({"inputs", "position ids", "megatron.position-ids"},
                                Pile::kActivations, context.sizes.tokens, ElementType::kInt64);
  number_ = this->book_.slot({"loss", "a number", "megatron.numbers"}, Pile::kTemporary, N(1),
                             ElementType::kFloat32);
}

// GlobalMemoryBuffer's "mpu": what baddbmm would add to, and what sequence parallelism gathers, whichever is larger.
template <class N>
SlotId MegatronLoop<N>::shared_buffer() {
  const OperatorStyle& style = this->context_.style;
  const Sizes<N>& sizes = this->context_.sizes;
  N elements{};
  for (const Layer& kind : this->job_.model->kinds)
    if (const auto* attention = std::get_if<GroupedAttention>(&kind.attention))
      elements = N(attention->heads) / sizes.tensor * sizes.tokens * sizes.sequence;
  const N gathered = sizes.tokens * sizes.hidden;
  if (style.sequence_parallel && plain(gathered) > plain(elements)) elements = gathered;
  return this->book_.slot({"model", "shared buffer", "megatron.shared-buffer"},
                          Pile::kCommunication, elements, style.compute);
}

template <class N>
bool MegatronLoop<N>::has_experts(const Stage<N>& stage) const {
  for (std::size_t kind = 0; kind < stage.layers_of_kind.size(); ++kind)
    if (stage.layers_of_kind[kind] > 0 &&
        std::holds_alternative<ExpertMlp>(this->job_.model->kinds[kind].mlp))
      return true;
  return false;
}

template class MegatronLoop<Checked>;
template class MegatronLoop<Traced>;

}  // namespace steelyard
