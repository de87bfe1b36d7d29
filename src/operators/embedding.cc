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
      : composer_(of),
        graph_(of.graph),
        style_(of.style),
        sizes_(of.sizes),
        model_(architecture),
        ids_(token_ids),
        gradient_(gradient_of_table),
        // Padding the vocabulary and narrow embeddings (opt-350m) change the sizes.
        width_(model_.embedding_width == model_.hidden
                   ? sizes_.hidden
                   : Workbook<N>::symbol("w", model_.embedding_width)) {}

  ValueId tokens();
  ValueId behind(ValueId x);

 private:
  // `asked`: how many rows. An index that the graph has made is kept for the table's gradient.
  ValueId lookup(const char* owner, int tensor, const N& table_rows, ValueId index, const N& asked,
                 const N& row, const N* whole_table = nullptr) {
    const N elements = asked * row;
    const ValueId y =
        graph_.tensor({owner, "output", "op.embedding.output"}, elements, style_.residual, true);
    Operator operation;
    operation.label = "embedding";
    operation.inputs = {index};
    operation.outputs = {y};
    // What the caller has made goes with its graph.
    if (gradient_ ? *gradient_ >= 0 : index != ids_ && composer_.has_gradient(tensor))
      operation.saved = {index};
    else if (style_.offloads_saved && composer_.has_gradient(tensor))
      operation.saved_weights = {
          graph_.temporary({owner, "ids", "offload.copy-from-host"}, asked, ElementType::kInt64)};
    if (plain(asked) > kSortedAbove) {
      operation.backward.push_back(
          {BackwardStep::kTemporary, 0,
           graph_.temporary({owner, "sorted ids", "op.embedding.backward-sort"}, N(6) * asked,
                            ElementType::kInt64)});
      operation.backward.push_back(
          {BackwardStep::kTemporary, 0,
           graph_.temporary({owner, "fp32 partial sums", "op.embedding.backward-partial"}, elements,
                            ElementType::kFloat32)});
    }
    const N own = table_rows * row;
    operation.backward.push_back(
        {BackwardStep::kParameterGradient,
         gradient_     ? *gradient_
         : whole_table ? composer_.replicated_parameter(tensor, own, *whole_table * row)
                       : composer_.uncast_parameter(tensor, own),
         -1});
    graph_.add(operation);
    return y;
  }

  Composer<N>& composer_;
  Graph<N>& graph_;
  const OperatorStyle& style_;
  const Sizes<N>& sizes_;
  const Architecture& model_;
  const ValueId ids_;
  const std::optional<int> gradient_;
  const N width_;
};

template <class N>
ValueId EmbeddingWriter<N>::tokens() {
  const bool split = style_.tensor > 1;
  const N whole = sizes_.tokens * width_;
  const N rows = sizes_.vocabulary / sizes_.tensor;
  ValueId asked = ids_;
  if (split && (style_.implementation == Implementation::kMegatron ||
                style_.implementation == Implementation::kScaling)) {
    // Ids of other ranks' rows become 0 in a copy, which the table's gradient asks for.
    asked = graph_.tensor({"embedding", "masked ids", "op.embedding.vocabulary-mask"},
                          sizes_.tokens, ElementType::kInt64, false);
    Operator mask_ids;
    mask_ids.label = "mask";
    mask_ids.outputs = {asked};
    graph_.add(mask_ids);
  }
  ValueId x = lookup("embedding", 0, rows, asked, sizes_.tokens, width_,
                     style_.distributed_tensors ? &sizes_.vocabulary : nullptr);
  if (style_.distributed_tensors) {
    // Rows of other ranks are zeroed in place; the sum over the ranks is a new tensor.
    const N elements = sizes_.shard_tokens * width_;
    const ValueId sum = graph_.tensor({"embedding", "sum over ranks", "tensor.reduce-scatter"},
                                      elements, style_.residual, true);
    Operator add;
    add.label = "sum over ranks";
    add.inputs = {x};
    add.outputs = {sum};
    composer_.exchange_output(add, Composer<N>::payload_of(whole, style_.residual));
    if (style_.sequence_parallel) {
      const SlotId by_rank =
          composer_.book.slot({"embedding", "rows by ranks", "tensor.order-of-ranks"},
                              Pile::kTemporary, whole, style_.residual);
      add.passing = {by_rank};
      add.backward = {{BackwardStep::kTemporary, 0, by_rank}, kGradient0};
    } else {
      add.backward = {{BackwardStep::kAliasGradient, 0, -1}};
    }
    graph_.add(add);
    x = sum;
  } else if (split) {
    // Ids of other ranks' rows are masked; the partial results are then reduced (scattered with sequence parallelism).
    const ValueId mask = graph_.tensor({"embedding", "mask", "op.embedding.vocabulary-mask"},
                                       sizes_.tokens, ElementType::kBool, false);
    const ValueId masked =
        graph_.tensor({"embedding", "masked output", "op.embedding.vocabulary-mask"}, whole,
                      style_.residual, true);
    Operator apply;
    apply.label = "mask";
    apply.inputs = {x};
    apply.outputs = {masked, mask};
    apply.saved = {mask};
    apply.backward = {kGradient0};
    if (!style_.sequence_parallel)
      composer_.exchange_output(apply, Composer<N>::payload_of(whole, style_.residual));
    graph_.add(apply);
    x = masked;
    if (style_.sequence_parallel) {
      const ValueId scattered =
          graph_.tensor({"embedding", "scattered output", "tensor.reduce-scatter"},
                        sizes_.shard_tokens * width_, style_.residual, true);
      Operator scatter;
      scatter.label = "reduce-scatter";
      scatter.inputs = {x};
      scatter.outputs = {scattered};
      scatter.backward = {kGradient0};
      composer_.exchange_output(scatter, Composer<N>::payload_of(whole, style_.residual));
      composer_.book.exchange({graph_.storage_slot(masked), graph_.storage_slot(scattered)},
                              Exchanged::kWaitedFor);
      graph_.add(scatter);
      x = scattered;
    }
  }
  if (model_.project_in)
    x = composer_.linear(x, *model_.project_in, sizes_.tokens, width_, sizes_.hidden);
  return x;
}

