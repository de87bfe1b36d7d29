// Writes operators into a graph: the vocabulary in which layers are composed.
//
//   ValueId y = composer.linear(x, attention.output, sizes.hidden);
//
// Each function is one operator (or a short run of them) of a real implementation; it states what is saved and names
// the rule. Bytes follow from the tensors alone.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "operators/graph.h"
#include "operators/style.h"

namespace steelyard {

// What the core of attention is asked to do, beside its three tensors.
struct CoreAttention {
  double dropout = 0;  // of the probabilities
  bool causal = true;
  bool masked = false;              // a mask is handed over: kernels that only know "causal" refuse
  bool eager = false;               // the model has no other form
  bool softcap = false;             // tanh over the scores
  int sinks_index = -1;             // one more column of scores: a parameter of the layer
  bool scores_in_float32 = false;   // q and k are widened before their product
  bool one_key_value_head = false;  // the products themselves broadcast k and v
  bool query_by_head = false;  // q was joined from parts, head by head: so the output is laid out
  bool softmax_as_given = false;  // the softmax in the scores' own type
  // Numbers added to the scores, the same for every sequence; heads have keys of their own then.
  ValueId bias = kNoValue;
};

template <class N>
class Composer {
 public:
  // `tensors`: those of the module that is composed; Linear and Norm index into them.
  Composer(Workbook<N>& workbook, const OperatorStyle& operator_style, const Sizes<N>& micro_batch,
           const std::vector<ParameterTensor>& tensors)
      : book(workbook),
        graph(workbook),
        style(operator_style),
        sizes(micro_batch),
        parameters_(tensors),
        parameter_ids_(tensors.size(), -1) {}

  Workbook<N>& book;
  Graph<N> graph;
  const OperatorStyle& style;
  const Sizes<N>& sizes;

  // --- pointwise (operators/pointwise.cc)
  // One tensor in, one of `elements` and `type` out; its gradient is one tensor like x, made after `before`.
  struct Keeps {
    bool input = false, output = false;
  };
  ValueId single(const char* label, ValueId x, const SlotName& name, const N& elements,
                 ElementType type, Keeps keeps, const Few<BackwardStep, 14>& before = {});
  ValueId pointwise(const char* label, ValueId x, const SlotName& name, Keeps keeps = {}) {
    return single(label, x, name, graph.elements(x), graph.type(x), keeps);
  }
  ValueId cast(ValueId x, ElementType type, const SlotName& name);
  ValueId add(ValueId x, ValueId y, const SlotName& name);
  ValueId multiply(ValueId x, ValueId y, const SlotName& name);
  // y = x * constant (cos, sin, scale): nothing of x is kept.
  ValueId scale(ValueId x, const SlotName& name);
  ValueId activate(ValueId x, Activation activation, const char* owner);
  // y = x * x, which keeps x.
  ValueId square(ValueId x, const SlotName& name);
  ValueId dropout(ValueId x, double probability, const char* owner);
  // Same elements in another order: a copy, forward and backward.
  ValueId copy(ValueId x, const SlotName& name);
  // A copy in another order, whose gradient comes in that order and is passed on.
  ValueId laid_out(ValueId x, const SlotName& name);
  // A view whose gradient comes back in another memory order and is copied (reshape after rotary embedding).
  ValueId reshaped(ValueId x, bool gradient_copied);
  // x, or `elements` of it, with other strides. The gradient of a part is a whole x of zeros with the part copied in.
  ValueId viewed(const char* label, ValueId x, const N& elements,
                 const BackwardStep& gradient = kGradient0);
  // torch.cat: the gradients of the parts are views of its own.
  ValueId joined(const Few<ValueId, 6>& parts, const SlotName& name, const N& elements);
  // What is made without being trained: tables, positions, masks.
  ValueId made(const char* label, const Few<ValueId, 6>& inputs, const SlotName& name,
               const N& elements, ElementType type);

  // --- the loss (operators/cross_entropy.cc)
  // Minus the logarithms that `target` picks, averaged, in `type`; autocast picks from fp32. Backward does `before` first.
  ValueId negative_log_likelihood(ValueId log_softmax, ValueId target, const char* name,
                                  ElementType type, const Few<BackwardStep, 14>& before = {});
  // Megatron's, of the rows of the vocabulary that this rank has: what it keeps, and what passes while `result` is made
  // of `logits` (operators/sharded_cross_entropy.cc).
  Operator vocabulary_parallel_cross_entropy(const char* owner, ValueId logits, ValueId result);

