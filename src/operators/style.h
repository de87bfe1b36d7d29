// Whose code runs, and in which types: what a layer's operators need to know besides the model.
#pragma once

#include "job/job.h"
#include "ledger/workbook.h"
#include "model/architecture.h"
#include "operators/work.h"

namespace steelyard {

// The sizes of one micro-batch on one rank, with their letters.
template <class N>
struct Sizes {
  N batch{};         // b   sequences of the micro-batch, two of each pair
  N sequence{};      // s   tokens of a sequence on this rank (context parallel divides it)
  N tokens{};        // b·s
  N shard_tokens{};  // b·s/t with sequence parallelism, else b·s
  N tensor{};        // t
  N context{};       // c   ranks that share a sequence
  N hidden{};        // h
  N vocabulary{};    // V, padded as the engine pads it
};

// Whose code divides attention over the ranks of a sequence.
enum class ContextCode : std::uint8_t { kTorch, kTransformerEngine, kDeepSpeed };

// Whose code multiplies factors of 8 bits.
enum class EightBitCode : std::uint8_t { kNone, kTransformerEngine, kFloat8Linear };

struct OperatorStyle {
  Implementation implementation = Implementation::kTransformers;
  ElementType compute = ElementType::kBFloat16;          // of matrix products
  ElementType residual = ElementType::kBFloat16;         // of the residual stream
  ElementType gradient = ElementType::kBFloat16;         // of a parameter's .grad
  ElementType weight_gradient = ElementType::kBFloat16;  // as the backward kernel first writes it
  bool autocast = false;
  // A model that scores beside the trained one: its weights ask for gradients that nobody computes, so that autocast's cache
  // takes their casts; and whether this is the trained one beside it.
  bool scores = false, is_scored_beside = false;
  AttentionKernel attention = AttentionKernel::kFlash;
  AttentionCode attention_code = AttentionCode::kFlash;
  LossKernel loss = LossKernel::kPlain;
  std::int64_t loss_chunks = 8;
  LogProbabilities log_probabilities = LogProbabilities::kNone;
  bool likelihood_of_chosen = false;  // the loss of pairs has the cross entropy of their first, too
  bool rewards = false;               // the head gives one score
  std::int64_t prompt_tokens = 0;     // of a sequence, that do not count there
  Shifted shifted = Shifted::kLabels;
  // torch.compile: pointwise operators become one kernel, and what they make is made again in backward rather than kept:
  // the partitioner cuts the graph where the fewest bytes cross (torch/_functorch/partitioners.py).
  bool compiled = false;
  bool compiles_loss = false;
  bool norms_written_out = true;  // operator by operator, not one kernel
  bool fused_softmax = false;     // scale, mask and softmax of written-out attention are one kernel
  bool older_norms =
      false;  // torchtune's before 0.5, written out in Python; scaling's before 0.1, in fp32
  TorchRmsNorm rms_norm = TorchRmsNorm::kOneKernel;
  LigerChunks liger_chunks;
  bool liger =
      false;  // Liger's norms, gated feed-forward and rotary embedding in transformers' place
  bool local_layers = false;  // Megatron-core's, without Transformer Engine and Apex
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  // A column-parallel product's backward exchanges beside its two products: the gather of its input beside that of the
  // input's gradient, what becomes of that beside the weight's (megatron/core/tensor_parallel/layers.py,
  // LinearWithGradAccumulationAndAsyncCommunication; nanotron tensor_parallel/functional.py, async).
  bool exchanges_beside_products = false;
  // Every exchange of a product runs in pieces beside that product (transformer_engine/pytorch/module/base.py, initialize_ub).
  bool exchanges_in_pieces = false;
  std::int64_t context = 1;
  ContextCode context_code = ContextCode::kTorch;
  ContextMethod context_method = ContextMethod::kRing;
  std::int64_t context_inner = 1;
  std::int64_t expert = 1, expert_tensor = 1;
  Experts experts;
  bool distributed_tensors = false;  // torch's DTensor cuts weights and activations
  // Tensor ranks multiply by torch's own linear: without a bias its backward (mm) finds the weight's gradient first. Others
  // wrote a function of their own around it, which finds the input's first.
  bool multiplies_as_torch = false;
  bool cuts_gradients_at_once = false;  // FSDP keeps of a gradient what the parameter has here
  bool parameters_are_views = false;    // of FSDP1's flat parameters
  bool recompute_reentrant = false;
  bool recomputes_ends = false;  // embedding, final norm and head are checkpointed as layers are
  // The residual stream lies as a convolution over patches gave it, channel by channel: sums keep that order.
  bool residual_by_channel = false;
  double residual_dropout = 0, attention_dropout = 0, embedding_dropout = 0;
  bool loss_parallel = true;  // logits stay divided over the tensor ranks
  // A sequence cut over the tensor ranks is gathered in front of a block's products, once, and kept whole.
  bool gathers_once = false;
  bool gathers_into_buffers = false;  // gathers go into buffers that the engine holds for good
  bool adds_biases = false;  // some product of PyTorch's own adds a bias: cuBLASLt's workspace
  bool ends_meet = true;  // the embedding and the head stand on one rank: no pipeline between them
  // torch.distributed.pipelining: the schedule asks for the loss of what the last stage has given, and keeps that.
  bool schedule_asks_for_loss = false;
  bool labels_come_shifted = false;
  std::int64_t multiprocessors = 132, threads_of_each = 2048;  // of the device
  // Products of 8-bit factors, in layers alone, not in the head. Transformer Engine keeps inputs in 8 bits, with a scale
  // for each block of them or one for the tensor; torchao quantises factors with a scale for each row or one for all.
  EightBitCode eight_bits = EightBitCode::kNone;
  bool eight_bit_blocks = false, row_scales = false;
  bool offloads_saved = false;  // what autograd saves waits on the host
  // An optimizer that steps each tensor in backward (null: none), and its copies of one while it does.
  const Training* stepped_in_backward = nullptr;
  std::int64_t stepped_copies = 0;
  // Adapters (null: none): the type their matrices have when they multiply, and that of products with quantised weights.
  const Adapter* adapter = nullptr;
  ElementType adapter_compute = ElementType::kFloat32;
  ElementType quantised_compute = ElementType::kBFloat16;
  bool quantised_keeps_input = false, always_dequantises = false, quantised_from_fp16 = false;
};

OperatorStyle style_of(const Job& job);

template <class N>
Sizes<N> sizes_of(const Job& job);

// The vocabulary rows as the engine stores them.
std::int64_t padded_vocabulary(const Job& job);

}  // namespace steelyard
