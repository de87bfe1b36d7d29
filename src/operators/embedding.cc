#include "operators/ends.h"

namespace steelyard {

namespace {
// EmbeddingBackwardKernel.cu sorts the ids and sums in parts when there are more tokens than this.
constexpr std::int64_t kSortedAbove = 3072;
template <class N>
class EmbeddingWriter {
 public:
  EmbeddingWriter(Composer<N>& of, const Architecture& architecture, ValueId token_ids,
                  std::optional<int> gradient_of_table)
      : composer(of),
        graph(of.graph),
        style(of.style),
        sizes(of.sizes),
        model(architecture),
        ids(token_ids),
        gradient(gradient_of_table),
        // Padding the vocabulary and narrow embeddings (opt-350m) change the sizes.
        width(model.embedding_width == model.hidden
                  ? sizes.hidden
                  : Workbook<N>::symbol("w", model.embedding_width)) {}

  ValueId tokens();
  ValueId behind(ValueId x);

 private:
  // `asked`: how many rows. An index that the graph has made is kept for the table's gradient.
  ValueId lookup(const char* owner, int tensor, const N& table_rows, ValueId index, const N& asked,
                 const N& row, const N* whole_table = nullptr) {
    const N elements = asked * row;
    const ValueId y =
        graph.tensor({owner, "output", "op.embedding.output"}, elements, style.residual, true);
    Operator operation;
    operation.label = "embedding";
    operation.inputs = {index};
    operation.outputs = {y};
    // What the caller has made goes with its graph.
    if (gradient ? *gradient >= 0 : index != ids && composer.has_gradient(tensor))
      operation.saved = {index};
    else if (style.offloads_saved && composer.has_gradient(tensor))
      operation.saved_weights = {
          graph.temporary({owner, "ids", "offload.copy-from-host"}, asked, ElementType::kInt64)};
    if (plain(asked) > kSortedAbove) {
      operation.backward.push_back(
          {BackwardStep::kTemporary, 0,
           graph.temporary({owner, "sorted ids", "op.embedding.backward-sort"}, N(6) * asked,
                           ElementType::kInt64)});
      operation.backward.push_back(
          {BackwardStep::kTemporary, 0,
           graph.temporary({owner, "fp32 partial sums", "op.embedding.backward-partial"}, elements,
                           ElementType::kFloat32)});
    }
    const N own = table_rows * row;
    operation.backward.push_back(
        {BackwardStep::kParameterGradient,
         gradient      ? *gradient
         : whole_table ? composer.replicated_parameter(tensor, own, *whole_table * row)
                       : composer.uncast_parameter(tensor, own),
         -1});
    graph.add(operation);
    return y;
  }

