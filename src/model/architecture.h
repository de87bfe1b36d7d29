// What exists: a transformer as its config.json describes it, before any recipe or layout.
//
//   Architecture llama = ...;                    // read by families/llama.cc from config.json
//
//   token embedding [V, h]
//   layer kind 0  x 32     pre-norm: rms -> grouped attention -> add, rms -> gated mlp -> add
//   final norm [h]
//   head [V, h]
//
// Every module names its tensors as the checkpoint does ("self_attn.q_proj"); a layer's tensors get
// the prefix of the layer ("model.layers.17."). Shapes are [out, in] unless `stored_transposed`.
// Letters used in formulas: V vocabulary rows, h hidden, n query heads, d head width, k = key/value
// heads x d, a = n x d, f feed-forward width, E experts, M width of one expert, L layers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "quantity/element_type.h"

namespace steelyard {

// How tensor parallelism cuts a tensor; dimensions as stored. In a fused expert tensor [E, ...] the
// dimensions are counted after the expert: kRows of [E, I, H] cuts I, kColumns of [E, H, 2I] cuts
// 2I.
enum class TensorCut : std::uint8_t {
  kReplicated,
  kRows,
  kColumns
};  // kRows cuts dimension 0, kColumns dimension 1 (the last)

enum class TensorRole : std::uint8_t { kEmbedding, kHead, kMatrix, kBias, kNorm, kRouter, kOther };

// One parameter tensor (or buffer) of a module.
struct ParameterTensor {
  std::string name;                 // within its owner: "self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;  // as stored in the checkpoint
  TensorRole role = TensorRole::kMatrix;
  TensorCut cut = TensorCut::kReplicated;
  bool routed_expert =
      false;  // divided by expert parallelism; dimension 0 is the expert when `fused_experts`
  bool fused_experts =
      false;  // one tensor [E, ...] holds all experts; otherwise `copies` = E equal tensors
  std::int64_t copies = 1;  // equal tensors of this name pattern ("mlp.experts.*.w1.weight": E)
  bool buffer = false;      // in memory, not a parameter (never counted, no gradient)
  ElementType buffer_type = ElementType::kFloat32;
  std::int64_t head_width = 0;  // of q, k, v projections: rows come in heads of this width
  bool beside_total = false;    // trained, but not in the total: bert's masked-language head
  bool frozen = false;          // not trained: no optimizer state
  bool unread = false;  // asks for a gradient, and none comes: nobody reads what it has made
  // Backward makes one: of what is trained, and in FSDP1 of what is frozen beside it.
  bool gradient = true;
  // What adapters leave as it was is kept in a type of its own, a quantised one perhaps; absent: as the recipe says.
  std::optional<ElementType> stored;
};

// Two narrow matrices beside a frozen one: y = x W^T + scale x A^T B^T, A [rank, in], B [out, rank] (arXiv 2106.09685).
struct LowRank {
  std::int64_t rank = 0;
  int down_index = -1, up_index = -1;  // A and B, into the owner's `parameters`
  int magnitude_index = -1;            // DoRA: a length for each output, [out] (arXiv 2402.09353)
  bool in_weight = false;  // their product is added to the weight, and the product reads the sum
};

// A dense matrix product y = x W^T (+ bias).
struct Linear {
  std::string name;
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = false;
  bool stored_transposed = false;  // GPT-2's Conv1D: [in, out]
  int weight_index = -1;           // into the owner's `parameters`
  int bias_index = -1;
  std::optional<LowRank> adapter;
};

enum class NormKind : std::uint8_t {
  kRms,                  // llama: fp32 copy, normalise, cast back, multiply by the weight
  kRmsUnitOffset,        // gemma: (1 + w), the product in fp32
  kRmsFloat32,           // gpt_oss, olmo2: weight product in fp32 before the cast
  kLayerNorm,            // weight, and bias when `bias`
  kLayerNormUnitOffset,  // nemotron: the same, with 1 + w
  kWeightless,           // L2 norm without parameters
  kRmsNarrowInput,  // t5: the input as it is times the fp32 reciprocal, cast back, times the weight
};

struct Norm {
  std::string name;
  NormKind kind = NormKind::kRms;
  std::int64_t width = 0;
  bool bias = false;
  int weight_index = -1;
  int bias_index = -1;
};

enum class Activation : std::uint8_t {
  kSilu,        // one operator
  kGeluErf,     // one operator
  kGeluTanh,    // one operator (gelu_pytorch_tanh)
  kGeluPython,  // gelu_new: written out in Python, several operators
  kGeluCustom,  // bloom: own autograd function that keeps only its input
  kRelu,
  kSquaredRelu,    // nemotron: relu, then its square
  kQuickGelu,      // x * sigmoid(1.702 x), two operators
  kClampedSwiglu,  // gpt_oss: (up + 1) * gate * sigmoid(1.702 gate), clamped
};

// How transformers turns a part of each head by the positions, and where sines and cosines come from.
enum class RotaryForm : std::uint8_t {
  kHalves,      // x·cos + rotate_half(x)·sin with the model's tables (llama)
  kHalfTables,  // the model's tables are half as wide, and each half is turned by itself (gpt_oss)
  kPairs,       // each layer repeats the model's tables for neighbouring elements (glm4)
  kOwnTables,   // each layer looks them up in a table of its own, and repeats them twice (gptj)
};

// t5: one number for each head and distance of two tokens, added to the scores. The first layer of a stack looks them up,
// and the others are given what it has made.
struct RelativePositions {
  std::int64_t buckets = 0;
  int table_index = -1;  // [buckets, n], of the layer that looks them up
};

struct GroupedAttention {
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;
  std::int64_t head_width = 0;
  std::optional<Linear> query, key, value;  // separate projections ...
  std::optional<Linear> fused;              // ... or one for all three
  Linear output;
  std::optional<Norm> query_norm, key_norm;
  bool norm_over_whole_projection = false;  // olmo2: [n*d] and [k*d]; otherwise per head, [d]
  std::int64_t rotary_width = 0;            // of each head; 0: no rotary embedding
  RotaryForm rotary_form = RotaryForm::kHalves;
  bool joins_rotated_parts = false;  // itself: names of the parts stay until it returns
  int position_table_index = -1;     // the buffer [positions, rotary width] of kOwnTables
  bool alibi = false;
  std::optional<RelativePositions> relative;
  bool sinks = false;  // one more column of scores, parameter [n]
  int sinks_index = -1;
  std::optional<double> score_softcap;
  std::optional<std::int64_t> sliding_window;  // compute and scores, not the kept q, k, v
  double dropout = 0;                          // of attention probabilities
  bool causal = true;
  bool always_repeats_key_value =
      false;  // falcon (new): k, v are copied out to n heads before attention
  bool one_key_value_head =
      false;                   // falcon (7b): k, v are indexed out and broadcast by the product
  bool always_masked = false;  // falcon: a mask is made even where "causal" would do
  bool rotary_in_float32 =
      false;  // olmo2: cos and sin are not cast to the type of the hidden states
  bool scores_in_float32 = false;  // gptj: q and k are widened before their product
  bool eager_only =
      false;  // no fused kernel exists in the implementation (gpt_oss in transformers)
  bool norms_after_rotary = false;  // hunyuan: query and key are turned first, then normalised
  // ministral3: the turned query times a number for each position, which a product keeps
  bool query_scaled_by_position = false;
  // ernie4_5: the two factors of each product with a table are widened to fp32 first
  bool widens_rotary_products = false;
  // qwen3_5: the query's projection makes a gate of the same width, whose sigmoid multiplies the output
  bool output_gate = false;
  // bert: attention that is written out takes the softmax of its scores as they are, not of an fp32 copy
  bool softmax_as_given = false;
};

// DeepSeek's multi-head latent attention.
struct LatentAttention {
  std::int64_t heads = 0;
  std::int64_t query_rank = 0;  // 0: one plain q_proj
  std::int64_t key_value_rank = 0;
  std::int64_t plain_width = 0;                // qk_nope_head_dim
  std::int64_t rotary_width = 0;               // qk_rope_head_dim
  std::int64_t value_width = 0;                // v_head_dim
  bool complex_rotary = false;                 // turned by one complex number for each pair
  std::optional<Linear> query;                 // when query_rank == 0
  std::optional<Linear> query_down, query_up;  // q_a_proj, q_b_proj
  std::optional<Norm> query_norm;
  Linear key_value_down, key_value_up;  // kv_a_proj_with_mqa, kv_b_proj
  Norm key_value_norm;
  Linear output;
  double dropout = 0;
};

// qwen3_next, qwen3_5: a short convolution over the tokens, and for each head a state [key width, value width] that fades and is
// corrected towards each token's value (arXiv 2412.06464, gated delta rule).
struct GatedDelta {
  std::int64_t heads = 0;                       // of values
  std::int64_t key_heads = 0;                   // each is repeated for several heads of values
  std::int64_t key_width = 0, value_width = 0;  // of one head
  std::int64_t kernel = 0;                      // tokens that the convolution sees
  std::int64_t rotary_width = 0;                // none
  double dropout = 0;                           // none
  Linear packed;                // query, key, value; in qwen3_next the gate with them
  std::optional<Linear> gate;   // z
  Linear write;                 // b; in qwen3_next the decay with it
  std::optional<Linear> decay;  // a
  int convolution_index = -1;   // [channels, 1, kernel]
  int time_bias_index = -1, decay_index = -1;  // dt_bias and A_log, [heads]
  Norm norm;                                   // of each value head, times silu(z)
  Linear output;
  std::int64_t keys() const { return key_heads * key_width; }
  std::int64_t values() const { return heads * value_width; }
};

struct DenseMlp {
  bool gated = true;
  Activation activation = Activation::kSilu;
  std::int64_t width = 0;
  std::optional<Linear> gate, up;  // plain mlp: only `up` (fc1)
  std::optional<Linear> gate_up;   // fused [2f, h]
  Linear down;
  // t5: dropout before the last product, which asks for what it reads in the type of its weight.
  bool inner_dropout = false;
};

// What becomes of a router's logits in transformers, before the experts get them as weights.
struct Routing {
  bool scores_of_chosen = false;   // softmax over the chosen logits, not over all (gpt_oss)
  bool divided_by_sum = false;     // the chosen scores, in place
  bool in_type_of_logits = false;  // cast back (qwen)
  bool scaled = false;             // times a constant (deepseek, glm4_moe)
};

struct ExpertMlp {
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t width = 0;  // of one expert
  Activation activation = Activation::kSilu;
  bool gated =
      true;  // false: `up` and `down` alone, act(up) between them (Megatron-LM without --swiglu)
  bool expert_biases = false;
  Linear router;
  bool router_in_float32 = false;  // casts the hidden states to fp32 first (deepseek, glm4_moe)
  bool sigmoid_scores = false;
  Routing routing;
  std::optional<DenseMlp> shared;     // shared expert(s), one mlp of their joint width
  std::optional<Linear> shared_gate;  // qwen2_moe: a sigmoid of [1, h] multiplies the shared output
  int gate_up_index = -1, down_index = -1;  // fused tensors, or
  int gate_index = -1, up_index = -1;       // per-expert tensors (copies = experts)
  int up_bias_index = -1;                   // of experts without a gate
  int gate_up_bias_index = -1, down_bias_index = -1;
  // Beside the stacked tensors, for all experts at once: A [E x rank, in], B [out, E x rank] (PEFT's ParamWrapper).
  std::optional<LowRank> gate_up_adapter, down_adapter;
  // llama4 in transformers: every expert runs over every token (its scores are zero where it was
  // not chosen).
  bool every_expert_runs_every_token = false;
  bool router_behind_experts = false;  // of the modules in transformers 5 (qwen3_moe, deepseek)
};

enum class Arrangement : std::uint8_t {
  kPreNorm,     // x + f(norm(x)), twice                          norms: attention, mlp
  kPostNorm,    // norm(x + f(x)), twice (bert, opt-350m)         norms: attention, mlp
  kOutputNorm,  // x + norm(f(x)), twice (olmo2)                  norms: attention, mlp
  kSandwich,    // x + norm(f(norm(x))), twice (gemma2, glm4)     norms: input, post attention, pre
                // mlp, post mlp
  kParallelOneNorm,   // x + attention(norm(x)) + mlp(norm(x))          norms: input
  kParallelTwoNorms,  // x + attention(norm1(x)) + mlp(norm2(x))        norms: attention, mlp
};

// A decoder's, to what an encoder has given: keys and values are products of that.
struct CrossAttention {
  GroupedAttention attention;
  Norm norm;  // before it
};

struct Layer {
  Arrangement arrangement = Arrangement::kPreNorm;
  std::vector<Norm> norms;                        // in the order given beside the arrangement
  std::optional<CrossAttention> cross_attention;  // between attention and mlp: a layer of a decoder
  std::variant<GroupedAttention, LatentAttention, GatedDelta> attention;
  std::variant<DenseMlp, ExpertMlp> mlp;
  double residual_dropout = 0;              // after attention and after the mlp
  bool scaled_sublayers = false;            // granite: each sublayer's output times a number
  std::vector<ParameterTensor> parameters;  // every tensor of the layer, in module order
  bool input_needs_gradient = true;         // false: nothing before this layer is trained
  bool encodes = false;                     // of the first of two stacks (EncoderPart)
  // A tower's, behind the one that the decoder reads: it runs, and its output and gradient are nobody's.
  bool unread = false;
};

// Multi-token prediction (arXiv 2412.19437): a module reads what stood before it and the embedding of the tokens one further,
// and its output goes to the head like the model's own. Its tensors lie among those of the head.
struct PredictionModule {
  Norm token_norm, hidden_norm, final_norm;  // enorm, hnorm, shared_head.norm
  Linear projection;                         // eh_proj [h, 2h]
  int first_parameter = 0;                   // indices of the four count from here,
  int first_of_layer = 0;                    // those of its layer from here
};

// A tower of vision: square images, cut into patches, in place of tokens. Its tensors are those of the embedding, `vocabulary`
// is the number of classes.
struct ImageInput {
  std::int64_t channels = 3, size = 0, patch = 0;
  Linear projection;     // [h, channels x patch x patch] as a convolution stores it
  int class_index = -1;  // the token that stands first; -1: none does
  int position_index = -1;
  bool looks_up_positions = false;  // in a table; otherwise they are a parameter, added as it is
  bool averages = false;  // the classifier reads the mean over the patches, not the class token
  std::optional<Norm> class_norm;  // of the class token, whose output nobody reads
};

// SigLIP's: one learned query over the patches, a norm and a feed-forward network around what it has found.
struct PoolingHead {
  std::int64_t heads = 0;
  int probe_index = -1;  // the query, [1, 1, h]
  int packed_index = -1,
      packed_bias_index = -1;  // projections of query, keys and values in one tensor [3h, h]
  Linear output;
  Norm norm;
  DenseMlp mlp;
};

// Two towers whose outputs are compared, every image of a batch with every text of it: what the head reads of either, each
// divided by its length, and their products times e^scale. What belongs to images lies among the embedding's tensors, the rest
// among the head's.
struct Contrast {
  Norm image_norm;  // of the class token, or of all patches before the pooling head
  std::optional<PoolingHead> pooling;
  std::optional<Linear> image_projection;
  Linear text_projection;     // of one token of each text,
  bool pools_last = false;    // the last, or the one that says where it ends:
  bool highest_ends = false;  // that of the highest number
  bool sigmoid =
      false;  // each pair is a question of its own (siglip); otherwise softmax over a batch, both ways
  std::int64_t width = 0;  // of what is compared
  int scale_index = -1, bias_index = -1;
};

// A tower of vision before a stack of text. llava: what a layer of the tower has given, projected by two products around an
// activation, takes the places of the image tokens among the decoder's embeddings. clip: the two meet in the loss. All of it lies
// among the embedding's tensors: tables of text, the tower's from `first_tensor` on, the projector's from `first_of_projector` on.
struct VisionPart {
  std::int64_t hidden = 0;
  std::int64_t tokens = 0;    // of one image within the tower, the class token's with them
  std::int64_t features = 0;  // of one image that the decoder is given
  ImageInput image;           // its class_norm runs over the class token of the last layer
  std::optional<Norm> norm;   // of the patches, before the layers
  std::int64_t patches() const { return tokens - (image.class_index >= 0 ? 1 : 0); }
  std::size_t first_tensor = 0, first_of_projector = 0;
  Linear projection_in, projection_out;
  Activation activation = Activation::kGeluErf;
  std::optional<Contrast> contrast;
};

// Two stacks of layers. t5: an encoder, and a decoder whose every layer reads what the encoder has given, after a norm; both
// look their tokens up in one table. llava: a tower of vision, and a decoder that reads it among its own embeddings. clip: a
// tower of vision, and one of text ("decoder" below) that does not read it.
struct EncoderPart {
  std::int64_t layers = 0;     // the first of the model's; the others are the decoder's
  Norm norm;                   // of what the encoder gives; among the embedding's tensors
  std::string decoder_prefix;  // "decoder.block.", as `layer_prefix` is for the encoder
  bool scaled_output = false;  // what the head reads times h^-1/2
  std::optional<VisionPart> vision;
};

// What stands before the head of a masked-language model.
struct HeadTransform {
  Linear dense;
  Activation activation = Activation::kGeluErf;
  Norm norm;
};

// `count` consecutive layers of one kind; runs in a group repeat together (gemma3: 5 local, 1
// global, times).
struct LayerRun {
  int kind = 0;
  std::int64_t count = 1;
};
struct LayerGroup {
  std::vector<LayerRun> runs;
  std::int64_t times = 1;
};

// The numbers of the positions, where the model counts them and hands them to its layers.
enum class PositionIds : std::uint8_t {
  kNone,           // bloom; encoders read them from a buffer
  kOfTheBatch,     // one row for all sequences
  kOfEachSequence  // opt: from the mask, and once more with their offset for the table
};

struct Architecture {
  std::string name;             // preset name, or where it was read from
  std::string family;           // model_type
  std::string hub_id;           // "meta-llama/Llama-3.1-8B"; empty if unknown
  std::string layer_prefix;     // "model.layers." ; tensor name = prefix + index + "." + tensor
  std::int64_t vocabulary = 0;  // rows of the embedding as stored
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t maximum_positions = 0;
  bool encoder = false;  // bert: bidirectional, no causal loss shift
  bool tied_head = false;
  std::int64_t embedding_width = 0;  // hidden, but for opt-350m
  PositionIds position_ids = PositionIds::kOfTheBatch;
  bool learned_positions = false;
  bool token_types = false;  // bert: a third table of the embedding
  bool embedding_norm_present = false;
  Norm embedding_norm;
  double embedding_dropout = 0;
  bool scaled_embedding = false;           // gemma: times sqrt(h)
  bool embedding_scale_is_number = false;  // granite: the factor is no tensor
  bool scaled_logits = false;              // granite, cohere: the logits times a number
  // qwen2_5_vl: positions of three axes, and sines and cosines for each sequence of the batch
  bool positions_of_three_axes = false;
  std::optional<Linear> project_in, project_out;  // opt-350m
  // gemma3: one for windowed layers, one for the others; gptj: none beside those of its layers
  std::int64_t rotary_tables = 1;
  std::vector<Layer> kinds;
  bool embedding_output_asked = false;    // for a gradient, whether or not the embedding is trained
  bool head_input_needs_gradient = true;  // false: only the head is trained
  std::vector<LayerGroup> sequence;       // sums to `layers`
  std::optional<Norm> final_norm;
  std::optional<HeadTransform> head_transform;
  std::optional<ImageInput> image;
  std::optional<EncoderPart> encoder_part;
  Linear head;  // weight_index -1 when tied
  std::optional<double> final_softcap;
  std::vector<ParameterTensor>
      embedding_parameters;  // token, position, type embeddings, their norm, project_in
  std::vector<ParameterTensor>
      head_parameters;  // final norm, project_out, head (absent when tied), bias
  // In the total, and left out of the model that trains: bert's pooler.
  std::vector<ParameterTensor> left_out;
  // Parameters that exist beside `total` (multi-token prediction, poolers, heads): name -> count,
  // as the reference lists them.
  struct Beside {
    std::string name;
    std::int64_t parameters = 0;
  };
  std::vector<Beside> beside_total;
  std::int64_t prediction_layers = 0;  // multi-token prediction depth (weights beside the total)
  int prediction_layer_kind = -1;      // the layer a prediction module repeats
  std::vector<ParameterTensor>
      prediction_parameters;  // what one prediction module has besides: its norms and projection
  std::vector<PredictionModule>
      predictions;                // those that are trained; their kind is prediction_layer_kind
  bool guessed = false;           // made up from a size like "7B"
  std::string guess_rule;         // how, in one sentence; empty unless guessed
  std::int64_t adapter_rank = 0;  // of the adapters added; 0: none
};

// Of DenseMlp or ExpertMlp.
template <class Mlp>
bool some_layer_has(const Architecture& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(),
                     [](const Layer& layer) { return std::holds_alternative<Mlp>(layer.mlp); });
}

