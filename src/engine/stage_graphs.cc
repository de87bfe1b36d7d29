// What Megatron's graph of a whole iteration holds beside what it replays (megatron/core/full_cuda_graph.py): its pool, which
// gives nothing back, and the inputs of every micro-batch at addresses of their own.
//
//   eager    forward, backward up to 40 GiB      optimizer takes 6 of them
//   graph    forward, backward up to 40 GiB      optimizer takes 6 more
#include "engine/stage_program.h"

namespace steelyard {

namespace {
// Tokens, labels and positions of 8 bytes, the loss's mask of 4.
constexpr std::int64_t kWordsOfToken = 7;
constexpr ElementType kWord = ElementType::kInt32;
}  // namespace

template <class N>
SlotId StagePrograms<N>::graph_pool(std::int64_t bytes) {
  return book_.slot({"cuda graph", "pool of forward and backward", "megatron.graph-pool"},
                    Pile::kActivations,
                    Workbook<N>::counted("peak of forward and backward, less what stays", bytes),
                    ElementType::kInt8);
}

template <class N>
N StagePrograms<N>::graph_input_words() const {
  return N(kWordsOfToken) * sizes_.tokens * sizes_.context *
         Workbook<N>::symbol("M", job_.training.gradient_accumulation);
}

template <class N>
SlotId StagePrograms<N>::graph_inputs() {
  return book_.slot({"inputs", "of every micro-batch", "megatron.graph-inputs"}, Pile::kActivations,
                    graph_input_words(), kWord);
}

template <class N>
std::int64_t StagePrograms<N>::graph_input_bytes() const {
  return allocated_size(bytes_of(Elements(Checked(plain(graph_input_words()))), kWord))
      .value()
      .value();
}

template class StagePrograms<Checked>;
template class StagePrograms<Traced>;

}  // namespace steelyard
