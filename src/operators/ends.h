// The two ends of a model: from token ids to the residual stream, and from the residual stream to the loss.
#pragma once

#include "operators/composer.h"

namespace steelyard {

// Token (and position) embeddings, their norm and dropout. `ids` are the int64 token ids of the micro-batch.
template <class N>
ValueId compose_embedding(Composer<N>& composer, const Architecture& model, ValueId ids);

// Final norm, head and cross entropy: where backward starts. Gives the loss when the caller gets it as a tensor of its
// own, else kNoValue.
template <class N>
ValueId compose_head(Composer<N>& composer, const Architecture& model, ValueId x, ValueId labels);

// Cross entropy alone, from logits that are there.
template <class N>
ValueId compose_cross_entropy(Composer<N>& composer, const Architecture& model, ValueId logits,
                              ValueId labels);

}  // namespace steelyard