// Whether the second stack follows a tower of vision, and then: reads patches among its words, or is compared with it; or an
// encoder of text.
inline bool follows_vision(const Architecture& architecture) {
  return architecture.encoder_part && architecture.encoder_part->vision;
}
inline bool contrasts(const Architecture& architecture) {
  return follows_vision(architecture) && architecture.encoder_part->vision->contrast;
}
inline bool reads_patches(const Architecture& architecture) {
  return follows_vision(architecture) && !contrasts(architecture);
}
inline bool follows_encoder(const Architecture& architecture) {
  return architecture.encoder_part && !architecture.encoder_part->vision;
}

// Whether a trained tensor stands where no gradient comes.
bool has_unread_tensor(const Architecture& architecture);

// The first kind of layer; where there are two stacks, the decoder's.
const Layer& usual_layer(const Architecture& architecture);

// "model.layers.17.", of the layer with that place among all of the model's.
std::string prefix_of_layer(const Architecture& architecture, std::int64_t layer);

// Elements of one tensor, all copies together.
std::int64_t elements_of(const ParameterTensor& tensor);

struct ParameterCounts {
  std::int64_t total = 0;
  std::int64_t trainable = 0;  // not frozen
  std::int64_t active =
      0;  // touched by one token: routed experts count experts_per_token of experts
};
// Throws OverflowError when a count leaves 64 bits.
ParameterCounts count_parameters(const Architecture& architecture);

}  // namespace steelyard
