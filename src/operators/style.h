// Whose code runs, and in which types: what a layer's operators need to know besides the model.
#pragma once

#include "job/job.h"
#include "ledger/workbook.h"
#include "model/architecture.h"

namespace steelyard {

// The sizes of one micro-batch on one rank, with their letters.
template <class N>
struct Sizes {
  N batch{};         // b   sequences of the micro-batch
  N sequence{};      // s   tokens of a sequence on this rank (context parallel divides it)
  N tokens{};        // b·s
  N shard_tokens{};  // b·s/t with sequence parallelism, else b·s
  N tensor{};        // t
  N hidden{};        // h
  N vocabulary{};    // V, padded as the engine pads it
};

struct OperatorStyle {
  Implementation implementation = Implementation::kTransformers;
  ElementType compute = ElementType::kBFloat16;          // of matrix products
  ElementType residual = ElementType::kBFloat16;         // of the residual stream
  ElementType gradient = ElementType::kBFloat16;         // of a parameter's .grad
  ElementType weight_gradient = ElementType::kBFloat16;  // as the backward kernel first writes it
  bool autocast = false;
  AttentionKernel attention = AttentionKernel::kFlash;
  LossKernel loss = LossKernel::kPlain;
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  bool distributed_tensors = false;     // torch's DTensor cuts weights and activations
  bool cuts_gradients_at_once = false;  // FSDP keeps of a gradient what the parameter has here
  bool recompute_reentrant = false;
  double residual_dropout = 0, attention_dropout = 0, embedding_dropout = 0;
  bool gathers_into_buffers = false;  // gathers go into buffers that the engine holds for good
  bool adds_biases = false;  // some product of PyTorch's own adds a bias: cuBLASLt's workspace
  bool ends_meet = true;  // the embedding and the head stand on one rank: no pipeline between them
  // torch.distributed.pipelining: the schedule asks for the loss of what the last stage has given, and keeps that.
  bool schedule_asks_for_loss = false;
  std::int64_t multiprocessors = 132;  // of the device
};

// Pipelines of DDP, FSDP1 and FSDP2 run on torch.distributed.pipelining; the other engines bring their own.
bool runs_on_torch_pipelining(const Job& job);

OperatorStyle style_of(const Job& job);

template <class N>
Sizes<N> sizes_of(const Job& job);

// The vocabulary rows as the engine stores them.
std::int64_t padded_vocabulary(const Job& job);

}  // namespace steelyard