  // --- normalisation (operators/normalisation.cc)
  // `rows` rows of norm.width elements. A LayerNorm copies what does not lie row by row.
  struct Apart {
    bool input = false, gradient = false;
  };
  ValueId normalise(ValueId x, const Norm& norm, const N& rows, const N& width, Apart apart = {});

  // --- matrix products (operators/matrix.cc)
  // With its adapters, and without. What is allocated is called by the linear's own name, which the model holds: a copy that
  // dies before the program would leave that name hanging.
  ValueId linear(ValueId x, const Linear& linear, const N& rows, const N& in, const N& out);
  ValueId base_product(ValueId x, const Linear& linear, const N& rows, const N& in, const N& out);
  // The product itself, in the type `factor` says.
  struct Factor {
    int weight_gradient = -1, bias_gradient = -1;  // -1: not trained
    bool keeps_weight = false;  // even where the input asks for no gradient: a convolution
    bool biased = false;        // the kernel adds a bias (another order in backward)
    SlotId columns = -1,
           apart = -1;   // a convolution's: patches of one image; its gradient, laid out
    ElementType type{};  // in which the product is computed
    std::optional<ElementType> stored;  // the weight's own; absent: as the recipe says
  };
  ValueId product(ValueId x, const SlotName& output, const N& rows, const N& in, const N& out,
                  const Factor& factor);
  // The gradient of a bias: a sum over rows, with what its kernel needs while it runs.
  void sum_rows(Operator& operation, const char* owner, const N& rows, const N& width,
                const char* what = "bias gradient, partial sums");
  // The pieces of one tensor; `gradient_is_concatenated`: backward joins the pieces' gradients into a new tensor.
  std::vector<ValueId> split(ValueId x, const std::vector<N>& sizes_of_pieces, const char* owner);
  // Tensor parallelism with torch's DTensor: the block's input, the whole sequence where it is divided, shared by the
  // products that read it and kept by them; backward adds up what the ranks have of its gradient. Megatron and nanotron gather inside each product and keep the shard: x comes back unchanged.
  ValueId gathered(ValueId x, const N& width, const char* owner);
  // Tensor parallelism around matrix products.
  ValueId column_linear(ValueId x, const Linear& linear, const N& in, const N& out);
  void exchange_input(Operator& operation, double payload) const;
  void exchange_output(Operator& operation, double payload) const;
  static double payload_of(const N& elements, ElementType type) {
    return static_cast<double>(plain(elements)) * bytes_each(type);
  }
  // operators/float8_linear.cc
  ValueId float8_product(ValueId x, const Linear& linear, const N& rows, const N& in, const N& out);
  std::pair<ValueId, ValueId> float8_factor(ValueId x, const char* owner, const N& elements,
                                            const N& scales);
  void float8_backward_factor(Operator& operation, const char* owner, const N& elements,
                              const N& scales);
  ValueId biased(ValueId y, const Linear& linear, const N& elements, const N& out);
  ValueId row_linear(ValueId x, const Linear& linear, const N& in, const N& out);

  // --- parts of a layer
  ValueId attention(ValueId x, const GroupedAttention& attention);  // operators/attention.cc
  ValueId attention(ValueId x, const LatentAttention& attention);   // operators/latent_attention.cc
  ValueId attention(ValueId x, const GatedDelta& delta);            // operators/gated_delta.cc
  // With relative positions; `cross`: keys and values from what the encoder gave (operators/relative_attention.cc).
  ValueId relative_attention(ValueId x, const GroupedAttention& attention, bool cross);
  ValueId mlp(ValueId x, const DenseMlp& mlp);   // operators/mlp.cc
  ValueId mlp(ValueId x, const ExpertMlp& mlp);  // operators/experts.cc

  // The expert that every token visits, with its gate.
  ValueId shared_expert(ValueId x, const ExpertMlp& mlp, const N& tokens);
  ValueId gated_shared_expert(ValueId x, ValueId shared, const ExpertMlp& mlp, const N& tokens);

