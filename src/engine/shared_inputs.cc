#include "engine/shared_inputs.h"

#include <algorithm>
#include <functional>

#include "job/pipeline_shape.h"

namespace steelyard {

namespace {

using Readers = std::vector<bool>;

Readers readers_of(const Architecture& model, const std::function<bool(const Layer&)>& reads) {
  Readers readers;
  // A tower of vision is given its own.
  for (const Layer& layer : model.kinds)
    readers.push_back(!(layer.encodes && follows_vision(model)) && reads(layer));
  return readers;
}

bool any(const Readers& readers) {
  return std::find(readers.begin(), readers.end(), true) != readers.end();
}

const GroupedAttention* grouped(const Layer& layer) {
  return std::get_if<GroupedAttention>(&layer.attention);
}

bool is_windowed(const Layer& layer) {
  const GroupedAttention* attention = grouped(layer);
  return attention != nullptr && attention->sliding_window.has_value();
}

// bloom hands the tensor itself to its layers; falcon adds it into the mask.
bool takes_alibi(const Layer& layer) {
  const GroupedAttention* attention = grouped(layer);
  return attention != nullptr && attention->alibi && !attention->always_masked;
}

std::int64_t rotary_width(const Layer& layer) {
  return std::visit([](const auto& attention) { return attention.rotary_width; }, layer.attention);
}

template <class N>
class Inputs {
 public:
  Inputs(const Job& job, const OperatorStyle& style, const Sizes<N>& sizes, Workbook<N>& book)
      : job_(job),
        model_(*job.model),
        style_(style),
        sizes_(sizes),
        book_(book),
        again_(recomputes_layers(job.recompute)) {}

  std::vector<SharedInput> list() && {
    const bool transformers = job_.implementation == Implementation::kTransformers;
    if (transformers) {
      positions();
      if (!model_.encoder) masks();
      alibi();
    }
    tables(transformers);
    return std::move(inputs_);
  }

 private:
  void add(const SlotName& name, const N& elements, ElementType type, bool kept,
           const Readers& readers, std::int32_t count = 1) {
    // Saved copies of it are on the host; only what runs again asks for the tensor itself.
    const bool stays = kept && (again_ || !style_.offloads_saved);
    inputs_.push_back({book_.slot(name, Pile::kActivations, elements, type),
                       count,
                       stays,
                       false,
                       readers,
                       {},
                       {}});
  }
  Readers all() const {
    return readers_of(model_, [](const Layer&) { return true; });
  }

  void positions() {
    if (model_.position_ids == PositionIds::kNone || cuts_inputs(job_, style_)) return;
    const bool each = model_.position_ids == PositionIds::kOfEachSequence;
    // A table of learned positions keeps the numbers it was asked with.
    const bool asked_with = model_.learned_positions && !each;
    add({"inputs", "position ids", "inputs.position-ids"}, each ? sizes_.tokens : sizes_.sequence,
        ElementType::kInt64, again_ || asked_with, all());
    // The training loop's, where the model would count the hidden states of this rank alone.
    inputs_.back().of_the_loop = style_.sequence_parallel;
  }

  // masking_utils.py: the written-out form needs a mask of numbers for each sort of layer; kernels are told "causal",
  // and take truths, the same for every sequence, only for a window that is shorter than the sequence.
  void masks() {
    const SlotName name{"inputs", "attention mask", "inputs.attention-mask"};
    const N pairs = sizes_.sequence * sizes_.sequence;
    for (const bool windowed : {false, true}) {
      const Readers readers =
          readers_of(model_, [&](const Layer& layer) { return is_windowed(layer) == windowed; });
      if (!any(readers)) continue;
      if (style_.attention == AttentionKernel::kEager) {
        add(name, sizes_.batch * pairs, style_.residual, again_, readers);
        continue;
      }
      const Readers masked = readers_of(model_, [&](const Layer& layer) {
        const GroupedAttention* attention = grouped(layer);
        if (attention == nullptr || is_windowed(layer) != windowed) return false;
        return attention->always_masked ||
               (windowed && job_.training.sequence_length > *attention->sliding_window);
      });
      if (any(masked) && is_handed_masks(style_.attention))
        add(name, pairs, ElementType::kBool, again_, masked);
    }
  }