template <class N>
ValueId EmbeddingWriter<N>::behind(ValueId x) {
  const bool transformers = style_.implementation == Implementation::kTransformers;
  // Its models call what they have looked up inputs_embeds, and what they make of it hidden_states; an encoder's embeddings
  // are a module of their own, and the model has a name for what that gives. One compiled graph has no names,
  // and stages of a pipeline have a forward of their own.
  const bool names = transformers && !style_.compiled && style_.ends_meet;
  if (names && !follows_vision(model_) && (!model_.encoder || model_.encoder_part)) graph_.name(x);
  const auto rows_of = [&](std::size_t tensor) {
    return Workbook<N>::symbol("P", model_.embedding_parameters.at(tensor).shape.at(0));
  };
  const auto index_of = [&](const char* owner, const char* name, const N& elements) {
    const ValueId index =
        graph_.tensor({owner, name, "op.embedding.index"}, elements, ElementType::kInt64, false);
    Operator make;
    make.label = "index";
    make.outputs = {index};
    graph_.add(make);
    return index;
  };
  // Tables are the embedding's tensors in their order: tokens, positions, token types.
  if (model_.token_types) {
    const ValueId index =
        transformers ? index_of("token types", "types of the tokens", sizes_.sequence) : ids_;
    x = composer_.add(x, lookup("token types", 2, rows_of(2), index, sizes_.tokens, sizes_.hidden),
                      {"embedding", "sum with token types", "op.add"});
  }
  if (model_.learned_positions && transformers &&
      model_.position_ids == PositionIds::kOfEachSequence) {
    const ValueId index = index_of("positions", "positions and their offset", sizes_.tokens);
    x = composer_.add(x, lookup("positions", 1, rows_of(1), index, sizes_.tokens, sizes_.hidden),
                      {"embedding", "sum with positions", "op.add"});
  } else if (model_.learned_positions) {
    // Rows for one sequence are added to every sequence of the batch.
    const ValueId positions =
        lookup("positions", 1, rows_of(1), ids_, sizes_.sequence, sizes_.hidden);
    if (names && !model_.encoder && !model_.encoder_part) graph_.name(positions);
    const ValueId sum = graph_.tensor({"embedding", "sum with positions", "op.add"},
                                      graph_.elements(x), style_.residual, true);
    Operator add;
    add.label = "add positions";
    add.inputs = {x, positions};
    add.outputs = {sum};
    add.backward = {{BackwardStep::kAliasGradient, 0, -1}, {BackwardStep::kInputGradient, 1, -1}};
    graph_.add(add);
    x = sum;
  }
  if (model_.scaled_embedding) x = composer_.scale(x, {"embedding", "scaled output", "op.scale"});
  if (model_.embedding_norm_present)
    x = composer_.normalise(x, model_.embedding_norm, sizes_.shard_tokens, width_);
  x = composer_.dropout(x, style_.embedding_dropout, "embedding");
  if (names && model_.encoder && !model_.encoder_part) graph_.name(x);
  if (!graph_.needs_gradient(x) && model_.embedding_output_asked) {
    // enable_input_require_grads(): a leaf, whose gradient nobody reads.
    const ValueId leaf =
        graph_.input(graph_.storage_slot(ids_), sizes_.tokens, ElementType::kInt64, true, false);
    const ValueId y = graph_.view(x, graph_.elements(x));
    Operator accumulate;
    accumulate.label = "accumulate";
    accumulate.inputs = {x, leaf};
    accumulate.outputs = {y};
    graph_.add(accumulate);
    return y;
  }
  if (style_.recomputes_ends) composer_.recompute_from(0);
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