  // Of a matrix product, which autocast computes in 16 bits: its gradient is cast to the weight's own type.
  int parameter(int index, const N& elements) { return parameter_of(index, elements, true); }
  // Of an operator that autocast leaves in the weight's type: embeddings, norms, experts.
  int uncast_parameter(int index, const N& elements) {
    return parameter_of(index, elements, false);
  }
  // Cut here, but every rank makes the gradient of the whole.
  int replicated_parameter(int index, const N& elements, const N& whole);
  // Widened to fp32 for its product: so its gradient appears, and is cast.
  int widened_parameter(int index, const N& elements);
  // `name` is the owner in the ledger.
  GradientSlots gradient_slots(const SlotName& name, const N& elements, bool of_product = true);
  // Where an optimizer steps in backward: what it makes of this tensor (operators/step_in_backward.cc).
  void step_at_once(GradientSlots& slots, const ParameterTensor& tensor, const N& elements);
  // The first tensor's gradient joins one that waits for it: that of a tied head, made before in backward.
  // `own`: what waits is the engine's alone, and takes the sum.
  void join_first_gradient(const WaitingGradient& waiting, bool own = false) {
    waiting_ = waiting;
    waiting_is_own_ = own || waiting.is_alone;
  }
  // The gradient of this tensor goes to `id` from here on: one use of several, each with its own place in a sum.
  void take_parameter(int index, int id) { parameter_ids_[place_of(index)] = id; }
  // Two graphs of one module (with and without recompute) make the same gradients: `slots` remembers them by tensor.
  void share_gradients(std::vector<GradientSlots>& slots) {
    slots.resize(parameters_.size());
    shared_gradients_ = &slots;
  }
  bool has_gradient(int index) const { return index >= 0 && parameters_[place_of(index)].gradient; }
  void first_gradient_waits() { first_waits_ = true; }  // for one more
  // What the layers of an encoder, or of a decoder, share; a layer makes what it is not given.
  struct Stack {
    ValueId positions = kNoValue;        // relative ones of its own tokens
    ValueId cross_positions = kNoValue;  // of its tokens towards the encoder's: zeros
    ValueId encoded = kNoValue;          // what the encoder gave
    N source_sequence{};                 // its tokens
    bool checkpointed = false;           // layers run again in backward
  } stack;
  // Tensors of a module that lies within the owner's: its own indices count from there.
  int first_parameter = 0;
  // Llama 4 in transformers (operators/every_expert.cc).
  ValueId every_expert(ValueId x, const ExpertMlp& mlp);
  ValueId scores_of_every_expert(ValueId logits, const N& experts, const N& chosen);
  ValueId batched_product(ValueId x, int weight_index, const char* name, const N& in, const N& out,
                          const N& experts, const N& tokens);
  // A router's choice: weights and experts for each token and place.
  struct Routed {
    ValueId weights = kNoValue, indices = kNoValue, logits = kNoValue;
  };
  Routed route(ValueId x, const ExpertMlp& mlp);  // operators/router.cc
  // --- adapters and quantised weights (operators/adapter.cc, operators/quantised.cc)
  // y = x W^T, and what the adapter of `linear` adds to it.
  ValueId adapted(ValueId x, ValueId y, const Linear& linear, const N& rows, const N& in,
                  const N& out);
  // What is added to a stack of experts' weights, and the sum (operators/expert_adapter.cc).
  struct ExpertFactors {
    const char* owner = "";
    ValueId up = kNoValue, down = kNoValue;
    N whole{}, of_up{};  // elements
    ElementType type{};
    Arithmetic arithmetic;
  };
  ExpertFactors expert_factors(const char* owner, const LowRank& adapter, const N& experts,
                               const N& in, const N& out, ElementType type);
  ValueId with_expert_factors(const ExpertFactors& factors);
  ValueId router_with_adapter(const Linear& router, const N& in, const N& out);
  // A product with a weight of 4 or 8 bits (bitsandbytes).
  ValueId quantised_product(ValueId x, const Linear& linear, ElementType stored, const N& rows,
                            const N& in, const N& out);
  std::optional<ElementType> stored_type(int index) const {
    return index < 0 ? std::nullopt : parameters_[place_of(index)].stored;
  }

  // What the attention kernel's backward needs beside the gradients that it gives: `queries` tokens of each sequence
  // against `keys`.
  Few<BackwardStep, 14> attention_workspaces(const N& heads, const N& key_value_heads,
                                             const N& query_width, const N& value_width,
                                             const N& queries, const N& keys);
  N cudnn_workspace(const N& heads, const N& key_value_heads, const N& query_width,
                    const N& value_width, const N& queries, const N& keys);
  N efficient_workspace(const N& heads, const N& head_width, const N& queries, const N& keys);
  // What a product keeps for its weight's gradient: x, or, inside layers with 8-bit products, a copy in 8 bits.
  void keep_input(Operator& operation, ValueId x, const char* owner);
  // The gradient of a product's output in 8 bits, both ways round, while it runs backward.
  void quantise_gradient(Operator& operation, const char* owner, const N& elements);
  bool in_layer = false;
  bool eight_bits() const {
    return style.eight_bits == EightBitCode::kTransformerEngine && in_layer;
  }
  // Where what is saved goes to the host, a weight that an operator refers to goes with it.
  void keep_weight(Operator& operation, const char* owner, const N& elements);
  // Opens and closes recompute regions.
  int position() const { return graph.size(); }
  // A part of the layer. What a compiled graph computes again, by its partitioner's choice, no checkpoint stands around.
  void recompute_from(int begin, bool discards_output = false) {
    recompute_from(begin, discards_output, style.recompute_reentrant && !style.compiled);
  }
  void recompute_layer() { recompute_from(0, false, style.recompute_reentrant); }