  void alibi() {
    const Readers readers = readers_of(model_, takes_alibi);
    if (!any(readers)) return;
    const GroupedAttention& attention = *grouped(model_.kinds.front());
    add({"inputs", "alibi", "inputs.alibi"},
        sizes_.tokens * Workbook<N>::symbol("n", attention.heads), style_.residual, again_,
        readers);
  }

  void tables(bool transformers) {
    // Cached: the engine's, the model's, or in scaling each layer's.
    if (job_.implementation == Implementation::kMegatron ||
        job_.implementation == Implementation::kTorchtune ||
        job_.implementation == Implementation::kScaling)
      return;
    std::int64_t width = 0;
    bool in_float32 = false, halved = false, repeated = false, complex = false;
    for (const Layer& layer : model_.kinds) {
      width = std::max(width, rotary_width(layer));
      const auto* latent = std::get_if<LatentAttention>(&layer.attention);
      complex = complex || (transformers && latent != nullptr && latent->complex_rotary);
      const GroupedAttention* attention = grouped(layer);
      if (attention == nullptr) continue;
      in_float32 = in_float32 || attention->rotary_in_float32;
      halved = halved || (transformers && attention->rotary_form == RotaryForm::kHalfTables);
      repeated = repeated || (transformers && attention->rotary_form == RotaryForm::kPairs);
    }
    if (width == 0) return;
    N elements =
        (transformers && model_.positions_of_three_axes ? sizes_.tokens : sizes_.sequence) *
        Workbook<N>::symbol("d", width);
    if (halved) elements = elements / N(2);
    const ElementType type = in_float32 || complex ? ElementType::kFloat32 : style_.residual;
    const char* name = complex ? "cos and sin, complex" : "cos or sin";
    // cos and sin. Of two tables the windowed layers read one, the others the other.
    for (std::int64_t table = 0; table < model_.rotary_tables; ++table) {
      add({"inputs", name, "op.rotary.table"}, elements, type, again_ || !repeated,
          readers_of(model_,
                     [&](const Layer& layer) {
                       return model_.rotary_tables == 1 || is_windowed(layer) == (table == 1);
                     }),
          complex ? 1 : 2);
      if (transformers && !halved && !complex) note_making(elements, type);
    }
  }

  // LlamaRotaryEmbedding.forward: angles of half the width, twice beside one another, cos and sin of these and both scaled;
  // in fp32, and then cast.
  void note_making(const N& elements, ElementType type) {
    const auto slot = [&](const char* name, const N& size) {
      return book_.slot({"rotary embedding", name, "op.rotary.table-making"}, Pile::kTemporary,
                        size, ElementType::kFloat32);
    };
    const SlotId positions = slot("positions", sizes_.sequence),
                 angles = slot("angles", elements / N(2)), whole = slot("angles, twice", elements),
                 wave = slot("cos or sin", elements), scaled = slot("cos or sin, scaled", elements);
    const bool cast = type != ElementType::kFloat32;
    SharedInput& table = inputs_.back();
    table.making = {{positions, 1}, {angles, 1}, {whole, 1}, {wave, 1}};
    if (cast)
      for (const Event& event : {Event{scaled, 1}, {wave, -1}, {wave, 1}, {scaled, 1}, {wave, -1}})
        table.making.push_back(event);
    table.made = {{positions, -1}, {angles, -1}, {whole, -1}};
    table.made.push_back(cast ? Event{scaled, -2} : Event{wave, -1});
  }

