// Which stream a slot's tensor is allocated on. A cached block serves only the stream that it was allocated on, so what
// communication frees does not help computation, and the other way round.
//
//   compute   parameters, activations, gradients: everything that is not named here
//   gather    what is gathered, and the casts made for it
//   reduce    what a reduction makes, and the gradient shards cut from it
#pragma once

#include "allocator/caching_allocator.h"
#include "ledger/program.h"

namespace steelyard {

constexpr StreamId kComputeStream = kDefaultStream;
constexpr StreamId kGatherStream = 1;
constexpr StreamId kReduceStream = 2;
constexpr StreamId kCastStream = 3;  // FSDP1 casts its shards on a third

constexpr StreamId kCollectiveStream = 4;  // the communication library's own: allocates nothing

// An engine calls torch.cuda.empty_cache() where such a slot, of no bytes, appears.
bool empties_cache(const Slot& slot);

StreamId stream_of(const Slot& slot);

}  // namespace steelyard