  // Scores of written-out attention, which transformers' layers have a name for until they return.
  ValueId attention_weights = kNoValue;

  // Operators that the head begins with and that are the model's own forward, not its caller's: the final norm.
  int head_operators_of_model = 0;
  int head_operators_to_logits = 0;  // 0: there is no one tensor of them

  // Which parts run again in backward.
  struct Recomputed {
    bool core_attention = false, mlp = false, norms = false, activation = false;
    bool module = false;  // that predicts a further token: all of it
  } recomputed;
  Recomputed recomputed_in_predictions;

  // --- the fused kernels of a training framework (operators/fused.cc)
  ValueId swiglu(ValueId gate_up, const N& rows, const N& width, const char* owner);
  ValueId fused_activation(ValueId x, const char* owner);
  ValueId offset(ValueId up, const char* owner);
  ValueId gated_in_one(ValueId gate, ValueId up, const char* owner);

  // softmax(q k^T) v; q, k, v of the widths given per token
  ValueId core_attention(ValueId q, ValueId k, ValueId v, const N& heads, const N& key_value_heads,
                         const N& query_width, const N& value_width, const CoreAttention& how);
  // k and v copied out to all query heads (repeat_kv of transformers).
  void repeat_to_all_heads(ValueId& k, ValueId& v, const N& query_width, const N& value_width);
  ValueId weighted_values(ValueId probabilities, ValueId v, const N& heads, const N& value_width,
                          ElementType type);
  void rotary(ValueId& q, ValueId& k, const GroupedAttention& attention);  // operators/rotary.cc

  // A local name of the module's forward, until that returns.
  void hold_until_return(ValueId value) { locals_.push_back(value); }
  std::int64_t rows_of(int index) const { return parameters_[place_of(index)].shape.front(); }
  ValueId rotary_in_place(ValueId x);  // operators/rotary.cc