  const Job& job_;
  const Architecture& model_;
  const OperatorStyle& style_;
  const Sizes<N>& sizes_;
  Workbook<N>& book_;
  bool again_;
  std::vector<SharedInput> inputs_;
};

}  // namespace

bool cuts_inputs(const Job& job, const OperatorStyle& style) {
  return style.context > 1 && style.context_code == ContextCode::kTorch &&
         job.implementation == Implementation::kTransformers && !runs_on_torch_pipelining(job);
}

template <class N>
std::vector<SharedInput> shared_inputs(const Job& job, const OperatorStyle& style,
                                       const Sizes<N>& sizes, Workbook<N>& book) {
  return Inputs<N>(job, style, sizes, book).list();
}

template <class N>
std::vector<ModelBuffer> model_buffers(const Job& job, Workbook<N>& book) {
  std::vector<ModelBuffer> buffers;
  const Architecture& model = *job.model;
  const bool megatron = job.implementation == Implementation::kMegatron;
  const bool scaling = job.implementation == Implementation::kScaling;
  const bool torchtune = job.implementation == Implementation::kTorchtune;
  if (job.implementation != Implementation::kTransformers && !megatron && !scaling && !torchtune)
    return buffers;
  const auto add = [&](const SlotName& name, const N& elements, ElementType type, int kind,
                       std::int32_t count = 1) {
    buffers.push_back({book.slot(name, Pile::kParameters, elements, type), count, kind});
  };
  if (model.scaled_embedding && !model.embedding_scale_is_number && !megatron)
    add({"embedding", "scale", "op.embedding.scale"}, N(1), ElementType::kFloat32,
        ModelBuffer::kOfEmbedding);
  std::int64_t width = 0;
  for (const Layer& layer : model.kinds) width = std::max(width, rotary_width(layer));
  if (scaling) {
    for (std::size_t kind = 0; kind < model.kinds.size(); ++kind)
      if (const std::int64_t of_kind = rotary_width(model.kinds[kind]); of_kind > 0)
        add({"attention", "cos or sin of all positions", "op.rotary.tables-of-layer"},
            Workbook<N>::symbol("s", job.training.sequence_length) *
                Workbook<N>::symbol("d", of_kind),
            job.training.precision.compute, static_cast<int>(kind), 2);
    return buffers;
  }
  if (torchtune) {
    // One table for all layers and every position that the model knows (torchtune/modules/position_embeddings.py).
    if (width == 0) return buffers;
    const std::int64_t positions = model.maximum_positions > 0
                                       ? model.maximum_positions
                                       : job.training.sequence_length.value();
    const N turned = Workbook<N>::symbol("d", width);
    add({"rotary embedding", "frequencies", "torchtune.rotary-table"}, turned / N(2),
        ElementType::kFloat32, ModelBuffer::kOfChunk);
    add({"rotary embedding", "sines and cosines", "torchtune.rotary-table"},
        Workbook<N>::symbol("P", positions) * turned, ElementType::kFloat32, ModelBuffer::kOfChunk);
    return buffers;
  }
  // Since 4.48 the frequencies as they are, and as they were at first; before, once of the model and of each layer.
  if (width > 0 && model.rotary_tables > 0 && job.rotary_of_layers) {
    const SlotName name{"rotary embedding", "frequencies of its own", "op.rotary.own-frequencies"};
    const N elements = Workbook<N>::symbol("d", width) / N(2);
    add(name, elements, ElementType::kFloat32, ModelBuffer::kOfChunk);
    for (std::size_t kind = 0; kind < model.kinds.size(); ++kind)
      if (rotary_width(model.kinds[kind]) > 0)
        add(name, elements, ElementType::kFloat32, static_cast<int>(kind));
  } else if (width > 0 && model.rotary_tables > 0)
    add({"rotary embedding", "frequencies", "op.rotary.frequencies"},
        Workbook<N>::symbol("d", width) / N(2), ElementType::kFloat32, ModelBuffer::kOfChunk,
        static_cast<std::int32_t>((megatron ? 1 : 2) * model.rotary_tables));
  if (megatron) return buffers;
  const auto add_all = [&](const std::vector<ParameterTensor>& tensors, int kind) {
    for (const ParameterTensor& tensor : tensors)
      if (tensor.buffer)
        add({tensor.name.c_str(), "buffer", "model.buffer"}, N(elements_of(tensor)),
            tensor.buffer_type, kind);
  };
  add_all(model.embedding_parameters, ModelBuffer::kOfEmbedding);
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind)
    add_all(model.kinds[kind].parameters, static_cast<int>(kind));
  return buffers;
}

template std::vector<SharedInput> shared_inputs(const Job&, const OperatorStyle&,
                                                const Sizes<Checked>&, Workbook<Checked>&);
template std::vector<SharedInput> shared_inputs(const Job&, const OperatorStyle&,
                                                const Sizes<Traced>&, Workbook<Traced>&);
template std::vector<ModelBuffer> model_buffers(const Job&, Workbook<Checked>&);
template std::vector<ModelBuffer> model_buffers(const Job&, Workbook<Traced>&);

}  // namespace steelyard