  Composer<N>& composer;
  Graph<N>& graph;
  const OperatorStyle& style;
  const Sizes<N>& sizes;
  const Architecture& model;
  const ValueId ids;
  const std::optional<int> gradient;
  const N width;
};

template <class N>
ValueId EmbeddingWriter<N>::tokens() {
  const bool split = style.tensor > 1;
  const N whole = sizes.tokens * width;
  const N rows = sizes.vocabulary / sizes.tensor;
  ValueId asked = ids;
  if (split && (style.implementation == Implementation::kMegatron ||
                style.implementation == Implementation::kScaling)) {
    // Ids of other ranks' rows become 0 in a copy, which the table's gradient asks for.
    asked = graph.tensor({"embedding", "masked ids", "op.embedding.vocabulary-mask"}, sizes.tokens,
                         ElementType::kInt64, false);
    Operator mask_ids;
    mask_ids.label = "mask";
    mask_ids.outputs = {asked};
    graph.add(mask_ids);
  }
  ValueId x = lookup("embedding", 0, rows, asked, sizes.tokens, width,
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
      composer.book.exchange({graph.storage_slot(masked), graph.storage_slot(scattered)},
                             Exchanged::kWaitedFor);
      graph.add(scatter);
      x = scattered;
    }
  }
  if (model.project_in)
    x = composer.linear(x, *model.project_in, sizes.tokens, width, sizes.hidden);
  return x;
}

template <class N>
ValueId EmbeddingWriter<N>::behind(ValueId x) {
  const bool transformers = style.implementation == Implementation::kTransformers;
  // Its models call what they have looked up inputs_embeds, and what they make of it hidden_states; an encoder's embeddings
  // are a module of their own, and the model has a name for what that gives. One compiled graph has no names,
  // and stages of a pipeline have a forward of their own.
  const bool names = transformers && !style.compiled && style.ends_meet;
  if (names && !follows_vision(model) && (!model.encoder || model.encoder_part)) graph.name(x);
  const auto rows_of = [&](std::size_t tensor) {
    return Workbook<N>::symbol("P", model.embedding_parameters.at(tensor).shape.at(0));
  };
  const auto index_of = [&](const char* owner, const char* name, const N& elements) {
    const ValueId index =
        graph.tensor({owner, name, "op.embedding.index"}, elements, ElementType::kInt64, false);
    Operator make;
    make.label = "index";
    make.outputs = {index};
    graph.add(make);
    return index;
  };
  // Tables are the embedding's tensors in their order: tokens, positions, token types.
  if (model.token_types) {
    const ValueId index =
        transformers ? index_of("token types", "types of the tokens", sizes.sequence) : ids;
    x = composer.add(x, lookup("token types", 2, rows_of(2), index, sizes.tokens, sizes.hidden),
                     {"embedding", "sum with token types", "op.add"});
  }
  if (model.learned_positions && transformers &&
      model.position_ids == PositionIds::kOfEachSequence) {
    const ValueId index = index_of("positions", "positions and their offset", sizes.tokens);
    x = composer.add(x, lookup("positions", 1, rows_of(1), index, sizes.tokens, sizes.hidden),
                     {"embedding", "sum with positions", "op.add"});
  } else if (model.learned_positions) {
    // Rows for one sequence are added to every sequence of the batch.
    const ValueId positions = lookup("positions", 1, rows_of(1), ids, sizes.sequence, sizes.hidden);
    if (names && !model.encoder && !model.encoder_part) graph.name(positions);
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
  if (names && model.encoder && !model.encoder_part) graph.name(x);
  if (!graph.needs_gradient(x) && model.embedding_output_asked) {
    // enable_input_require_grads(): a leaf, whose gradient nobody reads.
    const ValueId leaf =
        graph.input(graph.storage_slot(ids), sizes.tokens, ElementType::kInt64, true, false);
    const ValueId y = graph.view(x, graph.elements(x));
    Operator accumulate;
    accumulate.label = "accumulate";
    accumulate.inputs = {x, leaf};
    accumulate.outputs = {y};
    graph.add(accumulate);
    return y;
  }
  if (style.recomputes_ends) composer.recompute_from(0);
  return x;
}

}  // namespace

template <class N>
ValueId compose_embedding(Composer<N>& composer, const Architecture& model, ValueId ids,
                          std::optional<int> gradient) {
  if (model.image) {
    const Norm* norm = model.embedding_norm_present ? &model.embedding_norm : nullptr;
    const ValueId patches = compose_patches(composer, *model.image, norm, composer.sizes, ids);
    composer.graph.name(patches);
    return patches;
  }
  EmbeddingWriter<N> writer(composer, model, ids, gradient);
  return writer.behind(writer.tokens());
}

template <class N>
ValueId compose_lookup(Composer<N>& composer, const Architecture& model, ValueId ids) {
  return EmbeddingWriter<N>(composer, model, ids, std::nullopt).tokens();
}

template <class N>
ValueId compose_behind_lookup(Composer<N>& composer, const Architecture& model, ValueId x,
                              ValueId ids) {
  return EmbeddingWriter<N>(composer, model, ids, std::nullopt).behind(x);
}

#define STEELYARD_EMBEDDING(N)                                                   \
  template ValueId compose_embedding(Composer<N>&, const Architecture&, ValueId, \
                                     std::optional<int>);                        \
  template ValueId compose_lookup(Composer<N>&, const Architecture&, ValueId);   \
  template ValueId compose_behind_lookup(Composer<N>&, const Architecture&, ValueId, ValueId);
STEELYARD_EMBEDDING(Checked)
STEELYARD_EMBEDDING(Traced)
#undef STEELYARD_EMBEDDING

}  // namespace steelyard