 private:
  void recompute_from(int begin, bool discards_output, bool reentrant) {
    if (graph.size() > begin)
      graph.region(
          {begin, graph.size(), discards_output, !reentrant, reentrant && !discards_output});
  }
  std::size_t place_of(int index) const {
    return static_cast<std::size_t>(index + first_parameter);
  }
  int parameter_of(int index, const N& elements, bool of_product);
  ValueId grouped_experts(ValueId x, ValueId weights, ValueId indices,
                          const ExpertMlp& mlp);  // operators/grouped_experts.cc
  ValueId sorted_experts(ValueId x, ValueId weights, ValueId indices, const ExpertMlp& mlp);
  ValueId exchanged_experts(ValueId x, ValueId weights, ValueId indices,
                            const ExpertMlp& mlp);              // operators/exchanged_experts.cc
  ValueId dispatched_experts(ValueId x, const ExpertMlp& mlp);  // operators/dispatched_experts.cc
  // `sequence`: tokens of a sequence that one call sees.
  ValueId flash_attention(ValueId q, ValueId k, ValueId v, const N& heads, const N& key_value_heads,
                          const N& query_width, const N& value_width, const N& sequence,
                          const CoreAttention& how);
  // A sequence over several ranks (operators/context_attention.cc).
  ValueId context_attention(ValueId q, ValueId k, ValueId v, const N& heads,
                            const N& key_value_heads, const N& query_width, const N& value_width,
                            const CoreAttention& how);
  void cast_for_kernel(ValueId& x, const char* name);
  ValueId with_sinks(ValueId scores, const N& columns, const N& rows, int sinks_index,
                     const N& heads);
  // q, k and v of one product; falcon indexes its single key and value out of it.
  bool packs_projections(const GroupedAttention& attention) const;
  void split_fused(ValueId packed, const GroupedAttention& attention, const N& query,
                   const N& key_value, ValueId& q, ValueId& k, ValueId& v);
  ValueId eager_attention(ValueId q, ValueId k, ValueId v, const N& heads, const N& key_value_heads,
                          const N& query_width, const N& value_width, const CoreAttention& how);
  // operators/relative_attention.cc
  ValueId looked_up_positions(const GroupedAttention& attention, const N& heads);
  ValueId no_positions(const N& heads, const N& keys);
  ValueId masked_positions(ValueId positions);
  ValueId biased_kernel(ValueId q, ValueId k, ValueId v, ValueId bias, const N& heads,
                        const N& width, const N& keys);
  ValueId relative_eager(ValueId q, ValueId k, ValueId v, ValueId positions, const N& heads,
                         const N& width, const N& keys, bool causal);
  void add_positions(ValueId scores, ValueId positions, ValueId sum, ElementType added);
  ValueId math_attention(ValueId q, ValueId k, ValueId v, const N& heads, const N& query_width,
                         const N& value_width,
                         const CoreAttention& how);  // operators/math_attention.cc
  void return_locals() {
    for (ValueId value : locals_) graph.hold(value);
    locals_.clear();
  }
  // softmax_backward_cuda_out makes grad·output before the gradient (aten/src/ATen/native/cuda/SoftMax.cu).
  BackwardStep softmax_product(const N& elements, ElementType type) {
    return {BackwardStep::kTemporary, 0,
            graph.temporary({"attention", "gradient · softmax", "op.softmax.backward-product"},
                            elements, type)};
  }
  ValueId nanotron_attention(ValueId x, const GroupedAttention& attention, const N& query_width,
                             const N& key_value_width, const N& heads, const N& key_value_heads);
  ValueId scaled_by_position(ValueId q);
  // operators/litgpt.cc; without the output's product
  ValueId litgpt_attention(ValueId x, const GroupedAttention& attention, const N& query,
                           const N& key_value, const N& heads, const N& key_value_heads);
  ValueId litgpt_adapters(ValueId x, ValueId packed, const GroupedAttention& attention,
                          const N& query, const N& key_value);
  // operators/torchtune.cc; without the output's product
  ValueId torchtune_attention(ValueId x, const GroupedAttention& attention, const N& query,
                              const N& key_value, const N& heads, const N& key_value_heads);
  ValueId turned_by_pairs(ValueId x, const SlotName& name);
  ValueId expanded(ValueId x, const char* name, const N& elements);
  // operators/local_attention.cc; without the output's product
  ValueId local_attention(ValueId x, const GroupedAttention& attention, const N& query,
                          const N& key_value, const N& heads);
  ValueId low_rank(ValueId x, const Linear& linear, const N& rows, const N& in, const N& out,
                   ValueId* narrow = nullptr);
  ValueId expert_factor(const char* owner, const char* name, int index, const N& elements,
                        ElementType type, bool by_column);
  SlotId laid_out_factor(const ExpertFactors& factors);
  ValueId with_magnitude(ValueId x, ValueId base, const Linear& linear, const N& rows, const N& in,
                         const N& out);
  bool comes_back_as_fp16(ElementType stored) const {
    return style.quantised_from_fp16 && stored == ElementType::kNormalFloat4 &&
           style.quantised_compute != ElementType::kFloat16;
  }
  bool of_torchao() const { return style.implementation == Implementation::kTorchtune; }
  ValueId dequantised(const char* owner, ElementType stored, const N& in, const N& out);
  // What torchao makes a weight of, and what of it has a name until that stands.
  struct LookedUp {
    ValueId scaled = kNoValue;
    std::array<ValueId, 3> named{};
  };
  LookedUp look_up(const char* owner, const N& elements);
  std::array<SlotId, 2> looked_up_in_backward(const char* owner, const N& elements);
  ValueId rms_composite(ValueId x, const Norm& norm, const N& rows, const N& width);
  ValueId rms_fused(ValueId x, const Norm& norm, const N& rows, const N& width);
  ValueId rms_narrow(ValueId x, const Norm& norm, const N& rows, const N& width);
  ValueId layer_norm(ValueId x, const Norm& norm, const N& rows, const N& width, Apart apart);
  ValueId offset_layer_norm(ValueId x, const Norm& norm, const N& rows, const N& width);

  const std::vector<ParameterTensor>& parameters_;
  std::vector<int> parameter_ids_;
  std::vector<GradientSlots>* shared_gradients_ = nullptr;
  WaitingGradient waiting_;
  bool waiting_is_own_ = false, first_waits_ = false;
  std::vector<ValueId> locals_;
};

// The whole layer, from the residual stream to the residual stream (operators/layer.cc).
template <class N>
ValueId compose_layer(Composer<N>& composer, const Layer& layer, ValueId x);

}  // namespace steelyard
