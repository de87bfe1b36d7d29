#include "operators/ends.h"

namespace steelyard {

namespace {
constexpr BackwardStep kGradient0{BackwardStep::kInputGradient, 0, -1};
// EmbeddingBackwardKernel.cu sorts the ids and sums in parts when there are more tokens than this.
constexpr std::int64_t kSortedAbove = 3072;
}  // namespace

template <class N>
ValueId compose_embedding(Composer<N>& composer, const Architecture& model, ValueId ids) {
  Graph<N>& graph = composer.graph;
  const OperatorStyle& style = composer.style;
  const Sizes<N>& sizes = composer.sizes;
  // Padding the vocabulary and narrow embeddings (opt-350m) change the sizes.
  const N width = model.embedding_width == model.hidden
                      ? sizes.hidden
                      : Workbook<N>::symbol("w", model.embedding_width);
  const bool split = style.tensor > 1;
  const N whole = sizes.tokens * width;
  const N rows = sizes.vocabulary / sizes.tensor;

  auto lookup = [&](const char* owner, int tensor, const N& table_rows, ValueId index,
                    const N& elements, const N* whole_table = nullptr) {
    const ValueId y =
        graph.tensor({owner, "output", "op.embedding.output"}, elements, style.residual, true);
    Operator operation;
    operation.label = "embedding";
    operation.inputs = {index};
    operation.outputs = {y};
    if (plain(sizes.tokens) > kSortedAbove) {
      operation.backward.push_back(
          {BackwardStep::kTemporary, 0,
           graph.temporary({owner, "sorted ids", "op.embedding.backward-sort"}, N(6) * sizes.tokens,
                           ElementType::kInt64)});
      operation.backward.push_back(
          {BackwardStep::kTemporary, 0,
           graph.temporary({owner, "fp32 partial sums", "op.embedding.backward-partial"}, elements,
                           ElementType::kFloat32)});
    }
    const N own = table_rows * width;
    operation.backward.push_back(
        {BackwardStep::kParameterGradient,
         whole_table ? composer.replicated_parameter(tensor, own, *whole_table * width)
                     : composer.uncast_parameter(tensor, own),
         -1});
    graph.add(operation);
    return y;
  };
  ValueId x = lookup("embedding", 0, rows, ids, whole,
                     style.distributed_tensors ? &sizes.vocabulary : nullptr);
  if (style.distributed_tensors) {
    // Rows of other ranks are zeroed in place; the sum over the ranks is a new tensor.
    const N elements = sizes.shard_tokens * width;
    const ValueId sum = graph.tensor({"embedding", "sum over ranks", "tensor.reduce-scatter"},
                                     elements, style.residual, true);
    Operator add;
    add.label = "sum over ranks";
    add.inputs = {x};
    add.outputs = {sum};
    composer.exchange_output(add, Composer<N>::payload_of(whole, style.residual));
    if (style.sequence_parallel) {
      const SlotId by_rank =
          composer.book.slot({"embedding", "rows by ranks", "tensor.order-of-ranks"},
                             Pile::kTemporary, whole, style.residual);
      add.passing = {by_rank};
      add.backward = {{BackwardStep::kTemporary, 0, by_rank}, kGradient0};
    } else {
      add.backward = {{BackwardStep::kAliasGradient, 0, -1}};
    }
    graph.add(add);
    x = sum;
  } else if (split) {
    // Ids of other ranks' rows are masked; the partial results are then reduced (scattered with sequence parallelism).
    const ValueId mask = graph.tensor({"embedding", "mask", "op.embedding.vocabulary-mask"},
                                      sizes.tokens, ElementType::kBool, false);
    const ValueId masked =
        graph.tensor({"embedding", "masked output", "op.embedding.vocabulary-mask"}, whole,
                     style.residual, true);
    Operator apply;
    apply.label = "mask";
    apply.inputs = {x};
    apply.outputs = {masked, mask};
    apply.saved = {mask};
    apply.backward = {kGradient0};
    if (!style.sequence_parallel)
      composer.exchange_output(apply, Composer<N>::payload_of(whole, style.residual));
    graph.add(apply);
    x = masked;
    if (style.sequence_parallel) {
      const ValueId scattered =
          graph.tensor({"embedding", "scattered output", "tensor.reduce-scatter"},
                       sizes.shard_tokens * width, style.residual, true);
      Operator scatter;
      scatter.label = "reduce-scatter";
      scatter.inputs = {x};
      scatter.outputs = {scattered};
      scatter.backward = {kGradient0};
      composer.exchange_output(scatter, Composer<N>::payload_of(whole, style.residual));
      graph.add(scatter);
      x = scattered;
    }
  }
  if (model.learned_positions) {
    // The position table is the second tensor; its rows for this sequence are added to every sequence of the batch.
    const ValueId positions = lookup(
        "positions", 1, Workbook<N>::symbol("P", model.embedding_parameters.at(1).shape.at(0)), ids,
        sizes.sequence * sizes.hidden);
    const ValueId sum = graph.tensor({"embedding", "sum with positions", "op.add"},
                                     graph.elements(x), style.residual, true);
    Operator add;
    add.label = "add positions";
    add.inputs = {x, positions};
    add.outputs = {sum};
    add.backward = {{BackwardStep::kAliasGradient, 0, -1}, {BackwardStep::kInputGradient, 1, -1}};
    graph.add(add);
    x = sum;
  }
  if (model.scaled_embedding) x = composer.scale(x, {"embedding", "scaled output", "op.scale"});
  if (model.embedding_norm_present)
    x = composer.normalise(x, model.embedding_norm, sizes.shard_tokens, width);
  x = composer.dropout(x, style.embedding_dropout, "embedding");
  if (model.project_in)
    x = composer.linear(x, *model.project_in, sizes.tokens, width, sizes.hidden);
  return x;
}

template ValueId compose_embedding(Composer<Checked>&, const Architecture&, ValueId);
template ValueId compose_embedding(Composer<Traced>&, const Architecture&, ValueId);

}  // namespace steelyard
