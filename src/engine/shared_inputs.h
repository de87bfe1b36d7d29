// What a model of transformers makes once in its forward and hands to every layer, and the buffers that it holds.
//
//   positions [s]      masks [b, s, s] or [s, s]      sines and cosines [s, d], two of each table      alibi [b·n, s]
//
// They go when the model's forward returns; but what a layer needs for backward, and all that a checkpointed layer was
// given, stays until the last layer that keeps it has run backward.
#pragma once

#include <vector>

#include "job/job.h"
#include "ledger/workbook.h"
#include "operators/style.h"

namespace steelyard {

struct SharedInput {
  SlotId slot = -1;
  std::int32_t count = 1;
  bool kept = false;                // for backward
  bool of_the_loop = false;         // the training loop's: stays while head and loss run
  std::vector<bool> readers;        // the kinds of layers that are given it
  std::vector<Event> making, made;  // what it is made of: before it is there, and what then goes
};
template <class N>
std::vector<SharedInput> shared_inputs(const Job& job, const OperatorStyle& style,
                                       const Sizes<N>& sizes, Workbook<N>& book);

struct ModelBuffer {
  // Each chunk of layers is a model cut down, with a rotary embedding of its own.
  static constexpr int kOfEmbedding = -1, kOfChunk = -2;

  SlotId slot = -1;
  std::int32_t count = 1;
  int kind = kOfChunk;  // of the layers that have one each
};
template <class N>
std::vector<ModelBuffer> model_buffers(const Job& job, Workbook<N>& book);

// torch's context_parallel cuts tokens, labels and positions in place while it lasts: the storage of the whole stays, and a
// name in it holds the parts.
bool cuts_inputs(const Job& job, const OperatorStyle& style);

}  // namespace steelyard
